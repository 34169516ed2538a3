"""What a fault run must show of queues: every job ended once, in one end state, in its turn."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta

from fault_runs.evidence import Evidence

__all__ = ["TICK", "check_jobs"]

TICK = timedelta(seconds=10)

KEPT = ["jobs", "bulk-jobs", "ordered", "swept", "followers", "ticks", "replaced", "postponed"]
"""Queues that keep what has ended."""

FINISHING = ("ack", "archive_job", "finish_and_claim")


def check_jobs(evidence: Evidence) -> None:
    """Hold the ends of all jobs against what was enqueued, and what workers were told."""
    for queue in KEPT:
        _check_ends(evidence, queue)
    _check_brief(evidence)
    _check_effects(evidence)
    _check_order(evidence)
    _check_followers(evidence)
    _check_ticks(evidence)
    left = evidence.ask(
        "select queue, ready, leased, delayed, waiting from pgq.queue_stats"
        " where ready + leased + delayed + waiting > 0"
    )
    if left:
        evidence.violate("stuck job", f"queue, ready, leased, delayed, waiting: {left}")


def _check_ends(evidence: Evidence, queue: str) -> None:
    archived = evidence.ask(
        "select job_id, payload ->> 'name', outcome from pgq.archived_jobs where queue = %s",
        [queue],
    )
    dead = evidence.ask(
        "select job_id, payload ->> 'name', 'dead' from pgq.dead_letters where queue = %s", [queue]
    )
    # a purged one is left only with its attempts
    purged = evidence.ask(
        "select distinct job_id, name, 'purged' from attempt"
        " where queue = 'swept' and queue = %s and not job_id = any(%s)",
        [queue, [job_id for job_id, _, _ in (*archived, *dead)]],
    )
    ends = [*archived, *dead, *purged]
    for job_id, count in Counter(job_id for job_id, _, _ in ends).items():
        if count > 1:
            evidence.violate("ended twice", f"job {job_id} of {queue} has {count} ends")
    done = {i for (i,) in evidence.ask("select job_id from done where queue = %s", [queue])}
    finished = {job_id for job_id, _, outcome in archived if outcome in ("acked", "archived")}
    if done != finished:
        told = f"{queue}: {sorted(done ^ finished)[:5]} are finished, or had their effect, alone"
        evidence.violate("effect", told)
    if queue in ("followers", "ticks", "replaced", "postponed"):
        return
    names = {job_id: name for job_id, name, _ in ends}
    counts = Counter(names.values())
    for name, count in counts.items():
        if count > 1:
            evidence.violate("twice", f"{name} is {count} jobs of {queue}")
    for unit in evidence.of("enqueue"):
        if unit.about["queue"] != queue:
            continue
        wanted = unit.about["names"]
        there = [counts[name] > 0 for name in wanted]
        if unit.done:
            found = [names.get(job_id) for job_id in unit.told["job_ids"]]
            if found != wanted:
                told = f"{wanted} were said to be {unit.told['job_ids']} of {queue}: {found}"
                evidence.violate("lost job", told)
        elif unit.undone and any(there):
            evidence.violate("undone", f"{wanted} are in {queue}, and were rolled back")
        elif any(there) and not all(there):
            evidence.violate("torn", f"a part of {wanted} is in {queue}")


def _check_brief(evidence: Evidence) -> None:
    """Of a queue that keeps nothing for long, the effects are what is left."""
    done = evidence.ask("select job_id, name from done where queue = 'brief-jobs'")
    names = Counter(name for _, name in done)
    for name, count in names.items():
        if count > 1:
            evidence.violate("twice", f"{name} was done {count} times")
    for unit in evidence.of("enqueue"):
        if unit.about["queue"] == "brief-jobs":
            missed = [name for name in unit.about["names"] if not names[name]]
            if unit.done and missed:
                evidence.violate("lost job", f"{missed} of brief-jobs were never done")
            if unit.undone and len(missed) < len(unit.about["names"]):
                evidence.violate("undone", f"some of {unit.about['names']} were done")


def _check_effects(evidence: Evidence) -> None:
    """What a worker was told to be finished has had its effect."""
    done = {(queue, job_id) for queue, job_id in evidence.ask("select queue, job_id from done")}
    for unit in evidence.of("end"):
        held = unit.done and unit.told.get("held") and unit.about["way"] in FINISHING
        if held and (unit.about["queue"], unit.about["job_id"]) not in done:
            evidence.violate("effect", f"job {unit.about['job_id']} of {unit.about['queue']}")


def _check_order(evidence: Evidence) -> None:
    """Of each key the jobs were done in the order of their enqueues."""
    last: dict[str, int] = defaultdict(lambda: -1)
    for (name,) in evidence.ask("select name from done where queue = 'ordered' order by place"):
        key, _, number = name.rpartition(":")
        if int(number) <= last[key]:
            evidence.violate("overtaken", f"{name} was done after {last[key]}")
        last[key] = int(number)


def _check_followers(evidence: Evidence) -> None:
    """Each message that matches the subscription has become one job."""
    wanted = Counter(
        name
        for (name,) in evidence.ask(
            "select payload ->> 'name' from pgq.messages"
            """ where topic = 'log' and headers @> '{"kind": "a"}'"""
        )
    )
    got = Counter(
        name for (name,) in evidence.ask("select name from done where queue = 'followers'")
    )
    if wanted - got:
        evidence.violate("follower", f"{list(wanted - got)[:5]} never came to the queue")
    if got - wanted:
        evidence.violate("follower", f"{list(got - wanted)[:5]} came too often")


def _check_ticks(evidence: Evidence) -> None:
    """Each tick was written once."""
    [(starts_at, next_at)] = evidence.ask(
        "select starts_at, next_at from pgq.list_schedules('ticks')"
    )
    got = Counter(
        datetime.fromisoformat(name)
        for (name,) in evidence.ask("select name from done where queue = 'ticks'")
    )
    wanted = Counter(starts_at + n * TICK for n in range((next_at - starts_at) // TICK))
    if got != wanted:
        told = f"{list(wanted - got)[:3]} missed, {list(got - wanted)[:3]} too many"
        evidence.violate("tick", told)
