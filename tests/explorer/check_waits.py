"""What a snooze and a retry promise: a job waits until it is due; and what is noted of it."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.check_groups import SLACK
from explorer.check_handed_out import holds
from explorer.check_leases import LEAVING, TAKING, gave, named
from explorer.database import Link
from explorer.ending_calls import DELAYS
from explorer.history import Event, History
from explorer.known_jobs import Job

__all__ = ["check_waits"]

NOTING = tuple(call for call in LEAVING if call != "retry_job")
"""They name a job, and leave it where it stands."""
MANY = ("redrive", "retry_jobs")
"""They make jobs due that they do not name."""


@dataclass(frozen=True)
class Wait:
    """A job that was made to wait by a committed call: a snooze, or an enqueue with a delay."""

    job_id: int
    event: Event

    def due(self, history: History) -> int:
        """By how much the clock is ahead at least when the job is due."""
        least, _ = history.clock(self.event.started, self.event.ended)
        return least + DELAYS[self.event.arguments["delay"]] - SLACK


def check_waits(history: History, link: Link) -> None:
    """Hold the answers against each other, and against the jobs that are left."""
    events = [e for t in history.transactions for e in t.events if e.answer is not None]
    snoozes = [Wait(named(e)[0], e) for e in history.committed("release_job") if _snoozes(e)]
    waits = snoozes + [
        Wait(row["job_id"], e)
        for e in history.committed("enqueue_unique")
        for row in e.rows
        if e.arguments.get("delay") is not None and not row["duplicate"]
    ]
    retries = [e for e in history.committed("retry_job") if e.rows[0]["retry_job"]]
    for wait in waits:
        _check_wait(history, wait, retries)
    for retry in retries:
        _check_leased(history, retry, events)
    for retry in history.events("retry_job"):
        if retry.succeeded and not retry.rows[0]["retry_job"]:
            _check_refused(history, retry, waits, events)
    _check_in_vain(history, link, retries, events)
    _check_notes(history, link, snoozes)


def _snoozes(event: Event) -> bool:
    return event.rows[0]["release_job"] and event.arguments.get("delay") is not None


def _is_before(event: Event, later: Event) -> bool:
    """Whether it stood when the later one began."""
    if event.transaction is later.transaction:
        return event.index < later.index
    return event.transaction.committed and event.transaction.ended < later.started


def _check_wait(history: History, wait: Wait, retries: list[Event]) -> None:
    """The next claim of the job comes when it is due, if nobody has retried or redriven it."""
    began = wait.event
    claims = (e for e in history.committed() if gave(e, wait.job_id) and e.order > began.order)
    claim = next(claims, None)
    if claim is None or history.clock(claim.started, claim.ended)[1] >= wait.due(history):
        return
    for other in (*retries, *history.committed(*MANY)):
        beside = other.ended >= began.started and other.started <= claim.ended
        if beside and (wait.job_id in named(other) or other.call in MANY):
            return
    told = f"job {wait.job_id}: {began.statement}, then {claim.statement}"
    history.violate("before its time", told)


def _check_leased(history: History, retry: Event, events: list[Event]) -> None:
    """What was made due was not leased for sure."""
    [job_id] = named(retry)
    for claim in events:
        job = Job(0, claim, job_id)
        given = gave(claim, job_id) and _is_before(claim, retry)
        if given and holds(history, job, claim, retry, events):
            told = f"{retry.statement} after {claim.statement}"
            history.violate("retried what is leased", told)


def _check_refused(history: History, retry: Event, waits: list[Wait], events: list[Event]) -> None:
    """A job that waited for sure is not refused; what has a key may wait for another one."""
    [job_id] = named(retry)
    if any("max_attempts" in e.arguments for e in history.events("alter_queue")):
        return
    for wait in waits:
        began = wait.event
        keyed = began.call != "release_job" and began.arguments["key"] is not None
        if wait.job_id != job_id or keyed or not _is_before(began, retry):
            continue
        late = history.clock(began.started, retry.ended)[1] >= wait.due(history)
        if not late and not _touched(began, retry, job_id, events):
            told = f"{retry.statement} after {began.statement}"
            history.violate("retry refused", told)


def _touched(first: Event, last: Event, job_id: int, events: list[Event]) -> bool:
    """Whether anything else may have been done to a job between two calls."""
    return any(
        other.ended >= first.started
        and other.started <= last.ended
        and (other.call in TAKING or job_id in named(other) or gave(other, job_id))
        and other.call not in NOTING
        for other in events
        if other is not first and other is not last
    )


def _check_in_vain(history: History, link: Link, retries: list[Event], events: list[Event]) -> None:
    """What was made due and not touched since does not wait."""
    waiting = {
        row["job_id"]
        for row in link.rows(
            "select j.job_id from pgq.job as j where j.lease_token is null and j.due_at is null"
            " and j.visible_at > pgq._clock()"
        )
    }
    for retry in retries:
        [job_id] = named(retry)
        if job_id not in waiting or history.went_back() >= retry.started:
            continue
        if not _touched(retry, events[-1], job_id, [e for e in events if e is not retry]):
            history.violate("retried in vain", f"{retry.statement}, and it waits")


def _check_notes(history: History, link: Link, snoozes: list[Wait]) -> None:
    """What was noted of a job that is there is what its workers have told, and nothing else."""
    told: dict[int, object] = {}
    for event in history.committed("set_progress"):
        if event.rows[0]["set_progress"]:
            told[event.arguments["job_id"]] = event.arguments["progress"]
    for row in link.rows(
        "select i.job_id, i.snoozes, i.progress from (select job_id from pgq.job"
        " union all select job_id from pgq.dead_job) as j"
        " cross join lateral pgq.get_job(j.job_id) as i"
    ):
        times = sum(snooze.job_id == row["job_id"] for snooze in snoozes)
        if row["snoozes"] != times:
            history.violate("snoozes", f"{row} after {times}")
        if row["progress"] != told.get(row["job_id"]):
            history.violate("progress", f"{row} after {told.get(row['job_id'])}")
