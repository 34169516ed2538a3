"""What a client writes down about itself: it outlives the client, however that ends."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Entry", "Journal", "entries"]

Entry = dict[str, Any]


class Journal:
    """Lines of JSON, each written at once and with the time of the whole machine."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)

    def note(self, what: str, **more: Any) -> None:
        """Write a line."""
        line = json.dumps({"at": time.monotonic_ns(), "what": what, **more}, default=str)
        # the client before may have been killed in the middle of a line
        os.write(self._file, b"\n" + line.encode() + b"\n")


def entries(path: Path) -> Iterator[Entry]:
    """All lines of a journal but those that were being written when a client was killed."""
    for line in path.read_bytes().splitlines():
        if line.startswith(b"{") and line.endswith(b"}"):
            try:
                yield json.loads(line)
            except ValueError:
                continue
