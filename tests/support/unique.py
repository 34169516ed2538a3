"""What tests of unique jobs share."""

from __future__ import annotations

from typing import Any

from psycopg.types.json import Jsonb

from support.session import Session, row

__all__ = ["MODES", "add", "add_many", "keys_of", "loose_keys"]

MODES = ["finished", "claimed", "removed"]
"""What a queue may have as unique_until."""


def add(session: Session, queue: str, unique_key: str | None = "k", **options: Any) -> Any:
    """Enqueue a job with a unique key: its id, and whether it is a duplicate."""
    return tuple(session.enqueue(queue=queue, payload=Jsonb(1), unique_key=unique_key, **options))


def add_many(session: Session, queue: str, unique_keys: list[str | None], **options: Any) -> Any:
    """The same for a batch."""
    made = session.enqueue_batch(
        queue=queue, payloads=list(range(len(unique_keys))), unique_keys=unique_keys, **options
    )
    return [tuple(each) for each in made]


def keys_of(session: Session, queue: str) -> dict[str, int]:
    """Which job has which key of a queue."""
    rows = session.execute(
        "select u.unique_key, u.job_id from pgq.unique_job as u"
        " inner join pgq.queue as q on q.queue_id = u.queue_id where q.queue = %s",
        [queue],
    ).fetchall()
    return dict(rows)


def loose_keys(session: Session) -> int:
    """How many keys are had by no job and no dead letter with that key."""
    [count] = row(
        session,
        "select count(*) from pgq.unique_job as u where not exists (select from (select job_id,"
        " queue_id, unique_key from pgq.job union all select job_id, queue_id, unique_key from"
        " pgq.dead_job) as j where (j.job_id, j.queue_id, j.unique_key)"
        " = (u.job_id, u.queue_id, u.unique_key))",
    )
    assert isinstance(count, int)
    return count
