"""One round of a fault run: clients at work, faults, the end of the work, and the checks."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from fault_runs.check_acts import check_acts
from fault_runs.check_copies import check_copies
from fault_runs.check_duplicates import check_duplicates
from fault_runs.check_house import check_codes, check_house
from fault_runs.check_jobs import check_jobs
from fault_runs.check_leases import check_leases
from fault_runs.check_log import check_groups, check_topics
from fault_runs.check_results import check_results
from fault_runs.evidence import Evidence, Violation, read_journals
from fault_runs.faults import FAR, Breaker
from fault_runs.journal import Journal, entries
from fault_runs.scenes import SCENES
from fault_runs.stage import Stage

__all__ = ["Outcome", "check", "play", "play_round", "settle"]

PATIENCE = 180.0
"""Seconds without any progress after which what is left counts as stuck."""

ENOUGH = 500
"""Messages and jobs that are left to do at which producers wait, so that rounds come to an end."""

# Spark is not there for seconds, and copies thousands at once then.
LEFT = """
select
    (
        select
            coalesce(sum(ceil(lag * case when consumer_group like 'by-%' then 0.02 else 1 end)), 0)
        from pgq.group_lag
    )
    + (select coalesce(sum(ready + leased + delayed + waiting), 0) from pgq.queue_stats)
    + (
        select coalesce(sum(o.last_offset - e.following + 1), 0)
        from external_offset as e
        inner join pgq.list_offsets('log') as o using (partition)
    )
"""


@dataclass
class Outcome:
    """What came of a round."""

    violations: list[Violation]
    faults: Counter[str]
    units: Counter[str]


def play_round(scene: str, seconds: float, seed: str, folder: Path) -> Outcome:
    """Play a round, and check what is left of it."""
    with Stage(SCENES[scene], folder, seed) as stage:
        breaker = play(stage, seconds, seed)
        violations = settle(stage, breaker)
        with psycopg.connect(stage.direct, autocommit=True) as connection:
            faults = fault_times(folder / "faults")
            evidence = Evidence(read_journals(folder / "journals"), faults, connection)
            evidence.violations += violations
            check(evidence)
            check_house(evidence, stage.clock)
        timeouts = Counter(
            f"client met {unit.told['code']}"
            for unit in evidence.units
            if unit.told.get("code") in ("57014", "55P03", "40001", "40P01")
        )
        return Outcome(
            evidence.violations,
            breaker.counts + timeouts,
            Counter(f"{unit.role} {unit.outcome}" for unit in evidence.units),
        )


def check(evidence: Evidence) -> None:
    """All that can be told without changing anything."""
    check_codes(evidence)
    stored = check_topics(evidence)
    check_copies(evidence, stored)
    check_groups(evidence, stored)
    check_leases(evidence)
    check_jobs(evidence)
    check_results(evidence)
    check_acts(evidence)
    check_duplicates(evidence)


def play(stage: Stage, seconds: float, seed: str) -> Breaker:
    """Have the clients work, and break things meanwhile."""
    rng = random.Random(f"{seed}/pauses")
    breaker = Breaker(stage, seed, Journal(stage.folder / "faults"))
    deadline = time.monotonic() + seconds
    looked = 0.0
    while time.monotonic() < deadline:
        time.sleep(rng.random() * 0.3)
        breaker.break_something()
        if time.monotonic() - looked > 0.5:
            looked = time.monotonic()
            _hold_producers(stage)
    return breaker


def _hold_producers(stage: Stage) -> None:
    """Have those that produce wait while the others have enough to do."""
    # the server may not be there
    with (
        contextlib.suppress(psycopg.Error),
        psycopg.connect(stage.direct, autocommit=True, connect_timeout=1) as connection,
    ):
        [(left,)] = connection.execute(LEFT.encode()).fetchall()
        stage.hold_producers(left > ENOUGH)


def settle(stage: Stage, breaker: Breaker) -> list[Violation]:
    """Have the producers end what they have begun, and the others do all that is left."""
    found = [
        Violation("client", f"{name} has ended by itself") for name in stage.ended_by_themselves()
    ]
    # first: where the clock has stepped back, who waits for one another is not told of it
    stage.tell_true_time()
    found += [Violation("stuck client", told) for told in stage.end_producers(PATIENCE)]
    # no lease, delay or backoff is left, wherever the clock has been
    with stage.observe():
        stage.clock.set_ahead(breaker.latest + 2 * FAR)
    _wait(stage, found)
    stage.stop_clients()
    return found


def _wait(stage: Stage, found: list[Violation]) -> None:
    """Until nothing is left to consume or to do."""
    least, since = None, time.monotonic()
    with stage.observe() as connection:
        while True:
            connection.execute("select pgq.assign_offsets('later')")
            [(left,)] = connection.execute(LEFT.encode()).fetchall()
            if not left:
                return
            if least is None or left < least:
                least, since = left, time.monotonic()
            if time.monotonic() - since > PATIENCE:
                found.append(Violation("stuck", f"{left} messages and jobs were left"))
                return
            time.sleep(0.05)


def fault_times(path: Path) -> list[dict[str, Any]]:
    """The faults of a round, from when until when."""
    found: list[dict[str, Any]] = []
    for entry in entries(path):
        if entry["what"] == "fault":
            found.append({"kind": entry["kind"], "from": entry["at"], "to": 2**63})
        else:
            found[-1]["to"] = entry["at"]
    return found
