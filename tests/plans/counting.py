"""What a statement reads, counted by the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

from psycopg.rows import namedtuple_row

from support.session import Session

__all__ = ["Reader", "Work", "refuse_growth"]

T = TypeVar("T")

_COUNTERS = """
    select
        coalesce(sum(pg_stat_get_xact_tuples_returned(c.oid)) filter (where c.relkind = 'i'), 0)
            ::bigint as entries,
        coalesce(sum(pg_stat_get_xact_numscans(c.oid)) filter (where c.relkind = 'r'), 0)
            ::bigint as scans,
        array_agg(c.relname::text order by c.relname) filter (
            where c.relkind = 'r' and pg_stat_get_xact_numscans(c.oid) > 0
        ) as scanned
    from pg_class as c
    where c.relnamespace = 'pgq'::regnamespace
        and c.relkind in ('i', 'r')
"""


@dataclass(frozen=True)
class Work:
    """What was read: entries of indexes, and tables from end to end."""

    entries: int
    scanned: frozenset[str]


class Reader:
    """A session that keeps account of what each of its calls reads."""

    def __init__(self, dsn: str) -> None:
        self.connection = Session.connect(dsn, autocommit=True, row_factory=namedtuple_row)
        self.last = Work(0, frozenset())

    def call(self, function: str, **arguments: Any) -> list[Any]:
        """Call a function in a transaction of its own and return its rows; see ``last``."""
        named = ", ".join(f"{name} => %({name})s" for name in arguments)
        return self.run(f"select * from pgq.{function}({named})", arguments)

    def run(self, statement: str, arguments: dict[str, Any]) -> list[Any]:
        """Run a statement in a transaction of its own and return its rows; see ``last``."""
        return self.follow(
            lambda: self.connection.execute(statement.encode(), arguments).fetchall()
        )

    def follow(self, reads: Callable[[], T]) -> T:
        """Do it, on this connection, in a transaction of its own; see ``last``."""
        with self.connection.transaction():
            before = self._counters()
            found = reads()
            after = self._counters()
        scanned = set(after.scanned or ()) if after.scans > before.scans else set()
        self.last = Work(after.entries - before.entries, frozenset(scanned))
        return found

    def _counters(self) -> Any:
        return self.connection.execute(_COUNTERS).fetchone()

    def close(self) -> None:
        self.connection.close()


def refuse_growth(work: list[int], allowance: int = 30) -> None:
    """What calls read at the end is no more than at the beginning, but for the allowance.

    The floor of a queue rises by the clock: on a busy machine some calls later, and those read
    more. So the least of the last ones counts.
    """
    third = len(work) // 3
    first, last = median(work[:third]), min(work[-third:])
    assert last <= first * 1.2 + allowance, f"reads grew: {work}"
