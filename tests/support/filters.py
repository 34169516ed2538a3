"""What tests of the calls about many jobs share: jobs that these take, and a walk over them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from support.queue import claim, enqueue, new_queue
from support.session import Session

__all__ = [
    "BY_FILTER",
    "LETTERS",
    "add_one",
    "at",
    "fill",
    "meant",
    "names_of_times",
    "taken_by",
    "walk",
]

LETTERS = ("redrive", "purge_queue")
BY_FILTER = ("cancel_jobs", "retry_jobs", *LETTERS)

_MEANT = {
    "cancel_jobs": "select job_id from pgq.job where queue_id = {0}",
    "retry_jobs": "select job_id from pgq.job where queue_id = {0} and visible_at > pgq._clock()"
    " and due_at is null and lease_token is null",
    "redrive": "select job_id from pgq.dead_job where queue_id = {0}",
    "purge_queue": "select job_id from pgq.dead_job where queue_id = {0}",
}


def meant(session: Session, function: str, queue: str) -> set[int]:
    """The jobs of a queue that the call could take, whatever they have."""
    of_queue = f"(select queue_id from pgq.queue where queue = '{queue}')"
    rows = session.execute(_MEANT[function].format(of_queue).encode()).fetchall()
    return {job_id for (job_id,) in rows}


def add_one(
    session: Session, function: str, queue: str, error: str | None = None, **options: Any
) -> int:
    """A job that the call can take, with this last error: due in an hour, or a dead letter.

    Other jobs of the queue that are due are leased then.
    """
    job_id = enqueue(session, queue, **options)
    [job] = [job for job in claim(session, queue, 1000) if job.job_id == job_id]
    held = {"job_id": job_id, "lease_token": job.lease_token}
    if function in LETTERS:
        assert session.reject_job(**held, error=error)
    elif error is None:
        assert session.release_job(**held, delay="1 hour")
    else:
        assert session.nack(**held, delay="1 hour", error=error)
    return job_id


def taken_by(session: Session, function: str, queue: str, **arguments: Any) -> tuple[set[int], Any]:
    """Call once, and roll it back: the jobs that it has taken, and its result."""
    with session.transaction(force_rollback=True):
        before = meant(session, function, queue)
        result = session.call(function, queue=queue, **arguments)
        left = meant(session, function, queue)
    assert left <= before
    assert result.taken == len(before - left)
    return before - left, result


def walk(session: Session, function: str, **arguments: Any) -> list[Any]:
    """Call until there are no more; the result of each call."""
    results = [session.call(function, **arguments)]
    while results[-1].after_id is not None:
        assert len(results) < 100
        results.append(session.call(function, **arguments, after_id=results[-1].after_id))
    return results


def names_of_times(function: str) -> tuple[str, str]:
    """The arguments of the time range."""
    verb = "died" if function in LETTERS else "due"
    return f"{verb}_since", f"{verb}_before"


def fill(session: Session, function: str, number: int, analyzed: bool = True) -> tuple[str, str]:
    """Two queues whose jobs alternate, so many in all, that the call can take: labelled many."""
    queues = [new_queue(session), new_queue(session)]
    table, time = ("dead_job", "died_at") if function in LETTERS else ("job", "visible_at")
    session.execute(
        f"insert into pgq.{table} (job_id, queue_id, partition_id, log_offset, segment, attempt,"
        f" priority, label, last_error, {time})"
        " select nextval('pgq.job_id'), q.queue_id, q.partition_id, 0, 0, 1, 0, %s, 'no', now()"
        " + interval '1 hour' from generate_series(1, %s) as n inner join pgq.queue as q"
        " on q.queue = (array[%s, %s])[n %% 2 + 1] order by n".encode(),
        ["many", number, *queues],
    )
    if analyzed:
        session.execute(f"analyze pgq.{table}".encode())
    return queues[0], queues[1]


def at(text: str) -> datetime:
    """A time of a day that is far ahead."""
    return datetime.fromisoformat(f"2999-01-01T{text}+00:00")
