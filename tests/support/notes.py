"""What tests of the notes about jobs share: snoozes and progress."""

from __future__ import annotations

from typing import Any

from psycopg.types.json import Jsonb

from support.queue import Job
from support.session import Session

__all__ = ["noted", "set_progress", "snooze"]


def snooze(session: Session, job: Job, delay: Any = "1 hour") -> bool:
    """Give a job back with a delay: whether it was the caller's."""
    answer = session.release_job(job_id=job.job_id, lease_token=job.lease_token, delay=delay)
    assert isinstance(answer, bool)
    return answer


def set_progress(session: Session, job: Job, progress: Any = None) -> bool:
    """Note how far a job has come: whether it is the caller's."""
    if progress is not None and not isinstance(progress, Jsonb):
        progress = Jsonb(progress)
    answer = session.set_progress(job_id=job.job_id, lease_token=job.lease_token, progress=progress)
    assert isinstance(answer, bool)
    return answer


def noted(session: Session, job_id: int) -> tuple[int, Any]:
    """How often a job was snoozed, and its progress, as get_job shows them."""
    found = session.get_job(job_id=job_id)
    return found.snoozes, found.progress
