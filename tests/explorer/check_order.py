"""What ordered queues promise: the jobs of a key are handed out in the order of their commits."""

from __future__ import annotations

from collections import Counter

from explorer.database import Link, Row
from explorer.history import History
from explorer.known_jobs import Job, Queue
from support.ordered import BROKEN_KEYS

__all__ = ["check_keys_of_order", "check_order", "check_round"]


def check_keys_of_order(history: History, link: Link) -> None:
    """Of each key that is taken, one job is the first, or a letter or a note stands for it."""
    for row in link.rows(BROKEN_KEYS):
        history.violate("key without a first", f"{row}")


def check_order(queue: Queue) -> None:
    """Hold the ids and the claims of each key against its commits."""
    by_key: dict[str, list[Job]] = {}
    for job in sorted(queue.jobs.values(), key=lambda job: job.event.order):
        if job.key is not None:
            by_key.setdefault(job.key, []).append(job)
    for jobs in by_key.values():
        for place, job in enumerate(jobs):
            for later in jobs[place + 1 :]:
                _check_pair(queue, job, later)


def check_round(queue: Queue, rows: list[Row]) -> None:
    """One claim gives one job of each key."""
    times = Counter(row["key"] for row in rows if row["key"] is not None)
    for key, count in times.items():
        if count > 1:
            queue.history.violate("overtaken", f"{queue.name}: one claim gave {count} of {key}")


def _check_pair(queue: Queue, job: Job, later: Job) -> None:
    if job.event is later.event and job.chunk is not later.chunk:
        return  # of one commit, which is first is up to their tasks
    told = f"job {later.job_id}, by {later.event.statement}, behind {job.job_id} of its key"
    if None not in (later.job_id, job.job_id) and (later.job_id or 0) < (job.job_id or 0):
        queue.history.violate("ids out of order", told)
    if not later.claims:
        return
    claim = later.claims[0].event
    seen = job.event.transaction.ended < claim.transaction.started
    untouched = all(claimed.event.started > claim.ended for claimed in job.claims)
    over = any(event.started <= claim.ended for event in job.finished)
    if seen and untouched and not over and not queue.may_be_gone(job):
        queue.history.violate("overtaken", f"{told}: {claim.statement}")
