"""What a fault run must show of what is noted about jobs: results, and attempts that failed."""

from __future__ import annotations

from collections import Counter, defaultdict

from fault_runs.check_jobs import FINISHING
from fault_runs.evidence import Evidence, Unit

__all__ = ["check_results"]

STATES = {"acked": "finished", "archived": "finished", "dead": "failed"}
"""The state of a job in ``get_result``, where it has another name than the outcome."""

ENDED = """
select e.queue, e.job_id, e.outcome, r.state, r.result
from (
    select queue, job_id, outcome from pgq.archived_jobs
    union all
    select queue, job_id, 'dead' from pgq.dead_letters
) as e
cross join lateral pgq.get_result(e.job_id) as r
where e.queue in (select queue from pgq.list_queues() where keep_results)
"""

HISTORY = """
select a.job_id, h.attempt, h.outcome, h.error
from (select distinct job_id from attempt where queue = any(%s)) as a
cross join lateral pgq.job_history(a.job_id) as h
"""

KEPT = ["jobs", "ordered", "swept", "replaced", "postponed", "bulk-jobs", "followers"]
"""Queues whose retention has no end, so that no attempt is too old."""


def check_results(evidence: Evidence) -> None:
    """Hold the results and the attempts of jobs against what workers did."""
    by_job: dict[int, list[Unit]] = defaultdict(list)
    by_lease: dict[tuple[int, str], Unit] = {}
    for unit in evidence.of("end"):
        # a worker that does not hold the job any more changes nothing
        if not unit.undone and unit.told.get("held", True):
            by_lease[unit.about["job_id"], unit.about["token"]] = unit
            if unit.about["way"] in FINISHING:
                by_job[unit.about["job_id"]].append(unit)
    for queue, job_id, outcome, state, result in evidence.ask(ENDED):
        told = f"job {job_id} of {queue}, {outcome}, is {state} with {result}"
        if state != STATES.get(outcome, outcome):
            evidence.violate("result", told)
        elif state == "finished":
            ends = by_job[job_id]
            # one that was acknowledged, or one of those of which nothing is known
            given = [u.about.get("result") for u in ends if u.done or not any(e.done for e in ends)]
            if result not in given:
                evidence.violate("result", f"{told}, and was given {given}")
    _check_history(evidence, by_lease)


def _check_history(evidence: Evidence, ends: dict[tuple[int, str], Unit]) -> None:
    histories: dict[int, list[tuple[int, str, str | None]]] = defaultdict(list)
    for job_id, *attempt in evidence.ask(HISTORY, [KEPT]):
        histories[job_id].append(tuple(attempt))
    claims: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for job_id, token, attempt in evidence.ask(
        "select job_id, token::text, attempt from attempt where queue = any(%s) order by place",
        [KEPT],
    ):
        claims[job_id].append((token, attempt))
    for job_id, claimed in claims.items():
        for told in _differences(job_id, claimed, histories[job_id], ends):
            evidence.violate("history", f"job {job_id}: {told}; {claimed} {histories[job_id]}")


def _differences(
    job_id: int,
    claimed: list[tuple[str, int]],
    history: list[tuple[int, str, str | None]],
    ends: dict[tuple[int, str], Unit],
) -> list[str]:
    """Where the history of a job does not go with the claims of it."""
    found = [f"{len(history)} attempts"] if len(history) > 20 else []
    # the token is the end of the error
    failed = {str(error).split()[-1]: n for n, event, error in history if event == "failed"}
    lost = Counter(attempt for attempt, event, _ in history if event == "lost")
    least, most = Counter[int](), Counter[int]()
    for number, (token, attempt) in enumerate(claimed, 1):
        end = ends.get((job_id, token))
        way = end.about["way"] if end else "lose"
        if token in failed:
            if way != "nack" or failed.pop(token) != attempt:
                found.append(f"attempt {attempt} ended with {way}")
        elif end and end.done:
            if way == "nack":
                found.append(f"attempt {attempt} is not there")
        else:
            most[attempt] += 1
            # it may have been released; what else was committed would be seen
            least[attempt] += number < len(claimed) and way != "release_job"
    found += [f"attempt of nobody: {token}" for token in failed]
    found += [f"attempt {attempt} was not lost" for attempt in lost - most]
    found += [f"attempt {attempt} was lost" for attempt in least - lost]
    # of more attempts the older ones are gone
    return found if len(history) != 20 else []
