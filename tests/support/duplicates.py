"""What tests of on_duplicate share: queues, enqueues of one key, and jobs that come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg.types.json import Jsonb

from support.clock import Clock
from support.queue import Job, claim_one, new_queue
from support.session import Session
from support.unique import keys_of

__all__ = ["BACK", "Back", "come_back", "held", "outcomes", "put", "replacing", "twice"]

Back = Callable[[Session, Job], Any]


def held(job: Job) -> dict[str, Any]:
    """What a call of the worker of a job has to name."""
    return {"job_id": job.job_id, "lease_token": job.lease_token}


def _many(job: Job) -> dict[str, Any]:
    return {"job_ids": [job.job_id], "lease_token": job.lease_token}


BACK: dict[str, Back] = {
    "nack": lambda session, job: session.nack(**held(job), delay="0"),
    "release_job": lambda session, job: session.release_job(**held(job)),
    "snooze": lambda session, job: session.release_job(**held(job), delay="1 microsecond"),
    "nack_batch": lambda session, job: session.nack_batch(**_many(job), delay="0"),
    "release_job_batch": lambda session, job: session.release_job_batch(**_many(job)),
}
"""How a worker gives a job back; it is due at once."""


def replacing(session: Session, on_duplicate: str = "replace", **settings: Any) -> str:
    """A queue in which duplicates replace what waits."""
    given = {"unique_until": "claimed", "on_duplicate": on_duplicate, "backoff": "0", **settings}
    return new_queue(session, **given)


def put(session: Session, queue: str, payload: Any, unique_key: str = "k", **options: Any) -> Any:
    """Enqueue a payload with a unique key: the id of the job, and whether it is a duplicate."""
    made = session.enqueue(queue=queue, payload=Jsonb(payload), unique_key=unique_key, **options)
    return tuple(made)


def twice(session: Session, queue: str, later: str = "0", **options: Any) -> tuple[Job, int]:
    """A job with the payload old that a worker has, and the id of a newer one that waits.

    With 31 seconds later, a claim meets the other one first when its lease has run out.
    """
    old, _ = put(session, queue, "old", **options)
    job = claim_one(session, queue, label=options.get("label"))
    new, duplicate = put(session, queue, "new", **options, delay=later)
    assert job.job_id == old
    assert (new > old, duplicate) == (True, False)
    assert keys_of(session, queue) == {"k": new}
    return job, new


def come_back(session: Session, job: Job, way: str, clock: Clock) -> None:
    """Let a job come back in some way of BACK, or by its lease, which has run out."""
    if way != "lease":
        assert BACK[way](session, job)
    clock.advance("32 seconds")


def outcomes(session: Session, queue: str) -> dict[int, str]:
    """The outcome of each archived job of a queue."""
    rows = session.execute(
        "select job_id, outcome from pgq.archived_jobs where queue = %s order by job_id", [queue]
    ).fetchall()
    return dict(rows)
