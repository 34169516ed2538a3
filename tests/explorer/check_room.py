"""What max_unfinished promises: enqueue fails when a queue has so many jobs, and only then.

A call counts what its snapshot shows. A session may rest on what it has counted in the last second
and on the ids that were given out since: then it overlooks what was not committed when it counted.
"""

from __future__ import annotations

from explorer.database import Link
from explorer.history import Event
from explorer.known_jobs import Job, Queue
from explorer.script import written

__all__ = ["check_room", "probe_room"]

ENQUEUES = tuple(
    f"{call}{kind}" for call in ("enqueue", "enqueue_batch") for kind in ("", "_unique", "_keyed")
)


def check_room(queue: Queue) -> None:
    """Hold each enqueue that was accepted, and each that was refused, against the others."""
    history = queue.history
    settings = queue.since_cut("create_queue", "alter_queue")
    limits = [event.rows[0]["max_unfinished"] for event in settings]
    if queue.cut is not None or None in limits:
        return
    asked = [e for e in history.events(*ENQUEUES) if e.arguments["queue"] == queue.name]
    for event in asked:
        if event.answer is not None and event.answer.code == "MQ010":
            _check_refused(queue, event, min(limits))
    if history.went_back():
        return  # what is there may stand below a floor, where nobody counts
    accepted = [e for e in asked if e.succeeded and _ids(e)]
    for event in accepted:
        if event.transaction.committed:
            _check_accepted(queue, event, accepted, max(limits))


def _ids(event: Event) -> list[int]:
    """The jobs that an enqueue has added."""
    return [row["job_id"] for row in event.rows if not row["duplicate"]]


def _since(event: Event) -> int:
    """The tick from which on what is committed may not be seen by a call."""
    above = event.transaction.level in ("repeatable read", "serializable")
    return event.transaction.started if above else event.started


def _check_refused(queue: Queue, event: Event, limit: int) -> None:
    """What was committed by then, and its own, and what it wanted to add, was too much."""
    # what a bulk write has added in this transaction is not told apart
    unclear = ("alter_queue", "write_chunk", "commit_write")
    if any(e.call in unclear for e in event.transaction.events):
        return
    most = len(event.numbers)
    for own in event.transaction.events:
        if own.call in ENQUEUES and own.arguments["queue"] == queue.name and own is not event:
            most += len(_ids(own)) if own.succeeded else 0
    for job in queue.jobs.values():
        gone = any(e.transaction.ended < _since(event) for e in job.finished)
        most += job.event.transaction.ended <= event.ended and not gone
    if most <= limit:
        told = f"{event.statement}: {event.answer}; with it there are {most} at most"
        queue.history.violate("refused with room", told)


def _check_accepted(queue: Queue, event: Event, accepted: list[Event], limit: int) -> None:
    """What was committed when it was counted last, and came since, left room for it."""
    counts = [event] + [
        e
        for e in accepted
        if e.transaction.session == event.transaction.session
        and e.ended < event.started
        and (e.transaction.committed or e.transaction is event.transaction)
    ]
    standing = [job for job in queue.jobs.values() if _stands(queue, job, event)]
    last_id = max(_ids(event))
    fewest = min(
        sum(_counted(job, count, last_id) for job in standing if job.event is not event)
        for count in counts
    )
    if fewest + len(_ids(event)) > limit:
        told = f"{event.statement}: {event.answer}; without it there were {fewest} at least"
        queue.history.violate("accepted though full", told)


def _stands(queue: Queue, job: Job, event: Event) -> bool:
    """Whether a job was unfinished for all of the call, if it was there."""
    history = queue.history
    dies = any(e.rows[0]["max_attempts"] is not None for e in queue.since_cut("create_queue"))
    dies = dies or bool(queue.since_cut("alter_queue") or history.events("reject_job"))
    # max_attempts of its own
    dies = dies or job.event.call.endswith("_unique")
    begun = any(claimed.event.started <= event.ended for claimed in job.claims)
    over = any(e.started <= event.ended for e in job.finished)
    return not (over or (begun and dies) or queue.may_be_gone(job))


def _counted(job: Job, count: Event, last_id: int) -> bool:
    """Whether it was seen when that call has counted, or has one of the ids that came since."""
    if job.event.transaction is count.transaction:
        seen = job.event.index <= count.index
    else:
        seen = job.event.transaction.ended < _since(count)
    return seen or (job.job_id is not None and max(_ids(count)) < job.job_id <= last_id)


def probe_room(queue: Queue, link: Link) -> None:
    """As many more are accepted as there is room for, and then no more.

    Jobs past their time count until a claim has passed them by.
    """
    name = written(queue.name)
    [row] = link.rows(
        "select q.max_unfinished as most, count(j.job_id) as jobs,"
        " count(j.job_id) filter (where j.expires_at <= pgq._clock()) as expired"
        " from pgq.queue as q left join pgq.job as j on j.queue_id = q.queue_id"
        f" where q.queue = {name} group by q.queue_id"
    )
    if row["most"] is None:
        return
    room = max(row["most"] - row["jobs"], 0)
    link.rows("begin isolation level read committed")
    filled = link.ask(
        f"select * from pgq.enqueue_batch({name}, array_fill(jsonb '0', array[{room}]))"
    )
    if filled.code is not None:
        queue.history.violate("refused with room", f"{queue.name} has room for {room}: {filled}")
    else:
        # one call at a time, each of which counts anew
        for _ in range(row["expired"] + 1):
            more = link.ask(f"select * from pgq.enqueue({name}, jsonb '0')")
            if more.code is not None:
                break
        if more.code != "MQ010":
            queue.history.violate("accepted though full", f"{queue.name}, in the end: {more}")
    link.rows("rollback")
