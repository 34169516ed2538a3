"""What is done with many jobs: with those that were chosen, or with all of a filter, in pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pgq import Client
from pgq.messages import BulkResult
from pgq.ui._filter import Filter
from pgq.ui._query import Query
from pgq.ui._source import Problem

__all__ = ["CHOSEN", "PAGES", "counted", "matching"]

AT_ONCE = 2000
"""Jobs that one page of an act takes, at most: its transaction is short, and it can be stopped."""


def counted(count: int, what: str, many: str) -> str:
    """A number of things, in words."""
    return f"1 {what}" if count == 1 else f"{count:,} {many}"


# ---------------------------------------------------------------- those that were chosen


def _chosen(done: Callable[[Client, str, int], int], say: Callable[[int], str], rest: str) -> Any:
    def act(client: Client, query: Query) -> str:
        queue, job_ids = query.text("queue"), query.job_ids("job_ids")
        # they come in ascending order, as wherever several jobs are locked
        count = sum(done(client, queue, one) for one in job_ids)
        left = len(job_ids) - count
        return say(count) + (f"; {left:,} {rest}" if left else "")

    return act


CHOSEN: Mapping[str, Callable[[Client, Query], str]] = {
    "cancel_chosen": _chosen(
        lambda client, _, job_id: client.cancel_job(job_id, leased=False),
        lambda count: f"cancelled {counted(count, 'job', 'jobs')}",
        "not: a worker has them, or they have ended",
    ),
    "retry_chosen": _chosen(
        lambda client, _, job_id: client.retry_job(job_id),
        lambda count: f"{counted(count, 'job is', 'jobs are')} due now",
        "not: they do not wait for a time",
    ),
    "redrive_chosen": _chosen(
        lambda client, queue, job_id: client.jobs.redrive(queue, job_id=job_id).taken,
        lambda count: f"{counted(count, 'dead letter is a job', 'dead letters are jobs')} again",
        "not: they are no dead letters any more, or another job has their unique key",
    ),
    "purge_chosen": _chosen(
        lambda client, queue, job_id: client.jobs.purge_queue(queue, job_id=job_id).taken,
        lambda count: f"removed {counted(count, 'dead letter', 'dead letters')}",
        "not: they are no dead letters any more",
    ),
}

# ---------------------------------------------------------------- all of a filter


def _cancel(client: Client, queue: str, wanted: Filter, **given: Any) -> BulkResult:
    return client.jobs.cancel_jobs(queue, **wanted.arguments("due"), **given)


def _retry(client: Client, queue: str, wanted: Filter, **given: Any) -> BulkResult:
    return client.jobs.retry_jobs(queue, **wanted.arguments("due"), **given)


def _redrive(client: Client, queue: str, wanted: Filter, **given: Any) -> BulkResult:
    return client.jobs.redrive(queue, **wanted.arguments("died"), **given)


def _purge(client: Client, queue: str, wanted: Filter, **given: Any) -> BulkResult:
    return client.jobs.purge_queue(queue, **wanted.arguments("died"), **given)


_TAKES: Mapping[str, Callable[..., BulkResult]] = {
    "cancel": _cancel,
    "retry": _retry,
    "redrive": _redrive,
    "purge": _purge,
}


def matching(client: Client, query: Query) -> dict[str, Any]:
    """How many jobs an act would take, of the next that it looks at, and the filter in full."""
    # what a redrive would take is counted by purge_queue, which also can be asked where nothing
    # may be written: both look for the same dead letters, with the same rights
    count = {**_TAKES, "redrive": _purge}.get(query.text("act"))
    if count is None:
        raise Problem(400, f"act must be one of {', '.join(_TAKES)}")
    wanted = Filter.of(query)
    found = count(
        client, query.text("queue"), wanted, after_id=query.number("after_id"), dry_run=True
    )
    return {"taken": found.taken, "after_id": found.after_id, "filter": wanted}


def _page(take: Callable[..., BulkResult]) -> Callable[[Client, Query], dict[str, Any]]:
    def act(client: Client, query: Query) -> dict[str, Any]:
        most = query.number("max_jobs")
        found = take(
            client,
            query.text("queue"),
            Filter.of(query),
            after_id=query.number("after_id"),
            max_jobs=AT_ONCE if most is None else min(most, AT_ONCE),
        )
        return {"taken": found.taken, "after_id": found.after_id}

    return act


PAGES: Mapping[str, Callable[[Client, Query], dict[str, Any]]] = {
    f"{name}_page": _page(take) for name, take in _TAKES.items()
}
