"""The model's on_duplicate: what a waiting job gets of a duplicate, and which jobs it outdates."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from model.content import Content, ends_at
from model.queues import Queue, Waiting

__all__ = ["is_outdated", "merge"]


def merge(
    queue: Queue, holder: Waiting, content: Content, delay: timedelta | None, now: datetime
) -> None:
    """The waiting job stays the same, but for what the new one carries, and its time."""
    assert holder.lease_token is None
    assert holder.unique_key is not None
    holder.content = replace(content, key=holder.content.key)
    holder.expires_at = ends_at(now, queue.job_ttl)
    holder.is_newest = True
    queue.newest[holder.unique_key] = holder.content
    if queue.on_duplicate == "postpone":
        due_at = now + (queue.delay if delay is None else delay)
        if queue.debounce_max is not None:
            due_at = min(due_at, holder.enqueued_at + queue.debounce_max)
        holder.visible_at = max(now, due_at)


def is_outdated(queue: Queue, job: Waiting, now: datetime) -> bool:
    """Whether a newer one waits under the key of a job that a worker has, or has lost."""
    if queue.on_duplicate == "keep" or job.unique_key is None:
        return False
    holder_id = queue.key_holders().get(job.unique_key, job.job_id)
    holder = queue.jobs[holder_id]
    return holder is not job and holder.is_newest and not holder.is_over(now)
