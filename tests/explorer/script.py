"""What a trial is: steps of several sessions in one order, all of it drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = [
    "ENDINGS",
    "HOUSE",
    "LEVELS",
    "ROUND",
    "Late",
    "Step",
    "Trial",
    "Value",
    "written",
]

LEVELS = ("read committed", "repeatable read", "serializable")
ENDINGS = ("commit", "rollback")
ROUND = "round"
"""In place of a call: all that was begun ends, and no later call names what was answered so far."""
HOUSE = 0
"""The session that sets up and tidies up; each of its steps is a transaction of its own."""

Value = Any


@dataclass(frozen=True)
class Late:
    """An argument that only the run knows: the nth of the things of a kind that were answered.

    What the session itself was answered comes first. It stands for all arguments of such a thing: a
    claimed job brings its ``job_id`` and its ``lease_token``.
    """

    kind: str
    nth: int

    def __str__(self) -> str:
        return f"{self.kind} {self.nth}"


@dataclass(frozen=True)
class Step:
    """One call of one session, or the end of its transaction.

    ``arguments`` are those of the function, by name. ``"*"`` may hold a :class:`Late`; ``"#"``
    holds the numbers by which the messages are told apart. ``pause``: at which gate the call stops,
    and for how many of the steps that follow; see :mod:`explorer.gates`.
    """

    session: int
    call: str
    arguments: dict[str, Value] = field(default_factory=dict)
    pause: tuple[int, int] | None = None

    def __str__(self) -> str:
        arguments = ", ".join(
            f"{name} => {value}" if name != "*" else f"<{value}>"
            for name, value in self.arguments.items()
            if name != "#"
        )
        return f"{self.call}({arguments})" if self.call not in ENDINGS else self.call


@dataclass(frozen=True)
class Trial:
    """A set-up, the steps of the sessions in the order in which they are begun, and what follows.

    ``levels`` has the isolation level of each session from 1 on; None is autocommit. A session that
    is still within a transaction when the steps end commits. ``lock_timeout`` is for cleanup alone.
    """

    name: str
    levels: tuple[str | None, ...]
    setup: tuple[Step, ...]
    steps: tuple[Step, ...]
    tail: tuple[Step, ...]
    lock_timeout: str = "30ms"
    dropped: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.setup) + len(self.steps) + len(self.tail)

    def level(self, session: int) -> str | None:
        return None if session == HOUSE else self.levels[session - 1]

    def without(self, places: Iterable[int]) -> Trial:
        """The same trial with the steps at these places left out."""
        return replace(self, dropped=self.dropped | frozenset(places))

    def _numbered(self) -> Iterator[tuple[int, str, Step]]:
        parts = [("setup", self.setup), ("steps", self.steps), ("tail", self.tail)]
        place = 0
        for part, steps in parts:
            for step in steps:
                if place not in self.dropped:
                    yield place, part, step
                place += 1

    def places(self) -> list[int]:
        """The places of the steps that are not left out."""
        return [place for place, _, _ in self._numbered()]

    def part(self, name: str) -> list[Step]:
        """The steps of ``setup``, ``steps`` or ``tail`` that are not left out."""
        return [step for _, part, step in self._numbered() if part == name]


def written(value: Value) -> str:
    """A value as SQL; lists are arrays, whose type the function's argument says."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (list, tuple)):
        items = ",".join(
            "null" if item is None else '"' + _escaped(str(item)) + '"' for item in value
        )
        return "'{" + items.replace("'", "''") + "}'"
    return "'" + str(value).replace("'", "''") + "'"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
