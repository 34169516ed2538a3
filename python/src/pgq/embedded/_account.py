"""The operating-system user that a server runs as."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgq.embedded._errors import EmbeddedServerError

__all__ = ["Account"]


@dataclass(frozen=True)
class Account:
    """The operating-system user that the server runs as; ``switch`` when it is not ours."""

    uid: int
    gid: int
    switch: bool

    @classmethod
    def current(cls) -> Account:
        """Our own user, or nobody when that is root."""
        uid = os.geteuid()
        if uid != 0:
            try:
                pwd.getpwuid(uid)
            except KeyError:
                raise EmbeddedServerError(
                    f"user id {uid} has no entry in /etc/passwd, and PostgreSQL's initdb needs "
                    "one: run as a named user, or set DATABASE_URL to a running server"
                ) from None
            return cls(uid, os.getegid(), switch=False)
        try:
            nobody = pwd.getpwnam("nobody")
        except KeyError:
            raise EmbeddedServerError(
                "PostgreSQL does not run as root and there is no user nobody to run it as: "
                "run as an ordinary user, or set DATABASE_URL to a running server"
            ) from None
        return cls(nobody.pw_uid, nobody.pw_gid, switch=True)

    def process_options(self) -> dict[str, Any]:
        """What makes :mod:`subprocess` run a program as this user."""
        if not self.switch:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give a file or a folder to this user."""
        if self.switch:
            os.chown(path, self.uid, self.gid)

    def can_reach(self, path: Path) -> bool:
        """Whether the account may read below ``path`` (by the permission bits for others)."""
        if not self.switch:
            return True
        real = path.resolve()
        folders = [real, *real.parents] if real.is_dir() else list(real.parents)
        return all(folder.stat().st_mode & 0o001 for folder in folders)

    def require(self, folder: Path) -> None:
        """Raise when the account cannot work in a folder."""
        if not self.can_reach(folder):
            raise EmbeddedServerError(
                f"the server runs as the user nobody, who cannot reach {folder}: choose a folder "
                "(TMPDIR for temporary ones) whose parents all users may enter, such as /var/tmp"
            )
