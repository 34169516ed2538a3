"""What is grown: the parts whose calls one session makes, with databases for their steps."""

from __future__ import annotations

import random
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
MANY = 300
WARM_UP = 2
NOBODY = "00000000-0000-0000-0000-000000000000"
"""The lease of a job that EXPLAIN has claimed, and does not show."""


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
        return f"µs for {self.of}"


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
        with _session(database) as connection:
            return [self._measure(connection, line, step, seconds, luck) for line in self.lines]

    def finish(self, database: Database, step: int) -> Sequence[Measured]:
        """The last lines: one call each."""
        found = []
        with _session(database) as connection:
            for line in self.last:
                values = self._values(step, random.Random(step))
                cost = _call(connection, line, values)
                found.append(Measured(line.name, line.unit, cost, None))
        return found

    def _measure(
        self,
        connection: psycopg.Connection[dict[str, Any]],
        line: Line,
        step: int,
        seconds: float,
        luck: random.Random,
    ) -> Measured:
        for _ in range(WARM_UP):
            _call(connection, line, self._values(step, luck))
        taken: list[float] = []
        begun = time.perf_counter()
        while len(taken) < FEW or (len(taken) < MANY and time.perf_counter() - begun < seconds):
            taken.append(_call(connection, line, self._values(step, luck)))
        pages = [_pages(connection, line, self._values(step, luck)) for _ in range(FEW)]
        return Measured(line.name, line.unit, statistics.median(taken), statistics.median(pages))


@cache
def _body(size: int) -> bytes:
    return body_of(size).encode()


def _session(database: Database) -> psycopg.Connection[dict[str, Any]]:
    connection = psycopg.connect(database.dsn, autocommit=True, row_factory=dict_row)
    # a flush takes what the disk likes to, and the same at each step
    connection.execute("set synchronous_commit = off")
    return connection


def _run(
    connection: psycopg.Connection[dict[str, Any]], statement: str, values: dict[str, Any]
) -> None:
    found = connection.execute(statement.encode(), values)
    row = found.fetchone() if found.description else None
    values.update(row or {})


def _call(
    connection: psycopg.Connection[dict[str, Any]], line: Line, values: dict[str, Any]
) -> float:
    """The microseconds of one call, divided by what its line says."""
    for statement in line.before:
        _run(connection, statement, values)
    begun = time.perf_counter()
    found = connection.execute(line.statement.encode(), values)
    rows = found.fetchall() if found.description else []
    taken = (time.perf_counter() - begun) * 1e6
    values.update(rows[0] if rows else {})
    for statement in line.after:
        _run(connection, statement, values)
    return taken / float(values[line.per] or 1) if line.per else taken


def _pages(
    connection: psycopg.Connection[dict[str, Any]], line: Line, values: dict[str, Any]
) -> float:
    """How many pages a call touches, with those of all that it calls."""
    for statement in line.before:
        _run(connection, statement, values)
    explain = f"explain (analyze, buffers, timing off, format json) {line.statement}"
    row = connection.execute(explain.encode(), values).fetchone()
    assert row is not None
    plan = row["QUERY PLAN"][0]["Plan"]
    for statement in line.after:
        _run(connection, statement, {"job_id": 0, "lease_token": NOBODY, **values})
    pages = float(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
    return pages / float(values[line.per] or 1) if line.per in values else pages
