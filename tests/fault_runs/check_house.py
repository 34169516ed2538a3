"""What a fault run must leave of the tables themselves: no orphan, and no room that is not used."""

from __future__ import annotations

from fault_runs.evidence import Evidence
from stored_state import wrong_state
from support.clock import Clock
from support.session import Session
from support.storage import clean

__all__ = ["check_codes", "check_house"]

EXPECTED = {
    "rolled back",
    "unsynced",
    *("40001", "40P01", "55P03", "57014"),  # a conflict, a deadlock, timeouts, a cancel
    *("53100", "53200", "58030", "58P01", "XX001"),  # a full disk: see DISK
    *("53300",),  # many connections at once while the server recovers
    *("MQ006", "MQ009"),  # a lease that is over, a write that was begun again
}
"""Codes that clients may meet."""

DISK = {"53100", "53200", "58030", "58P01", "XX001"}

MESSAGES_OF_NOBODY = """
select distinct m.partition_id
from pgq.message as m
where m.partition_id <> 0
    and not exists (select from pgq.partition as p where p.partition_id = m.partition_id)
    and not exists (select from pgq.queue as q where q.partition_id = m.partition_id)
    and not exists (
        select from pgq.segment_range as r where r.stored_partition_id = m.partition_id
    )
    and not exists (select from pgq.partition as p where p.stored_partition_id = m.partition_id)
    -- staged by an attempt that was killed, or given up and not deleted yet
    and not exists (select from pgq.staged_extent as e where e.stored_partition_id = m.partition_id)
    and not exists (select from pgq.dropped_range as d where d.partition_id = m.partition_id)
"""

LASTING = {"access_change", "leaf", "segment", "storage_bound", "storage_class", "view_key"}
"""Tables that have rows in an empty database too."""


def check_codes(evidence: Evidence) -> None:
    """Clients were refused for reasons only that what was done to them explains."""
    for unit in evidence.units:
        code = unit.told.get("code", "")
        known = code in EXPECTED or code[:2] in ("", "08") or code[:3] == "57P"
        if unit.outcome != "done" and unit.told and not known:
            told = f"{code} in {unit.role} {unit.about['unit']}: {unit.told.get('error')}"
            evidence.violate("code", told[:600])


def check_house(evidence: Evidence, clock: Clock) -> None:
    """Look for orphans, then let all of it go, and look what is left."""
    for told in wrong_state(evidence.ask):
        evidence.violate("wrong state", told)
    found = evidence.ask(MESSAGES_OF_NOBODY)
    if found:
        evidence.violate("orphan", f"messages of nobody: {found[:5]}")
    with Session.connect(clock.dsn, autocommit=True) as session:
        clock.advance("2 days")
        clean(session, limit=500)
        for what, query in {
            "messages of brief": (
                "select count(*) from pgq.message as m inner join pgq.partition as p"
                " using (partition_id) inner join pgq.topic as t using (topic_id)"
                " where t.topic = 'brief' and isfinite(m.published_at)"
            ),
            "archived jobs of brief-jobs": (
                "select count(*) from pgq.archived_jobs where queue = 'brief-jobs'"
            ),
            "staged chunks": "select count(*) from pgq.staged_chunk",
            "staged runs": "select count(*) from pgq.staged_extent",
        }.items():
            [(count,)] = evidence.ask(query)
            if count:
                evidence.violate("storage", f"{count} {what} are still there")
        _let_go(session)
        # once for what is open now to be closed, and once for that to be old
        for _ in range(3):
            clock.advance("400 days")
            clean(session, limit=500)
        tables = evidence.ask(
            "select c.relname, c.oid::regclass::text from pg_class as c"
            " where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'p')"
            " and not c.relispartition"
        )
        for name, table in tables:
            [(count,)] = evidence.ask(f"select count(*) from {table}")
            if count and name not in LASTING:
                evidence.violate("storage", f"{count} rows of {name} are still there")


def _let_go(session: Session) -> None:
    for each in session.list_subscriptions():
        session.unsubscribe(subscription=each.subscription)
    for each in session.list_schedules():
        session.drop_schedule(schedule=each.schedule)
    for each in session.list_topics():
        session.drop_topic(topic=each.topic)
    for each in session.list_queues():
        session.drop_queue(queue=each.queue)
