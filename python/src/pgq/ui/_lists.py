"""The jobs of a queue in lists: unfinished ones, dead letters, and those that have ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pgq import Client
from pgq.messages import ArchivedJob, DeadLetter, JobInfo
from pgq.ui._documents import CUT, row
from pgq.ui._filter import Filter
from pgq.ui._query import Query
from pgq.ui._source import Problem
from pgq.ui._workers import holders

__all__ = ["PAGE", "dead", "errors", "finished", "jobs"]

PAGE = 50
"""Jobs and dead letters of one page."""
SIZES = (50, 200, 1000)
"""Finished jobs of one page."""
BLOCK = 500
"""Dead letters that are read at a time where only some of them are wanted."""
LOOKED_AT = 5000
"""So many dead letters are looked at for a page of a filter, at most."""
GROUPED = 100_000
"""So many dead letters, the newest, are grouped by their errors."""
HELD = 50_000_000
"""Bytes of contents that are read for a page of a filter, about."""


def jobs(client: Client, query: Query) -> dict[str, Any]:
    """The first unfinished jobs, in the order of claims; with a filter the newest that match."""
    queue, state, wanted = query.text("queue"), query.maybe("state"), Filter.of(query)
    if wanted:
        found = client.jobs.search_jobs(
            queue, state=state, max_jobs=PAGE, **wanted.arguments("due")
        )
    else:
        found = client.jobs.peek_jobs(queue, state=state, max_jobs=PAGE)
    held = holders(client, found)
    return {
        "jobs": [
            {**_short(one), "worker": held[one.job_id].worker if one.job_id in held else None}
            for one in found
        ]
    }


def dead(client: Client, query: Query) -> dict[str, Any]:
    """A page of dead letters, those that died first before the others, and where the next begins.

    With a filter it may be shorter, or empty, and yet have a next one: a page looks at so many.
    """
    queue, wanted = query.text("queue"), Filter.of(query)
    after_at, after_id = query.moment("after_died_at"), query.number("after_job_id")
    if after_at is None and after_id is None and wanted.since is not None:
        after_at, after_id = wanted.since, -1
    shown: list[DeadLetter] = []
    looked_at = held = 0
    goes_on = True
    while goes_on and len(shown) <= PAGE and looked_at < LOOKED_AT and held < HELD:
        most = BLOCK if wanted else PAGE + 1
        block = client.jobs.fetch_dead_letters(
            queue, max_jobs=most, after_died_at=after_at, after_job_id=after_id
        )
        looked_at, held = looked_at + len(block), held + _size(block)
        shown += [one for one in block if wanted.matches(one)]
        goes_on = len(block) == most and not _past(block[-1].died_at, wanted.before)
        if block:
            after_at, after_id = block[-1].died_at, block[-1].job_id
    if len(shown) > PAGE:
        goes_on = True
        shown = shown[:PAGE]
        after_at, after_id = shown[-1].died_at, shown[-1].job_id
    return {
        "letters": [_short(one) for one in shown],
        "looked_at": looked_at,
        "more": goes_on,
        "next": {"after_died_at": after_at, "after_job_id": after_id} if goes_on else None,
    }


def errors(client: Client, query: Query) -> dict[str, Any]:
    """The newest dead letters, grouped by the last line of their errors."""
    found = client.jobs.list_errors(query.text("queue"), max_jobs=GROUPED)
    return {"errors": found, "whole": sum(one.dead_letters for one in found) < GROUPED}


def finished(client: Client, query: Query) -> dict[str, Any]:
    """The archived jobs that ended last, as far as the end of the archive has them."""
    queue, size = query.text("queue"), query.number("size") or PAGE
    if size not in SIZES:
        raise Problem(400, f"size must be one of {', '.join(map(str, SIZES))}")
    found = client.jobs.fetch_archived_jobs(queue, max_jobs=size)
    archives = any(one.archive for one in client.admin.list_queues() if one.queue == queue)
    return {"jobs": [_short(one) for one in found], "archives": archives}


def _past(at: datetime, before: datetime | None) -> bool:
    return before is not None and at >= before


def _size(found: Sequence[DeadLetter]) -> int:
    """The length of their contents, of which a list shows little."""
    return sum(len(one.body or "") + len(one.payload or "") for one in found)


def _short(one: JobInfo | DeadLetter | ArchivedJob) -> dict[str, Any]:
    """A row of a list: its long texts are cut, as its content is; an error from its last line."""
    shown = row(one)
    if shown["last_error"] is not None:
        first, *rest = shown["last_error"].rstrip().split("\n")
        traceback = first.startswith("Traceback ")
        shown["last_error"] = "\n".join([*rest[-1:], *([] if rest and traceback else [first])])
    return {
        name: f"{value[:CUT]}…" if isinstance(value, str) and len(value) > CUT else value
        for name, value in shown.items()
    }
