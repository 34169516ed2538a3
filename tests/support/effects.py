"""What tests of the effects of jobs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg.types.json import Jsonb

from support.queue import Job
from support.session import Session

__all__ = ["GIVEN_UP", "begin", "finish", "forget", "noted"]


def _by(function: str, **options: Any) -> Callable[[Session, str, Job], object]:
    return lambda session, queue, job: session.call(
        function, job_id=job.job_id, lease_token=job.lease_token, **options
    )


GIVEN_UP: dict[str, Callable[[Session, str, Job], object]] = {
    "ack": _by("ack"),
    "archive_job": _by("archive_job"),
    "nack": _by("nack", delay="0"),
    "release_job": _by("release_job"),
    "reject_job": _by("reject_job"),
    "cancel_job": lambda session, queue, job: session.cancel_job(job_id=job.job_id),
    "purge_queue": lambda session, queue, job: session.purge_queue(queue=queue, all_jobs=True),
    "drop_queue": lambda session, queue, job: session.drop_queue(queue=queue),
}
"""How a worker's job ends, or leaves it, with all its effects as they were noted."""


def begin(session: Session, job: Job, effect: str = "mail", **options: Any) -> Any:
    """Begin an effect of a job: its state, result, attempt, and when that began."""
    return session.begin_effect(
        job_id=job.job_id, lease_token=job.lease_token, effect=effect, **options
    )


def finish(session: Session, job: Job, effect: str = "mail", result: Any = None) -> Any:
    """Note that it has happened, with a result that is JSON."""
    if result is not None and not isinstance(result, Jsonb):
        result = Jsonb(result)
    return session.finish_effect(
        job_id=job.job_id, lease_token=job.lease_token, effect=effect, result=result
    )


def forget(session: Session, job: Job, effect: str = "mail") -> Any:
    """Take back that it was begun."""
    return session.delete_effect(job_id=job.job_id, lease_token=job.lease_token, effect=effect)


def noted(session: Session, job_id: int) -> dict[str, str]:
    """The state of each effect of a job, as the view has it."""
    rows = session.execute(
        "select effect, state from pgq.effects where job_id = %s order by effect", [job_id]
    ).fetchall()
    return dict(rows)
