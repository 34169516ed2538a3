"""No two valid leases at once, of a partition or of a job."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from fault_runs.evidence import Evidence, Unit

__all__ = ["Lease", "check_leases"]


@dataclass
class Lease:
    """What a client was given, from when until when by the clock of pgq."""

    what: str
    token: str
    begin: float
    until: float
    attempt: int
    unit: Unit


SLACK = 0.001
"""Seconds that rounding takes."""


def check_leases(evidence: Evidence) -> None:
    """Hold each lease against the one before."""
    by_thing: dict[str, list[Lease]] = defaultdict(list)
    for lease in [*_polls(evidence), *_claims(evidence)]:
        by_thing[lease.what].append(lease)
    endings = _endings(evidence)
    for leases in by_thing.values():
        # a moment of real time lies between these where they did not overlap
        leases.sort(key=lambda each: (each.unit.ended, each.attempt))
        for first, second in pairwise(leases):
            if first.token != second.token:
                _check(evidence, first, second, endings)


def _polls(evidence: Evidence) -> list[Lease]:
    return [
        Lease(
            f"partition {unit.told['partition']}",
            unit.told["token"],
            unit.told["until"] - unit.about["lease"],
            unit.told["until"],
            0,
            unit,
        )
        for unit in evidence.of("poll")
        if unit.told.get("token")
    ]


def _claims(evidence: Evidence) -> list[Lease]:
    return [
        Lease(
            f"job {job['job_id']}",
            job["token"],
            job["until"] - unit.about["lease"],
            job["until"],
            job["attempt"],
            unit,
        )
        for unit in evidence.of("claim", "end")
        if unit.done
        for job in unit.told.get("jobs", [])
    ]


def _endings(evidence: Evidence) -> dict[str, int]:
    """When the first call began that may have ended the lease of a token, by token and job."""
    found: dict[str, int] = {}
    for unit in evidence.of("release", "commit", "end"):
        if "token" in unit.about and not unit.undone:
            thing = unit.about.get("job_id", unit.about.get("partition"))
            found.setdefault(f"{unit.about['token']} {thing}", unit.began)
    return found


def _check(evidence: Evidence, first: Lease, second: Lease, endings: dict[str, int]) -> None:
    thing = first.what.split()[1]
    if endings.get(f"{first.token} {thing}", 2**63) < second.unit.ended:
        return
    if first.unit.about.get("unflushed") and evidence.crashed(first.unit.began, second.unit.ended):
        return
    # a dead letter that was redriven does not wait for the lease that has killed it
    if second.attempt <= first.attempt and evidence.stepped(first.unit.began, second.unit.ended):
        return
    # two that were under way at once: who was first is told by the clock, if that stood still
    side_by_side = second.unit.began < first.unit.ended
    if side_by_side and evidence.stepped(second.unit.began, second.unit.ended):
        return
    first, second = (
        sorted((first, second), key=lambda e: e.begin) if side_by_side else (first, second)
    )
    if second.begin < first.until - SLACK:
        told = (
            f"{first.what} was {first.token} until {first.until:.3f},"
            f" and {second.token} at {second.begin:.3f}"
        )
        evidence.violate("two leases", told)
