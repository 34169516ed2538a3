"""What is grown: the parts whose calls one session makes, with databases for their steps."""

from __future__ import annotations

import random
import re
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import psycopg
from benchmarks.harness import Bench, Database
from benchmarks.pgbench import body_of
from psycopg.rows import dict_row

__all__ = ["Calls", "Line", "Measured", "Part"]

FEW = 3
"""Calls that are made of everything, however long they take."""
MANY = 200
WARM_UP = 2
NOBODY = "00000000-0000-0000-0000-000000000000"
"""The lease of a job that EXPLAIN has claimed, and does not show."""

SESSION = {
    # a flush takes what the disk likes to, and the same at each step
    "synchronous_commit": "off",
    # what a call takes of the processor is told to the client, and stands in no log
    "log_statement_stats": "on",
    "client_min_messages": "log",
    "log_min_messages": "panic",
}
USED = re.compile(r"([0-9.]+) s user, ([0-9.]+) s system, [0-9.]+ s elapsed")


@dataclass(frozen=True)
class Measured:
    """What a line cost in one round."""

    line: str
    unit: str
    cost: float
    pages: float | None


@dataclass(frozen=True, kw_only=True)
class Line:
    """One kind of call. Statements see what earlier ones of the same call have returned."""

    name: str
    statement: str
    before: Sequence[str] = ()
    """What a call needs; not measured."""
    after: Sequence[str] = ()
    per: str | None = None
    """A value that the cost is divided by: of the step, or of what the statement returned."""
    of: str = "a call"

    @property
    def unit(self) -> str:
        """What the cost is counted in."""
        return f"µs of processor for {self.of}"


@dataclass(frozen=True, kw_only=True)
class Part(ABC):
    """One thing that grows, by steps."""

    name: str
    title: str
    axis: str
    picture: str
    steps: Sequence[int]
    full: Sequence[int] = ()
    """Further steps, which --full adds."""
    apart: bool = True
    """Whether each step has a database of its own."""

    @abstractmethod
    def build(self, bench: Bench, database: Database, step: int) -> None:
        """Fill a database."""

    @abstractmethod
    def measure(
        self, bench: Bench, database: Database, step: int, seconds: float, luck: random.Random
    ) -> Sequence[Measured]:
        """One round of one step."""

    def finish(self, database: Database, step: int) -> Sequence[Measured]:
        """What can be measured once only, behind all rounds."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Calls(Part):
    """Calls of one session, one after the other."""

    builds: Sequence[str]
    """Statements with the values of the step, each a transaction."""
    lines: Sequence[Line]
    last: Sequence[Line] = ()
    """What changes so much that it comes once, behind all rounds."""
    values: Mapping[str, Any] = field(default_factory=dict)
    body: int | None = 100
    """Bytes of a message or job; None: as many as the step says."""

    def _values(self, step: int, luck: random.Random) -> dict[str, Any]:
        return {
            "n": step,
            "kilobytes": step / 1000,
            "any": luck.randint(1, step),
            "unique": luck.randrange(10**12),
            "share": luck.random(),
            "body": _body(step if self.body is None else self.body),
            **self.values,
        }

    def build(self, bench: Bench, database: Database, step: int) -> None:
        """Run the statements; one that returns a row is run until its ``left`` is 0."""
        values = self._values(step, random.Random(0))
        with database.connect() as connection:
            connection.execute("set synchronous_commit = off")
            for statement in self.builds:
                number = 0
                while True:
                    found = connection.execute(statement.encode(), {**values, "number": number})
                    row = found.fetchone() if found.description else None
                    names = [column.name for column in found.description or ()]
                    if row is None or names != ["left"] or row[0] <= 0:
                        break
                    number += 1

    def measure(
        self, bench: Bench, database: Database, step: int, seconds: float, luck: random.Random
    ) -> Sequence[Measured]:
        """All lines, each for so many seconds at most."""
        with _Session(database) as session:
            return [self._measure(session, line, step, seconds, luck) for line in self.lines]

    def finish(self, database: Database, step: int) -> Sequence[Measured]:
        """The last lines: one call each."""
        found = []
        with _Session(database) as session:
            for line in self.last:
                values = self._values(step, random.Random(step))
                cost = session.call(line, values)
                found.append(Measured(line.name, line.unit, cost, None))
        return found

    def _measure(
        self,
        session: _Session,
        line: Line,
        step: int,
        seconds: float,
        luck: random.Random,
    ) -> Measured:
        for _ in range(WARM_UP):
            session.call(line, self._values(step, luck))
        taken: list[float] = []
        begun = time.perf_counter()
        while len(taken) < FEW or (len(taken) < MANY and time.perf_counter() - begun < seconds):
            taken.append(session.call(line, self._values(step, luck)))
        pages = [session.pages(line, self._values(step, luck)) for _ in range(FEW)]
        return Measured(line.name, line.unit, statistics.median(taken), statistics.median(pages))


@cache
def _body(size: int) -> bytes:
    return body_of(size).encode()


class _Session:
    """A session that the server tells what each statement took of its processor."""

    def __init__(self, database: Database) -> None:
        self.connection = psycopg.connect(database.dsn, autocommit=True, row_factory=dict_row)
        self.used = 0.0
        for name, value in SESSION.items():
            self.connection.execute(f"set {name} = '{value}'".encode())
        self.connection.add_notice_handler(self._note)

    def _note(self, notice: psycopg.errors.Diagnostic) -> None:
        found = USED.search(notice.message_detail or "")
        if found:
            self.used += (float(found[1]) + float(found[2])) * 1e6

    def run(self, statement: str, values: dict[str, Any]) -> float:
        """Execute a statement; the values of its first row join the others. Microseconds."""
        self.used = 0.0
        found = self.connection.execute(statement.encode(), values)
        rows = found.fetchall() if found.description else []
        values.update(rows[0] if rows else {})
        return self.used

    def call(self, line: Line, values: dict[str, Any]) -> float:
        """The microseconds of one call, divided by what its line says."""
        for statement in line.before:
            self.run(statement, values)
        used = self.run(line.statement, values)
        for statement in line.after:
            self.run(statement, values)
        return used / float(values[line.per] or 1) if line.per else used

    def pages(self, line: Line, values: dict[str, Any]) -> float:
        """How many pages a call touches, with those of all that it calls; divided likewise."""
        for statement in line.before:
            self.run(statement, values)
        explain = f"explain (analyze, buffers, timing off, format json) {line.statement}"
        row = self.connection.execute(explain.encode(), values).fetchone()
        assert row is not None
        plan = row["QUERY PLAN"][0]["Plan"]
        for statement in line.after:
            self.run(statement, {"job_id": 0, "lease_token": NOBODY, **values})
        pages = float(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
        return pages / float(values[line.per] or 1) if line.per in values else pages

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
