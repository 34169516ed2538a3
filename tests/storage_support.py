"""What tests of segments share: storage that goes on to new segments, and sessions that miss it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import psycopg
from psycopg.errors import SerializationFailure

from log_support import Log, aside
from support import Clock, wait_until

__all__ = [
    "LEVELS",
    "Connect",
    "actions",
    "clean",
    "misplaced",
    "old_snapshot",
    "ranges",
    "right_or_again",
    "seal",
    "seal_and_close",
    "started",
]

Connect = Callable[..., "psycopg.Connection[Any]"]
Result = TypeVar("Result")

LEVELS = ["repeatable read", "serializable"]


def old_snapshot(connect: Connect, level: str) -> Log:
    """A session in a transaction that goes on seeing what is committed now; it holds no locks."""
    session = Log(connect(isolation_level=level))
    session.execute("select 1")
    return session


def right_or_again(session: Log, work: Callable[[], Result]) -> Result | None:
    """Do something and commit; None when it ended with 40001, which is rolled back."""
    try:
        result = work()
        session.commit()
    except SerializationFailure:
        session.rollback()
        return None
    return result


def started(observer: Log, waiter: Log, work: Callable[[], Result]) -> Future[Result]:
    """Run something on the waiter's connection and return once it waits for a lock or has ended."""
    future = aside(work)

    def settled() -> bool:
        row = observer.execute(
            "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s", [waiter.pid]
        ).fetchone()
        return future.done() or bool(row and row[0])

    wait_until(settled, what="for a session to wait or to end")
    return future


# ------------------------------------------------------------------------------------- cleanup


def actions(log: Log) -> list[str]:
    """What one cleanup did, in short."""
    return [row.action for row in log.cleanup()]


def clean(log: Log, limit: int = 50) -> list[str]:
    """Call cleanup until it has nothing more to do, and return all that it did."""
    done: list[str] = []
    for _ in range(limit):
        found = actions(log)
        if not found:
            return done
        done += found
    raise AssertionError(f"cleanup still finds something to do after {limit} calls: {done[-9:]}")


def seal(log: Log, clock: Clock, age: str) -> None:
    """Let the open segments become that old, and have their classes go on to new ones."""
    clock.advance(age)
    assert "segment sealed" in actions(log)


def seal_and_close(log: Log, clock: Clock, age: str) -> None:
    """The same, until nothing is added to the old segments any more."""
    clock.advance(age)
    done = clean(log)
    assert "segment sealed" in done
    assert "segment closed" in done


# ---------------------------------------------------------------------------------- what is stored


def ranges(log: Log, topic: str) -> list[tuple[int, int]]:
    """The first and the last offset of each partition, as list_offsets tells."""
    return [(row.first_offset, row.last_offset) for row in log.list_offsets(topic=topic)]


def misplaced(log: Log, retention: str) -> list[Any]:
    """What was stored last, if that is not in the open segment of a class of this retention.

    Rows whose time is no time are marks that a partition has left behind, and no messages.
    """
    return log.execute(
        "select m.segment, s.state, c.retention from pgq.message as m"
        " left join pgq.segment as s on s.segment = m.segment"
        " left join pgq.storage_class as c using (storage_class_id)"
        " where m.published_at = (select max(n.published_at) from pgq.message as n"
        " where isfinite(n.published_at))"
        " and (s.state = 'open' and c.retention = %s::interval) is not true",
        [retention],
    ).fetchall()
