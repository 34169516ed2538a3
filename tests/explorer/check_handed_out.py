"""What limits of claims promise all the way: no more jobs leased at a time, or handed out, than are
allowed.

Limits change while jobs are claimed. Told is only what no order of the calls, and none of the
limits that a claim may have known, can explain.
"""

from __future__ import annotations

from explorer.check_groups import LONG_LEASE, SLACK
from explorer.check_leases import LEAVING, gave, named, takes
from explorer.database import Row
from explorer.history import Event, History
from explorer.known_jobs import Job, Queue
from explorer.settings import kept_for

__all__ = ["check_handed_out", "holds", "known_settings", "must_know"]

BY_ITSELF = 60
"""Seconds of a trial that may pass by themselves, and more."""


def check_handed_out(queue: Queue) -> None:
    """Replay the claims of a queue, and what became of their jobs."""
    changes = queue.since_cut("create_queue", "alter_queue")
    claims = {
        claimed.event.order: claimed.event
        for job in queue.jobs.values()
        for claimed in job.claims
        if queue.cut is None or claimed.event.started > queue.cut[0]
    }
    in_order = [claims[order] for order in sorted(claims)]
    if any(event.rows[0]["max_leased"] is not None for event in changes):
        _check_leased(queue, in_order, changes)
    if any(event.rows[0]["rate_limit"] is not None for event in changes):
        _check_rate(queue, in_order, changes)


# ---------------------------------------------------------------------------- what a claim knew


def known_settings(claim: Event, changes: list[Event]) -> list[Row]:
    """The settings of its queue that a claim may have seen, of which it saw one."""
    above = claim.transaction.level in ("repeatable read", "serializable")
    looked = claim.transaction.started if above else claim.started
    before = [e for e in changes if e.transaction.ended < looked]
    beside = [e for e in changes if e not in before and e.started <= claim.ended]
    altered = [e.transaction.ended for e in before if e.call == "alter_queue"]
    # a create of what is there answers what an old snapshot showed
    last = [e for e in before if not altered or e.transaction.ended >= altered[-1]]
    return [event.rows[0] for event in last + beside]


def _limits(claim: Event, changes: list[Event], name: str) -> list[int] | None:
    """The limits that it may have known; None: perhaps there was none."""
    found = [row[name] for row in known_settings(claim, changes)]
    return None if None in found or not found else found


def must_know(earlier: Event, claim: Event, limited: bool) -> bool:
    """Whether this claim must have known the earlier one: limited ones wait for each other."""
    if limited or earlier.transaction is claim.transaction:
        return earlier.ended < claim.started
    return earlier.transaction.ended < claim.transaction.started


def holds(history: History, job: Job, earlier: Event, claim: Event, events: list[Event]) -> bool:
    """Whether the job was leased by the earlier claim for sure when this one ended."""
    passed = history.passed(earlier.started, claim.ended)
    if passed >= LONG_LEASE[earlier.arguments["lease"]] - SLACK:
        return False
    return not any(
        other.ended >= earlier.started
        and other.started <= claim.ended
        and (takes(other) or job.job_id in named(other) or gave(other, job.job_id or 0))
        and other.call not in LEAVING
        for other in events
        if other is not earlier
    )


# ---------------------------------------------------------------------------- max_leased


def _check_leased(queue: Queue, claims: list[Event], changes: list[Event]) -> None:
    """No claim gave a job while as many as the limit were leased for sure."""
    history = queue.history
    events = [e for t in history.transactions for e in t.events if e.answer is not None]
    given = {
        claim.order: [j for j in queue.jobs.values() if any(c.event is claim for c in j.claims)]
        for claim in claims
    }
    for claim in claims:
        limits = _limits(claim, changes, "max_leased")
        if limits is None:
            continue
        new = given[claim.order]
        held = [
            job
            for earlier in claims
            if earlier is not claim and _counted(earlier, claim, changes)
            for job in given[earlier.order]
            if job not in new and holds(history, job, earlier, claim, events)
        ]
        if len(new) + len(held) > max(limits):
            told = f"{claim.statement} gave {[job.job_id for job in new]}, leased were"
            told = f"{told} {[job.job_id for job in held]}, and {max(limits)} may be"
            history.violate("too many at a time", told)


def _counted(earlier: Event, claim: Event, changes: list[Event]) -> bool:
    """Whether a claim with a limit must have counted what the earlier one gave.

    What was claimed without the limit, beside the call that switched it on, counts only after all
    that was under way then.
    """
    if _limits(earlier, changes, "max_leased") is not None:
        return must_know(earlier, claim, True)
    if not must_know(earlier, claim, False) or earlier.transaction is claim.transaction:
        return False
    without = [
        place
        for place, e in enumerate(changes)
        if e.rows[0]["max_leased"] is None and e.started <= claim.ended
    ]
    switched = changes[max(without, default=-1) + 1 :]
    return bool(switched) and earlier.transaction.ended < switched[0].transaction.started


# ---------------------------------------------------------------------------- rate_limit


def _check_rate(queue: Queue, claims: list[Event], changes: list[Event]) -> None:
    """Between any two claims there were no more than the burst and what came in that time."""
    history = queue.history
    for first, begin in enumerate(claims):
        most_at_once = fastest = 0.0
        handed_out = 0
        for claim in claims[first:]:
            known = known_settings(claim, changes)
            if not known or any(row["rate_limit"] is None for row in known):
                break
            most_at_once = max([most_at_once, *(row["rate_burst"] for row in known)])
            fastest = max([fastest, *(_per_second(row) for row in known)])
            handed_out += len(claim.rows)
            since = min(e.started for e in claims[first:] if e.order <= claim.order)
            passed = history.passed(since, claim.ended) + BY_ITSELF
            if handed_out > most_at_once + passed * fastest:
                told = f"{queue.name} gave {handed_out} jobs in {passed} s, from {begin.statement}"
                history.violate("too many handed out", f"{told} to {claim.statement}")
                return


def _per_second(row: Row) -> float:
    return float(row["rate_limit"]) / (kept_for(row["rate_interval"]) or 1)
