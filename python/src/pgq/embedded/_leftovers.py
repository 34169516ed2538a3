"""Whose a server's folder is, and removing what servers of ended Pythons left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import psutil

from pgq.embedded._account import Account
from pgq.embedded._errors import EmbeddedServerError
from pgq.embedded._lock_file import LockFile
from pgq.embedded._processes import alive, end_orphan, is_postgres

__all__ = ["make_folder", "release", "sweep", "take_over"]

_PREFIX = "pgq-server-"
_OWNER_FILE = "owner.pid"


def make_folder(owner: int, account: Account) -> Path:
    """A temporary folder that :func:`sweep` removes when the owner, a Python, has ended."""
    account.require(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    folder.chmod(0o755)
    _note(folder, owner)
    return folder


def take_over(directory: Path, owner: int) -> None:
    """Note whose server this is; end one whose Python was killed, refuse any other."""
    data = directory / "data"
    running = LockFile.of(data)
    if running is not None and is_postgres(running.pid):
        before = _owner(directory)
        if before is None or alive(before):
            raise EmbeddedServerError(
                f"a server already runs on {directory} (process {running.pid})"
            )
        end_orphan(running.pid, data)
    _note(directory, owner)


def release(directory: Path) -> None:
    """The server on a lasting directory is nobody's now."""
    (directory / _OWNER_FILE).unlink(missing_ok=True)


def sweep() -> None:
    """Remove what servers of ended Python processes left in the temporary folder.

    Containers may share that folder and cannot see each other's processes: a folder that was noted
    in another namespace of process ids is left alone.
    """
    ours = (os.geteuid(), Account.current().uid)
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            owner = _owner(folder)
            if folder.stat().st_uid not in ours or owner is None or alive(owner):
                continue
            running = LockFile.of(folder / "data")
            if running is not None and is_postgres(running.pid):
                with contextlib.suppress(psutil.AccessDenied):
                    end_orphan(running.pid, folder / "data")
            shutil.rmtree(folder, ignore_errors=True)


def _note(folder: Path, owner: int) -> None:
    (folder / _OWNER_FILE).write_text(f"{owner} {_namespace()}\n")


def _owner(folder: Path) -> int | None:
    """The process that was noted, None where it cannot be judged from here."""
    try:
        owner, _, namespace = (folder / _OWNER_FILE).read_text().strip().partition(" ")
        return int(owner) if namespace == _namespace() else None
    except (OSError, ValueError):
        return None


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:  # not Linux: there is one
        return "-"
