"""What the archive promises: a job that was finished is in it once, and no other job is."""

from __future__ import annotations

from explorer.check_log import number_of
from explorer.database import Link, Row
from explorer.known_jobs import Job, Queue
from explorer.script import written

__all__ = ["check_archive"]

ALWAYS = ("archive_job", "archive_job_batch")
"""They archive whatever the queue says."""
OUTCOMES = {**dict.fromkeys(ALWAYS, "archived"), "cancel_job": "cancelled"}
"""What is noted by these; all others note that it is acked."""


def check_archive(queue: Queue, archives: bool, link: Link) -> None:
    """Hold the archive of a queue against what its workers were answered, before it is drained."""
    rows: dict[int, list[Row]] = {}
    for row in link.rows(
        f"select * from pgq.archived_jobs where queue = {written(queue.name)} order by ended_at"
    ):
        rows.setdefault(row["job_id"], []).append(row)
        number = number_of(row)
        job = queue.jobs.get(number) if number is not None else None
        if number is None:
            _violate(queue, "payload lost", f"in the archive: {row}")
        elif job is None:
            _violate(queue, "ghost", f"in the archive: {row}")
        elif job.job_id not in (None, row["job_id"]):
            _violate(queue, "wrong content", f"job {job.job_id} is in the archive as {row}")
        elif not job.finished:
            _check_expired(queue, job, row, archives)
    for job in queue.jobs.values():
        # of one that was finished twice it cannot be said what is noted
        if len(job.finished) == 1 and job.job_id is not None:
            _check_finished(queue, job, rows.get(job.job_id, []), archives)


def _check_expired(queue: Queue, job: Job, row: Row, archives: bool) -> None:
    """Nobody was told that it was finished: its time has brought it there, or a cancel of many."""
    cancelled = row["outcome"] == "cancelled" and queue.since_cut("cancel_jobs")
    if (
        (row["outcome"] != "expired" and not cancelled)
        or not archives
        or not queue.may_be_gone(job)
    ):
        _violate(queue, "archived unasked", f"{row}, which nobody has finished")


def _check_finished(queue: Queue, job: Job, rows: list[Row], archives: bool) -> None:
    event = job.finished[0]
    expected = OUTCOMES.get(event.call, "acked")
    told = f"{event.statement} finished job {job.job_id} ({job.number})"
    if not archives and event.call not in ALWAYS:
        if rows:
            _violate(queue, "archived unasked", f"{told} in a queue that does not archive: {rows}")
        return
    if len(rows) > 1:
        _violate(queue, "archived twice", f"{told}: {rows}")
    if not rows and not queue.may_be_out_of_the_archive(job):
        _violate(queue, "not archived", told)
    for row in rows:
        attempts = {c.attempt for c in job.claims}
        if event.call == "cancel_job":  # it may wait, for the first time or after a release
            attempts |= {0, *(attempt - 1 for attempt in attempts)}
        if row["outcome"] != expected or row["attempt"] not in attempts:
            _violate(queue, "archived wrongly", f"{told}: {row}")


def _violate(queue: Queue, kind: str, text: str) -> None:
    queue.history.violate(kind, f"{queue.name}: {text}")
