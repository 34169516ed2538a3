"""What tests of the queue share: jobs as objects, and short ways to make and claim them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from support.session import Session, new_name, row

__all__ = [
    "Job",
    "ack",
    "claim",
    "claim_one",
    "enqueue",
    "enqueue_many",
    "new_queue",
    "settings",
    "stats",
]


@dataclass(frozen=True)
class Job:
    """A row of claim_job."""

    job_id: int
    lease_token: UUID
    attempt: int
    leased_until: datetime
    enqueued_at: datetime
    priority: int
    key: str | None
    label: str | None
    headers: Any
    payload: Any
    body: bytes | None
    cut_short: bool = False
    max_attempts: int | None = None


def claim(session: Session, queue: str, max_jobs: int = 1, **options: Any) -> list[Job]:
    """Claim jobs."""
    found = session.claim_job(queue=queue, max_jobs=max_jobs, **options)
    return [Job(**job._asdict()) for job in found]


def claim_one(session: Session, queue: str, **options: Any) -> Job:
    """Claim one job that must be there."""
    [job] = claim(session, queue, **options)
    return job


def ack(session: Session, job: Job) -> bool:
    """Acknowledge a job."""
    return bool(session.ack(job_id=job.job_id, lease_token=job.lease_token))


def enqueue(session: Session, queue: str, payload: Any = None, **options: Any) -> int:
    """Enqueue one job, with a JSON payload unless it has a body, and return its id."""
    if "body" not in options:
        options["payload"] = Jsonb(payload)
    job_id, duplicate = session.enqueue(queue=queue, **options)
    assert isinstance(job_id, int)
    assert duplicate is False
    return job_id


def enqueue_many(session: Session, queue: str, number: int, **options: Any) -> list[int]:
    """Enqueue jobs with the payloads 0, 1, 2 …, and return their ids."""
    made = session.enqueue_batch(queue=queue, payloads=list(range(number)), **options)
    return [job_id for job_id, _ in made]


def new_queue(session: Session, **settings: Any) -> str:
    """A new queue, whose delays are not random unless asked for."""
    name = new_name("queue")
    session.create_queue(**{"queue": name, "backoff_jitter": 0, **settings})
    return name


def settings(session: Session, queue: str) -> dict[str, Any]:
    """What list_queues shows of one queue."""
    [found] = [found for found in session.list_queues() if found.queue == queue]
    return dict(found._asdict())


def stats(session: Session, queue: str) -> dict[str, Any]:
    """The counts of queue_stats for one queue, by state."""
    columns = ("ready", "leased", "delayed", "expired", "dead", "waiting")
    counts = row(
        session,
        "select ready, leased, delayed, expired, dead, waiting from pgq.queue_stats"
        " where queue = %s",
        [queue],
    )
    return {name: count for name, count in zip(columns, counts, strict=True) if count}
