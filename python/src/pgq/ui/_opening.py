"""How the token gets to a browser: never on a command line, which all users of the machine see."""

from __future__ import annotations

import html
import os
import shutil
import tempfile
from pathlib import Path

__all__ = ["Opening", "write_token"]


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


def write_token(file: Path, token: str) -> None:
    """Write the token into a file that only this user can read; one that is there is replaced."""
    folder = Path(tempfile.mkdtemp(prefix=".pgq-ui-", dir=file.absolute().parent))
    try:
        _write(folder / "token", f"{token}\n")
        (folder / "token").replace(file)
    finally:
        folder.rmdir()


def _write(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
