"""What tests of storage share: letting segments age, cleaning, and looking at what is stored."""

from __future__ import annotations

import time
from typing import Any

from support.clock import Clock
from support.session import Session, row

__all__ = [
    "actions",
    "clean",
    "close_segment",
    "held",
    "misplaced",
    "publish",
    "ranges",
    "seal",
    "seal_and_close",
    "states",
]


def publish(session: Session, topic: str, number: int = 1, **options: Any) -> Any:
    """Publish messages with the payloads 0, 1, 2 …"""
    return session.publish_batch(topic=topic, payloads=list(range(number)), **options)


# ------------------------------------------------------------------------------------- cleanup


def _let_others_end(session: Session) -> None:
    """Wait for the transactions of other databases, tests and autovacuum, but not for ever.

    Ids of transactions are those of the whole server, so cleanup waits for them as well.
    """

    def others() -> set[str]:
        session.execute("select pg_stat_clear_snapshot()")
        found = session.execute(
            "select a.backend_xid::text from pg_stat_activity as a"
            " where a.backend_xid is not null and (a.datname <> current_database()"
            " or a.backend_type = 'autovacuum worker')"
        )
        return {xid for (xid,) in found}

    running = others()
    deadline = time.monotonic() + 2
    while running and time.monotonic() < deadline:
        running &= others()


def actions(session: Session) -> list[str]:
    """What one cleanup did, in short."""
    _let_others_end(session)
    return [row.action for row in session.cleanup()]


def clean(session: Session, limit: int = 50) -> list[str]:
    """Call cleanup until it has nothing more to do, and return all that it did."""
    done: list[str] = []
    for _ in range(limit):
        found = actions(session)
        if not found:
            return done
        done += found
    raise AssertionError(f"cleanup still finds something to do after {limit} calls: {done[-9:]}")


def seal(session: Session, clock: Clock, age: str) -> None:
    """Let the open segments become that old, and have their classes go on to new ones."""
    clock.advance(age)
    assert "segment sealed" in actions(session)


def seal_and_close(session: Session, clock: Clock, age: str) -> None:
    """The same, until nothing is added to the old segments any more."""
    clock.advance(age)
    done = clean(session)
    assert "segment sealed" in done
    assert "segment closed" in done


# ---------------------------------------------------------------------------------- what is stored


def ranges(session: Session, topic: str) -> list[tuple[int, int]]:
    """The first and the last offset of each partition, as list_offsets tells."""
    return [(row.first_offset, row.last_offset) for row in session.list_offsets(topic=topic)]


def misplaced(session: Session, retention: str) -> list[Any]:
    """What was stored last, if that is not in the open segment of a class of this retention.

    Rows whose time is no time are marks that a partition has left behind, and no messages.
    """
    return session.execute(
        "select m.segment, s.state, c.retention from pgq.message as m"
        " left join pgq.segment as s on s.segment = m.segment"
        " left join pgq.storage_class as c using (storage_class_id)"
        " where m.published_at = (select max(n.published_at) from pgq.message as n"
        " where isfinite(n.published_at))"
        " and (s.state = 'open' and c.retention = %s::interval) is not true",
        [retention],
    ).fetchall()


def states(session: Session) -> list[str]:
    """The states of all segments in use."""
    return sorted(state for (state,) in session.execute("select state from pgq.segment").fetchall())


def held(session: Session) -> tuple[Any, ...]:
    """How many messages and finished jobs are stored."""
    return row(
        session,
        "select (select count(*) from pgq.message where partition_id <> 0),"
        " (select count(*) from pgq.job_archive)",
    )


def close_segment(session: Session, clock: Clock, age: str) -> None:
    """Let the open segments become that old, and close them."""
    clock.advance(age)
    assert "segment sealed" in actions(session)
    assert "segment closed" in actions(session)
