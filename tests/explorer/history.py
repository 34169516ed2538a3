"""What happened in a trial: who called what when, and what was answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from explorer.database import Answer, Row
from explorer.script import Step, Value

__all__ = ["Event", "History", "Transaction", "Violation"]

Order = tuple[int, int, int, int]
ROUNDS = 1000
"""More than any trial takes to be worked off."""


@dataclass(frozen=True)
class Violation:
    """A promise that was broken: in a word, and in a sentence."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass
class Transaction:
    """A transaction of a session; ``tick`` is when it had ended, ``committed`` how."""

    session: int
    level: str | None
    number: int
    started: int
    steps: list[Step] = field(default_factory=list)
    ending: str = "commit"
    events: list[Event] = field(default_factory=list)
    ended: int = -1
    place: int = 0
    pid: int = 0
    committed: bool = False
    alone: bool = False
    over: bool = False

    @property
    def failed(self) -> str | None:
        """The code of the error that ended it."""
        return next((e.answer.code for e in self.events if e.answer and e.answer.code), None)


@dataclass
class Event:
    """A call that was begun; ``ended`` and ``answer`` come when it is done."""

    call: str
    arguments: dict[str, Value]
    transaction: Transaction
    index: int
    started: int
    statement: str
    ended: int = -1
    waited: bool = False
    answer: Answer | None = None

    @property
    def rows(self) -> list[Row]:
        return self.answer.rows if self.answer is not None else []

    @property
    def succeeded(self) -> bool:
        return self.answer is not None and self.answer.code is None

    @property
    def numbers(self) -> list[int]:
        """By which its messages are told apart."""
        return list(self.arguments.get("#", ()))

    @property
    def order(self) -> Order:
        """Sorts by the commits; what ended in one tick is in the order that was seen."""
        t = self.transaction
        return (t.ended, t.place, t.number, self.index)


@dataclass
class History:
    """All of a trial. A tick is the beginning of a step."""

    transactions: list[Transaction] = field(default_factory=list)
    moves: list[tuple[int, int]] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    tick: int = 0

    def committed(self, *calls: str) -> list[Event]:
        """Calls that were answered without an error and committed, in the order of the commits."""
        found = [
            event
            for transaction in self.transactions
            if transaction.committed
            for event in transaction.events
            if event.succeeded and (not calls or event.call in calls)
        ]
        return sorted(found, key=lambda event: event.order)

    def events(self, *calls: str) -> list[Event]:
        """All calls of these names, whatever became of them."""
        return [e for t in self.transactions for e in t.events if e.call in calls]

    def was_beside(self, transaction: Transaction) -> bool:
        """Whether another transaction was open at any time of this one."""
        return any(
            t is not transaction
            and t.started <= transaction.ended
            and (t.ended >= transaction.started or t.ended < 0)
            for t in self.transactions
            if t.events
        )

    def rounds(self, told: str) -> Iterator[int]:
        """The numbers of the rounds in which something is worked off, which has to end."""
        yield from range(1, ROUNDS + 1)
        self.violate("endless", told)

    def violate(self, kind: str, text: str) -> None:
        self.violations.append(Violation(kind, text))

    # ------------------------------------------------------------------ time

    def clock(self, first: int, last: int) -> tuple[int, int]:
        """The least and the most by which the clock was ahead between two ticks, in seconds."""
        ahead = 0
        seen = []
        for tick, seconds in self.moves:
            if tick > last:
                break
            if tick >= first:
                seen.append(ahead)
            ahead += seconds
            if tick >= first:
                seen.append(ahead)
        seen.append(ahead)
        return min(seen), max(seen)

    def passed(self, first: int, last: int) -> int:
        """The seconds by which the clock went ahead between two ticks; back counts as nothing."""
        return sum(max(s, 0) for tick, s in self.moves if first <= tick <= last)

    def last_cleanup(self) -> int:
        """The tick by which the last cleanup had ended."""
        return max((e.ended for e in self.events("cleanup")), default=-1)

    def went_back(self) -> int:
        """The tick at which the clock was last set back; 0: never."""
        return max((tick for tick, seconds in self.moves if seconds < 0), default=0)
