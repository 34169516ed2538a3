"""How the token gets to a browser: never on a command line, which all users of the machine see."""

from __future__ import annotations

import html
import os
import re
import secrets
import shutil
import tempfile
from pathlib import Path

__all__ = ["Opening", "token_of"]


class Opening:
    """A file that only this user can read, and that leads to the page; gone when it is closed."""

    def __init__(self, url: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pgq-ui-"))
        self.file = self._folder / "open.html"
        told = html.escape(url)
        _write(
            self.file,
            '<!doctype html><meta charset="utf-8"><title>pgq</title>'
            '<meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0; url={told}"><a href="{told}">pgq</a>\n',
        )

    def close(self) -> None:
        """Remove it; once more does no harm."""
        shutil.rmtree(self._folder, ignore_errors=True)


def token_of(file: Path) -> str:
    """The token in a file that no other user can read; made, with the file, when it is missing."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        token = secrets.token_urlsafe(24)
        _write(file, f"{token}\n")
        return token
    with os.fdopen(descriptor, encoding="utf-8") as opened:
        if os.name == "posix" and os.fstat(descriptor).st_mode & 0o077:
            raise ValueError(f"{file} can be read or written by others: chmod 600 {file}")
        token = opened.read().strip()
    if not re.fullmatch(r"[\w-]{16,}", token, re.ASCII):
        raise ValueError(f"{file} has no token: 16 letters, digits, - or _, or more")
    return token


def _write(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
