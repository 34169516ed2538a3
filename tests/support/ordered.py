"""What tests of ordered queues share."""

from __future__ import annotations

from typing import Any

from psycopg.types.json import Jsonb

from support.queue import Job, new_queue
from support.session import Session

__all__ = [
    "BROKEN_KEYS",
    "add",
    "add_many",
    "broken",
    "held",
    "notes",
    "ordered_queue",
    "taken_keys",
]

BROKEN_KEYS = """
    select k.queue_id, k.ordered_key, k.first, k.stopped, k.noted, k.waiting
    from (
        select
            queue_id,
            ordered_key,
            count(*) filter (where what = 'key') as taken,
            count(*) filter (where what = 'first') as first,
            count(*) filter (where what = 'letter') as stopped,
            count(*) filter (where what = 'note') as noted,
            count(*) filter (where what = 'waits') as waiting
        from (
            select queue_id, ordered_key, 'key' as what from pgq.ordered_key
            union all
            select queue_id, ordered_key, 'letter' from pgq.dead_job where stops_key
            union all
            select queue_id, ordered_key, 'note' from pgq.key_wakeup
            where queue_id in (select queue_id from pgq.queue where ordered)
            union all
            select
                queue_id,
                ordered_key,
                case
                    when due_at is null then 'first'
                    when expires_at <= pgq._clock() then 'expired'
                    else 'waits'
                end
            from pgq.job
            where ordered_key is not null
                and queue_id in (select queue_id from pgq.queue where ordered)
        ) as s
        group by queue_id, ordered_key
    ) as k
    where k.taken > 1
        or k.first + k.stopped + k.noted <> k.taken
        or (k.waiting > 0 and k.taken = 0)
"""
"""Keys of which not exactly one job is the first, or a letter or a note stands for it."""


def ordered_queue(session: Session, **settings: Any) -> str:
    """A new ordered queue, whose retries are due at once."""
    return new_queue(session, **{"ordered": True, "backoff": "0", **settings})


def add(session: Session, queue: str, key: str | None = "k", **options: Any) -> int:
    """Enqueue a job with a key, and return its id."""
    job_id, duplicate = session.enqueue(queue=queue, payload=Jsonb(1), key=key, **options)
    assert duplicate is False
    assert isinstance(job_id, int)
    return job_id


def add_many(session: Session, queue: str, keys: list[str | None], **options: Any) -> list[int]:
    """The same for a batch."""
    made = session.enqueue_batch(queue=queue, payloads=[1] * len(keys), keys=keys, **options)
    return [job_id for job_id, _ in made]


def held(job: Job) -> dict[str, Any]:
    """The arguments that say which job, and that the caller has it."""
    return {"job_id": job.job_id, "lease_token": job.lease_token}


def broken(session: Session) -> list[Any]:
    """Keys that have no first job, or several."""
    return session.execute(BROKEN_KEYS).fetchall()


def notes(session: Session, queue: str) -> int:
    """How many keys of a queue are noted, to be looked at again."""
    [(count,)] = session.execute(
        "select count(*) from pgq.key_wakeup as n"
        " inner join pgq.queue as q on q.queue_id = n.queue_id where q.queue = %s",
        [queue],
    ).fetchall()
    assert isinstance(count, int)
    return count


def taken_keys(session: Session, queue: str) -> list[str]:
    """Which keys of a queue are taken."""
    rows = session.execute(
        "select k.ordered_key from pgq.ordered_key as k"
        " inner join pgq.queue as q on q.queue_id = k.queue_id where q.queue = %s order by 1",
        [queue],
    ).fetchall()
    return [key for (key,) in rows]
