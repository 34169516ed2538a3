"""What is noted of jobs: the attempts that did not succeed, and what has become of a job."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from explorer.check_groups import LONG_LEASE, SLACK
from explorer.check_leases import LEAVING, gave, named
from explorer.check_log import FOREVER, MARGIN
from explorer.database import Link, Row
from explorer.history import Event, History
from explorer.keyed_calls import KEYED
from explorer.known_jobs import FINISHED
from explorer.newest_calls import NEWEST
from explorer.script import written
from explorer.settings import kept_for

__all__ = ["check_noted"]

Attempt = tuple[int, str, str | None]
"""Its number, its outcome and its worker."""

ENQUEUES = (
    *("enqueue", "enqueue_unique", "enqueue_batch", "enqueue_batch_unique", *KEYED),
    *("enqueue_newest", "enqueue_batch_newest"),
)
FAILING = {"nack": "failed", "nack_batch": "failed", "reject_job": "rejected"}
RELEASING = ("release_job", "release_job_batch")
UNSEEN = ("cancel_jobs", "drop_queue", "purge_queue", "redrive")
"""They do not tell which jobs they have ended, or have brought back."""
TOLD = """
select j.id, t.*
from unnest({}::bigint[]) as j (id)
cross join lateral pgq.{}(j.id) as t
"""
ALIVE = ("waiting", "leased", "blocked")


@dataclass
class Noted:
    """A job, the committed calls that took or ended its leases, and how long it is known."""

    job_id: int
    event: Event
    keeps: bool
    retention: int
    job_ttl: int
    calls: list[Event] = field(default_factory=list)

    @property
    def claims(self) -> list[Event]:
        return [e for e in self.calls if gave(e, self.job_id)]


def check_noted(history: History, link: Link) -> None:
    """Hold what is told in the end, and what was told before, against the calls."""
    jobs = _jobs(history)
    if not jobs:
        return
    attempts: dict[int, list[Row]] = {}
    for row in link.rows(TOLD.format(written(list(jobs)), "job_history")):
        attempts.setdefault(row["id"], []).append(row)
    for row in link.rows(TOLD.format(written(list(jobs)), "get_result")):
        job = jobs[row["id"]]
        _check_attempts(history, job, row["state"] == "failed", attempts.get(row["id"], []))
        ends = [e for e in job.calls if job.job_id in _finished(e)]
        told = f"job {job.job_id} in the end"
        _check_result(history, job, row, told, ends, ends)
        if not ends:
            _check_unfinished(history, job, row)
    everything = [e for t in history.transactions for e in t.events if e.answer is not None]
    for event in everything:
        if event.call == "get_result" and event.succeeded and named(event)[0] in jobs:
            job = jobs[named(event)[0]]
            above = event.transaction.level in ("repeatable read", "serializable")
            looked = event.transaction.started if above else event.started
            ends = [e for e in job.calls if job.job_id in _finished(e)]
            surely = [e for e in ends if e.transaction.ended < looked]
            perhaps = [
                e
                for e in everything
                if job.job_id in _finished(e)
                and e.started <= event.ended
                and (e.transaction is event.transaction or e.transaction.committed)
            ]
            told = f"{event.statement} answered {event.answer}"
            _check_result(history, job, event.rows[0], told, surely, perhaps)


def _jobs(history: History) -> dict[int, Noted]:
    """The jobs of queues that are there since the beginning."""
    settings: dict[str, list[Row]] = {}
    for event in history.committed("create_queue", "alter_queue"):
        settings.setdefault(event.arguments["queue"], []).append(event.rows[0])
    dropped = {e.arguments["queue"] for e in history.committed("drop_queue")}
    jobs = {}
    for event in history.committed(*ENQUEUES):
        rows = settings.get(event.arguments["queue"], [])
        for row in event.rows if event.arguments["queue"] not in dropped else ():
            if rows and not row["duplicate"]:
                jobs[row["job_id"]] = Noted(
                    row["job_id"],
                    event,
                    rows[0]["keep_results"],
                    min(kept_for(r["retention"]) or FOREVER for r in rows),
                    min(kept_for(r["job_ttl"]) or FOREVER for r in rows),
                )
    for event in history.committed():
        claimed = [r["job_id"] for r in event.rows if {"job_id", "lease_token"} <= r.keys()]
        for job_id in {*claimed, *named(event)} & jobs.keys():
            if event.call.removesuffix("_batch") not in (*LEAVING, *UNSEEN) and _did(event, job_id):
                jobs[job_id].calls.append(event)
    return jobs


def _did(event: Event, job_id: int) -> bool:
    """Whether the call, which names the job, was not refused."""
    if event.call.endswith("_batch") or gave(event, job_id):
        return any(row["job_id"] == job_id for row in event.rows)
    return all(row.get(event.call, True) for row in event.rows)


def _finished(event: Event) -> list[int]:
    return FINISHED[event.call](event) if event.call in FINISHED and event.succeeded else []


# ---------------------------------------------------------------------------- attempts


def _check_attempts(history: History, job: Noted, is_dead: bool, rows: list[Row]) -> None:
    """Each is noted once, with its number, and a lost one when a claim or a cleanup met it."""
    if any(e.arguments.get("prefetch") for e in job.claims):
        return  # what has not begun has no attempt
    must, may = _attempts(job, is_dead)
    found = Counter((row["attempt"], row["outcome"], row["worker"]) for row in rows)
    told = f"job {job.job_id}: {sorted(found.elements(), key=str)}"
    if found - must - may:
        history.violate("noted attempt", f"{told}, made were {sorted(must + may, key=str)}")
    passed = history.passed(job.event.started, history.last_cleanup())
    if must - found and passed < job.retention - MARGIN and len(rows) < 20:
        history.violate("attempt not noted", f"{told}, made were {sorted(must, key=str)}")


def _attempts(job: Noted, is_dead: bool) -> tuple[Counter[Attempt], Counter[Attempt]]:
    """The attempts that must be noted, and the last one that may be."""
    must: Counter[Attempt] = Counter()
    may: Counter[Attempt] = Counter()
    for place, claim in enumerate(job.calls):
        if not gave(claim, job.job_id):
            continue
        attempt = next(row["attempt"] for row in claim.rows if row.get("job_id") == job.job_id)
        then = job.calls[place + 1] if place + 1 < len(job.calls) else None
        if then is not None and job.job_id in _finished(then) and not gave(then, job.job_id):
            if then.call == "cancel_job":  # its lease may have been lost and met before
                may[attempt, "lost", None] += 1
        elif then is not None and then.call in FAILING:
            must[attempt, FAILING[then.call], then.arguments.get("worker")] += 1
        elif then is None and not is_dead:
            may[attempt, "lost", None] += 1
        elif then is None or gave(then, job.job_id):
            must[attempt, "lost", None] += 1
    return must, may


# ---------------------------------------------------------------------------- results


def _check_result(
    history: History, job: Noted, row: Row, told: str, surely: list[Event], perhaps: list[Event]
) -> None:
    """What is told of a finished job was given by a call that has finished it."""
    given = {_end(event) for event in perhaps}
    state = (row["state"], row["result"])
    unseen = state == ("cancelled", None) and history.events("cancel_jobs")
    known = row["state"] in ("finished", "cancelled")
    if (known or row["result"] is not None) and not unseen and (state not in given):
        history.violate("result", f"{told}: {row}, given were {given}")
    elif known and not job.keeps:
        history.violate("result", f"{told}: {row} of a queue without results")
    elif surely and not known:
        passed = history.passed(surely[0].started, history.last_cleanup())
        kept = job.keeps and passed < job.retention - MARGIN
        if kept or row["state"] != "gone":
            history.violate("result", f"{told}: {row} after {surely[0].statement}")


def _end(event: Event) -> tuple[str, Any]:
    if event.call == "cancel_job":
        return ("cancelled", None)
    return ("finished", event.arguments.get("result"))


def _check_unfinished(history: History, job: Noted, row: Row) -> None:
    """What nobody has finished waits, is leased, or has died or expired."""
    passed = history.passed(job.event.started, history.tick)
    old = passed >= min(job.retention, job.job_ttl) - MARGIN or history.went_back()
    replaced = job.event.arguments["queue"] == NEWEST
    if old or replaced or history.events(*UNSEEN):
        return
    state = row["state"]
    last = job.calls[-1] if job.calls else None
    if last is None or last.call in RELEASING:
        possible: tuple[str, ...] = ("waiting", "blocked")
    elif last.call == "reject_job":
        possible = ("failed",)
    elif not gave(last, job.job_id):
        possible = ("waiting", "blocked", "failed")
    elif _is_leased(history, job, last):
        possible = ("leased",)
    else:
        possible = (*ALIVE, "failed")
    if state not in possible:
        history.violate("result", f"job {job.job_id}: {row} after {last and last.statement}")


def _is_leased(history: History, job: Noted, claim: Event) -> bool:
    """Whether the lease of its last claim is not over for sure."""
    if any(job.job_id in named(e) for e in history.events("extend_lease", "extend_lease_batch")):
        return False
    lease = LONG_LEASE.get(claim.arguments.get("lease", ""), 0)
    return history.passed(claim.started, history.tick) < lease - SLACK
