"""What tests of segments do again and again: let them age, and look at what is stored."""

from __future__ import annotations

from typing import Any

from psycopg.types.json import Jsonb

from jobs import AnyConnection, Job, call, cleanup, row, value
from support import Clock

__all__ = ["ack", "actions", "close_segment", "held", "publish", "states"]


def actions(connection: AnyConnection) -> list[str]:
    """What one cleanup did, in short."""
    return [action for action, _, _ in cleanup(connection)]


def states(connection: AnyConnection) -> list[str]:
    """The states of all segments in use."""
    return sorted(
        state for (state,) in connection.execute("select state from pgq.segment").fetchall()
    )


def held(connection: AnyConnection) -> tuple[Any, ...]:
    """How many messages and finished jobs are stored."""
    return row(
        connection,
        "select (select count(*) from pgq.message), (select count(*) from pgq.job_archive)",
    )


def close_segment(connection: AnyConnection, clock: Clock, age: str) -> None:
    """Let the open segments become that old, and close them."""
    clock.advance(age)
    assert "segment sealed" in actions(connection)
    assert "segment closed" in actions(connection)


def publish(connection: AnyConnection, topic: str, number: int = 1, **options: Any) -> Any:
    payloads = [Jsonb(n) for n in range(number)]
    return call(connection, "publish_batch", topic=topic, payloads=payloads, **options)


def ack(connection: AnyConnection, job: Job) -> bool:
    return bool(value(connection, "ack", job_id=job.job_id, lease_token=job.lease_token))
