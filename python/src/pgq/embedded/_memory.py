"""Shared memory that a killed server leaves behind."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from pgq.embedded._lock_file import LockFile

__all__ = ["SharedMemory"]

_IPC_RMID = 0


@dataclass(frozen=True)
class SharedMemory:
    """What a killed server leaves in memory; the next start on its data would remove it."""

    segment: int | None = None
    files: frozenset[Path] = frozenset()

    @classmethod
    def of(cls, data: Path, family: Iterable[psutil.Process]) -> SharedMemory:
        """The memory of the server on a data folder, whose processes are still there."""
        note = LockFile.of(data)
        files = (Path(path) for process in family for path in _mapped(process))
        return cls(
            segment=None if note is None else note.segment,
            files=frozenset(file for file in files if file.match("/dev/shm/PostgreSQL.*")),
        )

    def remove(self) -> None:
        """Give it back to the system."""
        if self.segment is not None:
            ctypes.CDLL(None).shmctl(self.segment, _IPC_RMID, None)
        for file in self.files:
            with contextlib.suppress(OSError):
                file.unlink()


def _mapped(process: psutil.Process) -> list[str]:
    """The files that a process has mapped, where the system tells."""
    try:
        return [mapped.path for mapped in process.memory_maps()]
    except (psutil.Error, AttributeError):
        return []
