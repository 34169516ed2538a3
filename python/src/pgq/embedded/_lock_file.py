"""What a server writes about itself into ``postmaster.pid`` of its data folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["LockFile"]


@dataclass(frozen=True)
class LockFile:
    """The lines of ``postmaster.pid`` that matter here; the server adds one after the other."""

    pid: int
    segment: int | None = None
    """The id of its System V shared memory."""
    ready: bool = False

    @classmethod
    def of(cls, data: Path) -> LockFile | None:
        """The file in a data folder, None where there is none that can be read."""
        try:
            lines = (data / "postmaster.pid").read_text().splitlines()
            words = lines[6].split() if len(lines) > 6 else []
            return cls(
                pid=abs(int(lines[0])),  # a server of one session, as initdb's, negates its own
                segment=int(words[1]) if len(words) == 2 else None,
                ready=len(lines) > 7 and lines[7].strip() in ("ready", "standby"),
            )
        except (OSError, ValueError, IndexError):
            return None
