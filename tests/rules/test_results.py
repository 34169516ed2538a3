"""Functions that return several columns: a select list may take them apart, and they run once.

``select (pgq.publish(…)).*`` calls a function once for each column, unless it returns a set.
"""

from __future__ import annotations

import pytest

from support.house import refuse
from support.session import Session

ONE_ROW = {
    "alter_group",
    "alter_queue",
    "alter_schedule",
    "alter_topic",
    "begin_effect",
    "begin_write",
    "commit_write",
    "create_group",
    "cancel_jobs",
    "create_queue",
    "create_schedule",
    "create_topic",
    "enqueue",
    "get_job",
    "get_result",
    "grant_access",
    "pause_queue",
    "pause_schedule",
    "publish",
    "purge_queue",
    "redrive",
    "resume_queue",
    "resume_schedule",
    "retry_jobs",
    "subscribe",
}
"""Those that have one row, or none, and say so to the planner; the others may have any number."""


def test_columns_come_in_sets(connection: Session) -> None:
    rows = connection.execute(
        """
        select p.proname, p.proretset, p.prorows
        from pg_proc as p
        inner join pg_type as t on t.oid = p.prorettype
        where p.pronamespace = 'pgq'::regnamespace
            and p.proname !~ '^_'
            and (t.typtype = 'c' or t.oid = 'record'::regtype)
        """
    ).fetchall()
    assert len(rows) > 20
    refuse(f"{name} returns one composite" for name, is_set, _ in rows if not is_set)
    assert {name for name, _, expected in rows if expected == 1} == ONE_ROW


CALLS = {
    "publish": "pgq.publish('t', '1')",
    "publish at repeatable read": "pgq.publish('t', '1')",
    "enqueue": "pgq.enqueue('q', '1')",
    "enqueue in an unusual way": "pgq.enqueue('q', '1', priority => 3, delay => '0')",
}


@pytest.mark.parametrize("way", CALLS)
@pytest.mark.parametrize(
    "query",
    ["select ({}).*", "select * from {}", "select r.* from generate_series(1, 1), {} as r"],
)
def test_a_call_whose_columns_are_taken_apart(connection: Session, way: str, query: str) -> None:
    """One message, or one job, is stored, and the answer is about that."""
    connection.execute("select pgq.create_topic('t', partitions => 1), pgq.create_queue('q')")
    with connection.transaction():
        if "repeatable read" in way:
            connection.execute("set transaction isolation level repeatable read")
        [answer] = connection.execute(query.format(CALLS[way]).encode()).fetchall()
    stored = connection.execute(
        "select log_offset from pgq.message where partition_id > 0"
    ).fetchall()
    assert [answer[:-1]] == [((0, *row) if "publish" in way else row) for row in stored]
    assert answer[-1] is False
