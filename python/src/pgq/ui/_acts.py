"""What can be done from the page: for each act the call of the function, and what to say then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pgq import Client
from pgq.ui._documents import document
from pgq.ui._history import History
from pgq.ui._many import CHOSEN, PAGES, counted
from pgq.ui._query import Query
from pgq.ui._source import Problem, Source

__all__ = ["ACTS", "act"]


def act(source: Source, history: History, name: str, given: Mapping[str, Any]) -> Any:
    """Do it, and return what to say, or of a page of many jobs how many it took."""
    done = ACTS.get(name)
    if done is None:
        raise Problem(404, f"there is no act called {name}")
    with source.acting() as client:
        said = done(client, Query(given))
    history.look_soon()
    return document({"said": said} if isinstance(said, str) else said)


def _publish(client: Client, query: Query) -> str:
    topic = query.text("topic")
    made = client.publish(
        topic,
        query.json("payload"),
        key=query.maybe("key"),
        headers=query.json("headers"),  # type: ignore[arg-type]  # as a text that is JSON
        partition=query.number("partition"),
    )
    place = "" if made.log_offset is None else f", offset {made.log_offset:,}"
    return f"published to {topic}, partition {made.partition}{place}"


def _enqueue(client: Client, query: Query) -> str:
    queue = query.text("queue")
    made = client.enqueue(
        queue,
        query.json("payload"),
        key=query.maybe("key"),
        headers=query.json("headers"),  # type: ignore[arg-type]
        priority=query.number("priority"),
        delay=query.span("delay"),
    )
    return f"enqueued job {made.job_id}"


def _assign_offsets(client: Client, query: Query) -> str:
    given = sum(len(one) for one in client.bulk.assign_offsets(query.text("topic")))
    return f"{counted(given, 'message', 'messages')} got an offset"


def _seek(client: Client, query: Query) -> str:
    topic, group = query.text("topic"), query.text("group")
    moved = client.admin.seek(
        topic,
        group,
        partition=query.number("partition"),
        log_offset=query.number("log_offset"),
        published_at=query.moment("published_at"),
        start=query.maybe("start"),
    )
    return f"{group} reads from its new place in {counted(len(moved), 'partition', 'partitions')}"


def _pause_queue(client: Client, query: Query) -> str:
    return f"queue {client.admin.pause_queue(query.text('queue')).queue} is paused"


def _resume_queue(client: Client, query: Query) -> str:
    return f"queue {client.admin.resume_queue(query.text('queue')).queue} goes on"


def _redrive(client: Client, query: Query) -> str:
    count = client.jobs.redrive(
        query.text("queue"),
        job_id=query.number("job_id"),
        all_jobs=query.flag("all_jobs"),
        max_jobs=query.number("max_jobs"),
        per_second=query.rate("per_second"),
    ).taken
    return f"{counted(count, 'dead letter is a job', 'dead letters are jobs')} again"


def _purge_dead(client: Client, query: Query) -> str:
    job_id = query.number("job_id")
    count = client.jobs.purge_queue(
        query.text("queue"), dead_only=job_id is None or None, job_id=job_id
    ).taken
    return f"removed {counted(count, 'dead letter', 'dead letters')}"


def _purge_queue(client: Client, query: Query) -> str:
    count = client.jobs.purge_queue(query.text("queue"), all_jobs=True).taken
    return f"removed {counted(count, 'job', 'jobs')}"


def _cancel_job(client: Client, query: Query) -> str:
    job_id = query.whole("job_id")
    if client.cancel_job(job_id):
        return f"job {job_id} is cancelled"
    return f"job {job_id} is finished already, or a dead letter"


def _retry_job(client: Client, query: Query) -> str:
    job_id = query.whole("job_id")
    if client.retry_job(job_id):
        return f"job {job_id} is due now"
    return f"job {job_id} does not wait for a time any more"


def _pause_schedule(client: Client, query: Query) -> str:
    return f"schedule {client.schedules.pause_schedule(query.text('schedule')).schedule} is paused"


def _resume_schedule(client: Client, query: Query) -> str:
    return f"schedule {client.schedules.resume_schedule(query.text('schedule')).schedule} goes on"


def _unsubscribe(client: Client, query: Query) -> str:
    name = query.text("subscription")
    client.admin.unsubscribe(name)
    return f"subscription {name} has ended"


def _delete_worker(client: Client, query: Query) -> str:
    worker = query.text("worker")
    known = client.monitor.delete_worker(worker, role=query.maybe("role"))
    return f"{worker} is forgotten" if known else f"{worker} was not known any more"


def _cleanup(client: Client, _: Query) -> str:
    done = [one for one in client.admin.cleanup() if one.action != "more"]
    failed = [one.target for one in done if one.action == "failed"]
    if failed:
        return f"cleanup failed: {', '.join(failed)}; pgq cleanup says more"
    return f"cleanup did {counted(len(done), 'thing', 'things')}" if done else "nothing to clean up"


ACTS: Mapping[str, Callable[[Client, Query], str | dict[str, Any]]] = {
    "publish": _publish,
    "enqueue": _enqueue,
    "assign_offsets": _assign_offsets,
    "seek": _seek,
    "pause_queue": _pause_queue,
    "resume_queue": _resume_queue,
    "redrive": _redrive,
    "purge_dead": _purge_dead,
    "purge_queue": _purge_queue,
    "cancel_job": _cancel_job,
    "retry_job": _retry_job,
    "pause_schedule": _pause_schedule,
    "resume_schedule": _resume_schedule,
    "unsubscribe": _unsubscribe,
    "delete_worker": _delete_worker,
    "cleanup": _cleanup,
    **CHOSEN,
    **PAGES,
}
