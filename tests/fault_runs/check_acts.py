"""What a fault run must show of calls about many jobs: they took what matched, and no more."""

from __future__ import annotations

from collections import Counter

from fault_runs.evidence import Evidence
from fault_runs.producers import LATE

__all__ = ["check_acts"]

SLACK = 5
"""Seconds that may pass between the time from which a delay counts and that of the payload."""

WRONG = {
    "outside of the filter": (
        "select call, job_id, wanted, met from act"
        " where job_id is not null and wanted is distinct from met"
    ),
    "cancelled by a call and not archived so, or the other way round": (
        "select t.job_id, e.job_id from (select * from act where call = 'cancel_jobs') as t"
        " full join (select * from pgq.archived_jobs where outcome = 'cancelled') as e"
        " on e.job_id = t.job_id where t.job_id is null or e.job_id is null"
    ),
    "handed out after its cancel": (
        "select a.job_id from attempt as a inner join act as t on t.job_id = a.job_id"
        " where t.call = 'cancel_jobs' and t.place < a.place"
    ),
    "handed out before its time, and not by retry_jobs": (
        "select a.job_id, a.label, a.age from attempt as a"
        f" where a.label in ('retry', 'left') and a.age < {LATE - SLACK}"
        " and not exists (select from act as t"
        " where t.call = 'retry_jobs' and t.job_id = a.job_id and t.place < a.place)"
    ),
}

# One row for each job of the queue that was ever handed out. Each failed attempt killed it.
LIVES = """
select
    a.job_id,
    a.label,
    d.job_id is not null as dead,
    (d.job_id, e.job_id) is not distinct from (null, null) as gone,
    array(select coalesce(h.error, '') from pgq.job_history(a.job_id) as h) as deaths,
    (select count(*) from act as t where t.job_id = a.job_id and t.call = 'redrive') as redriven
from (select distinct job_id, label from attempt where queue = 'swept') as a
left join pgq.dead_letters as d on d.job_id = a.job_id
left join pgq.archived_jobs as e on e.job_id = a.job_id
"""


def check_acts(evidence: Evidence) -> None:
    """Hold what an operator was told, and did, against the ends of the jobs."""
    for what, query in WRONG.items():
        found = evidence.ask(query)
        if found:
            evidence.violate("act", f"{what}: {len(found)}, among them {found[:3]}")
    noted = dict(evidence.ask("select call, count(*) from act group by call"))
    told = Counter[str]()
    for unit in evidence.of("act"):
        if unit.done:
            told[unit.about["call"]] += unit.told["taken"]
            if unit.told["taken"] != unit.told["noted"]:
                evidence.violate("act", f"not as many as it said: {unit}")
    for call, count in told.items():
        if count > noted.get(call, 0):
            evidence.violate("act", f"{call} took {count}, of which {noted.get(call)} are left")
    purged = 0
    for job_id, label, dead, gone, deaths, redriven in evidence.ask(LIVES):
        purged += gone
        odd = any("odd" in error for error in deaths)
        even = any("even" in error for error in deaths)
        if (
            len(deaths) != redriven + (dead or gone)
            or (gone and label != "purge")
            or (deaths and not dead and (even or not odd))
        ):
            evidence.violate(
                "act",
                f"{label} job {job_id}: {dead=} {gone=}, {redriven} times redriven; {deaths}",
            )
    if purged != noted.get("purge_queue", 0):
        evidence.violate("act", f"{purged} are purged, not {noted.get('purge_queue')}")
