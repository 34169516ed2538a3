"""What a command of the command line did."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["PGQ", "Done", "Run", "Start"]

PGQ = [sys.executable, "-m", "pgq"]


@dataclass(frozen=True)
class Done:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


Run = Callable[..., Done]
Start = Callable[..., Any]
