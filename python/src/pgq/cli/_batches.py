"""Storing what was read, batch by batch, and saying exactly what was stored."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from typing import IO, Any

import psycopg

from pgq import Client
from pgq.cli._errors import interrupted, one_line, warn
from pgq.cli._input import BadLine, Format, Item, read

__all__ = ["Outcome", "Writer", "write_all"]

SOON = 0.2
"""Seconds that what was read waits for more before it is stored."""

_REFUSED = (psycopg.DataError, psycopg.errors.ProgramLimitExceeded)
"""What may be due to one item of a batch."""


@dataclass(slots=True)
class Writer:
    """Where items go: `write` stores a batch and returns how many of it were duplicates."""

    client: Client
    write: Callable[[Client, list[Item]], int]
    batch: int
    skip_bad: bool
    all_or_none: bool


@dataclass(slots=True)
class Outcome:
    """What came of the input."""

    stored: int = 0
    duplicates: int = 0
    last_line: int = 0
    """Up to this line all is stored, but for the bad ones."""
    bad: list[BadLine] = field(default_factory=list)
    failure: str | None = None
    """Why it ended early."""
    interrupted: bool = False

    def report(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "stored": self.stored,
            "duplicates": self.duplicates,
            "stored_up_to_line": self.last_line,
            "bad_lines": [{"line": one.line, "reason": one.reason} for one in self.bad],
        }

    def said(self) -> str:
        """How many, in words."""
        known = f" ({self.duplicates:,} more were there before)" if self.duplicates else ""
        return f"stored {self.stored:,}{known}"


class _StopError(Exception):
    """The rest is not to be stored; the message says why."""


def write_all(
    writer: Writer,
    stream: IO[bytes],
    form: Format,
    texts: tuple[str, ...],
    key_column: str | None,
) -> Outcome:
    """Store all that the input has, up to the first bad line, or but for these."""
    outcome = Outcome()
    pending: list[Item] = []
    # what may have been stored when the connection is lost in the middle of it
    unknown: list[Item] = []
    ending = False
    with ExitStack() as stack:
        try:
            try:
                if writer.all_or_none:
                    stack.enter_context(writer.client.connection.transaction())
                for entry in _arriving(read(stream, form, texts, key_column)):
                    if isinstance(entry, Exception):
                        raise entry
                    if isinstance(entry, Item):
                        pending.append(entry)
                        if len(pending) < writer.batch:
                            continue
                    unknown = pending
                    pending = []
                    _store(writer, unknown, outcome)
                    unknown = []
                    if isinstance(entry, BadLine):
                        _note(writer, entry, outcome)
                unknown = pending
                _store(writer, unknown, outcome)
                ending = True
                stack.close()  # which commits, where all is one transaction
            except BaseException as error:
                if writer.all_or_none:
                    stack.__exit__(type(error), error, error.__traceback__)
                raise
        except _StopError as stop:
            outcome.failure = str(stop)
        except KeyboardInterrupt:
            outcome.failure = "interrupted"
            outcome.interrupted = True
        except (ValueError, OSError) as error:
            outcome.failure = str(error)
        except psycopg.Error as error:
            outcome.interrupted = interrupted(error)
            outcome.failure = (
                "interrupted" if outcome.interrupted else one_line(error, writer.client.connection)
            )
    if outcome.failure is not None:
        lost = writer.client.connection.closed or outcome.interrupted
        if writer.all_or_none:
            outcome.stored = outcome.duplicates = outcome.last_line = 0
            told = "whether it was stored is not known" if lost and ending else "nothing was stored"
            outcome.failure = f"{outcome.failure}; {told}"
        else:
            behind = [item.line for item in unknown if item.line > outcome.last_line]
            _tell_the_rest(outcome, behind if lost else [])
    return outcome


def _tell_the_rest(outcome: Outcome, behind: list[int]) -> None:
    """Say what is stored; of the lines `behind` that nobody knows, as when a commit is lost."""
    known = f"lines up to {outcome.last_line} are stored" if outcome.last_line else None
    if behind:
        rest = f"whether lines {behind[0]} to {behind[-1]} are stored is not known"
        told = f"{known}; {rest}" if known else rest
    else:
        told = f"{known}, none after it" if known else "nothing was stored"
    outcome.failure = f"{outcome.failure}; {told}"


def _note(writer: Writer, bad: BadLine, outcome: Outcome) -> None:
    outcome.bad.append(bad)
    if not writer.skip_bad:
        raise _StopError(f"line {bad.line}: {bad.reason}")
    warn(f"line {bad.line} left out: {bad.reason}")


def _store(writer: Writer, items: list[Item], outcome: Outcome) -> None:
    """Store a batch; where the database refuses it, look which of its items it is."""
    start = 0
    for end in range(1, len(items) + 1):
        # a call takes either payloads or bodies
        if end < len(items) and (items[end].body is None) == (items[start].body is None):
            continue
        part = items[start:end]
        start = end
        try:
            _write(writer, part, outcome)
        except _REFUSED as error:
            if len(part) == 1:
                _note(writer, BadLine(part[0].line, one_line(error)), outcome)
                continue
            for item in part:
                try:
                    _write(writer, [item], outcome)
                except _REFUSED as refused:
                    _note(writer, BadLine(item.line, one_line(refused)), outcome)


def _write(writer: Writer, items: list[Item], outcome: Outcome) -> None:
    with writer.client.connection.transaction():
        duplicates = writer.write(writer.client, items)
    outcome.duplicates += duplicates
    outcome.stored += len(items) - duplicates
    outcome.last_line = items[-1].line


def _arriving(
    entries: Iterator[Item | BadLine],
) -> Iterator[Item | BadLine | Exception | None]:
    """What another thread reads; None when nothing more came for a moment."""
    arrived: Queue[Item | BadLine | Exception | None] = Queue(10_000)
    over = threading.Event()
    ended = object()

    def hand_over(entry: Any) -> bool:
        while not over.is_set():
            try:
                arrived.put(entry, timeout=SOON)
            except Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for entry in entries:
                if not hand_over(entry):
                    return
        except Exception as error:
            hand_over(error)
        hand_over(ended)

    threading.Thread(target=work, daemon=True).start()
    waiting = False
    try:
        while True:
            try:
                entry: Any = arrived.get(timeout=SOON if waiting else 60.0)
            except Empty:
                waiting = False
                yield None
                continue
            if entry is ended:
                return
            waiting = True
            yield entry
    finally:
        over.set()
