"""What unique keys promise, and a cancel: of a key there is one unfinished job in a queue."""

from __future__ import annotations

from typing import Any

from explorer.database import Link
from explorer.history import Event, History
from explorer.known_jobs import FINISHED

__all__ = ["check_endings"]

Key = tuple[str, str]


def check_endings(history: History, link: Link) -> None:
    """Hold the answers against each other, and against the jobs that are left."""
    left = {
        row["job_id"]: row
        for row in link.rows(
            "select q.queue, q.unique_until, j.job_id, j.unique_key, j.attempt,"
            " coalesce(j.expires_at <= pgq._clock(), false) as expired"
            " from pgq.job as j inner join pgq.queue as q on q.queue_id = j.queue_id"
        )
    }
    redriven = any(row for e in history.committed("redrive") for row in e.rows if row["taken"])
    _check_keys(history, link)
    _check_duplicates(history)
    if not redriven:
        _check_cancels(history, set(left))
        _check_missed(history, left)
        _check_released(history, left, link)


def _check_keys(history: History, link: Link) -> None:
    for row in link.rows(
        "select q.queue, j.unique_key, array_agg(j.job_id) as jobs from pgq.job as j"
        " inner join pgq.queue as q on q.queue_id = j.queue_id"
        " where j.unique_key is not null and (q.unique_until <> 'claimed' or j.lease_token is null)"
        " group by q.queue, j.unique_key having count(*) > 1"
    ):
        history.violate("two of a key", f"{row}")
    # as long as the tables are made in this way; what is wrong here is seen by nobody, or for ever
    for row in link.rows(
        "select u.queue_id, u.unique_key, u.job_id from pgq.unique_job as u"
        " inner join pgq.queue as q on q.queue_id = u.queue_id"
        " where not exists (select from pgq.job as j where j.job_id = u.job_id"
        " and (j.queue_id, j.unique_key) = (u.queue_id, u.unique_key)"
        " and (q.unique_until <> 'claimed' or j.lease_token is null))"
        " and not exists (select from pgq.dead_job as d where d.job_id = u.job_id"
        " and (d.queue_id, d.unique_key) = (u.queue_id, u.unique_key)"
        " and q.unique_until = 'removed')"
    ):
        history.violate("loose key", f"{row}")
    for row in link.rows(
        "select q.queue, j.job_id, j.unique_key from pgq.job as j"
        " inner join pgq.queue as q on q.queue_id = j.queue_id"
        " where j.unique_key is not null and (q.unique_until <> 'claimed' or j.lease_token is null)"
        " and not exists (select from pgq.unique_job as u where u.job_id = j.job_id)"
    ):
        history.violate("key not held", f"{row}")


def _answers(history: History) -> list[tuple[Event, Key, int, bool]]:
    """What enqueues with a key were answered, in the order of the commits."""
    found = []
    for event in history.committed("enqueue_unique", "enqueue_batch_unique"):
        arguments = event.arguments
        keys = arguments.get("unique_keys") or [arguments.get("unique_key")]
        for key, row in zip(keys, event.rows, strict=True):
            if key is not None:
                named = (arguments["queue"], key)
                found.append((event, named, row["job_id"], row["duplicate"]))
    return found


def _check_duplicates(history: History) -> None:
    """A duplicate is one of a job of this key, which is not finished for long."""
    answers = _answers(history)
    keys = {job_id: key for _, key, job_id, duplicate in answers if not duplicate}
    over: dict[int, int] = {}
    for event in history.committed():
        for job_id in FINISHED[event.call](event) if event.call in FINISHED else ():
            over[job_id] = event.transaction.ended
    for event, key, job_id, duplicate in answers:
        if not duplicate:
            continue
        told = f"{event.statement} answered {job_id}"
        if keys.get(job_id) != key:
            history.violate("duplicate of nothing", f"{told}, which has {keys.get(job_id)}")
        elif over.get(job_id, event.started) < event.started:
            history.violate("stale duplicate", f"{told}, which was finished before")


def _check_cancels(history: History, left: set[int]) -> None:
    """A job that is there in the end cannot have been unknown to a cancel."""
    made = {
        row["job_id"]: event
        for event in history.committed("enqueue", "enqueue_unique", "enqueue_batch")
        for row in event.rows
        if not row["duplicate"]
    }
    for event in history.events("cancel_job"):
        job_id = event.arguments["job_id"]
        if not event.succeeded or event.rows[0]["cancel_job"] or job_id not in left & made.keys():
            continue
        before = made[job_id].transaction
        if before is event.transaction or before.ended < event.started:
            # its own transaction may have taken it, and have been rolled back
            own = [e for e in event.transaction.events if e is not event]
            if event.transaction.committed or not own:
                history.violate("cancel refused", f"{event.statement}, and the job is there")


def _check_missed(history: History, left: dict[int, dict[str, Any]]) -> None:
    """A job that is there in the end has kept out all that came behind it."""
    answers = [(e, key, job_id) for e, key, job_id, duplicate in _answers(history) if not duplicate]
    for first, key, job_id in answers:
        if job_id not in left or left[job_id]["unique_until"] == "claimed":
            continue
        if left[job_id]["expired"] or history.went_back():  # it may have expired for a while
            continue
        for later, other, number in answers:
            behind = first.transaction.ended < later.started
            if other == key and number != job_id and behind:
                history.violate("missed duplicate", f"{later.statement}, and {job_id} is there")


def _check_released(history: History, left: dict[int, dict[str, Any]], link: Link) -> None:
    """What was released last has had one attempt less than that claim said, also if it is dead."""
    dead = {row["job_id"]: row for row in link.rows("select job_id, attempt from pgq.dead_letters")}
    last: dict[int, tuple[str, int]] = {}
    released = set()
    for event in history.committed():
        for row in event.rows:
            if {"job_id", "lease_token", "attempt"} <= row.keys():
                last[row["job_id"]] = (row["lease_token"], row["attempt"])
        if event.call == "release_job" and event.rows[0]["release_job"]:
            released.add((event.arguments["job_id"], event.arguments["lease_token"]))
        if event.call == "release_job_batch":
            token = event.arguments["lease_token"]
            released |= {(row["job_id"], token) for row in event.rows}
    for job_id, (token, attempt) in last.items():
        found = left.get(job_id) or dead.get(job_id)
        if found is not None and (job_id, token) in released and found["attempt"] != attempt - 1:
            told = f"job {job_id}: {found['attempt']} after {attempt} was released"
            history.violate("attempts", told)
