"""What lists or shows all topics and queues asks once who is asking, however many there are.

Counted in calls of functions and in pages, so that it does not depend on the machine. With ten
thousand topics, what is done once for each of them is done ten thousand times, and what is done for
each pair of them a hundred million times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from support.house import ROOT, refuse
from support.session import Session

OBJECTS = 40
READER = "pgq_test_many"
CALLS = "select coalesce(pg_stat_get_xact_function_calls(%s::regprocedure), 0)"


@pytest.fixture
def restricted(connection: Session) -> Iterator[Session]:
    """Topics and queues that a role may see one by one, and as many that are open."""
    try:
        connection.execute(f"create role {READER}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    connection.execute(
        "select pgq.create_topic('open' || n), pgq.create_queue('open' || n),"
        " pgq.create_topic('shut' || n), pgq.create_queue('shut' || n),"
        " pgq.grant_access(%(role)s, 'consume', topic => 'shut' || n),"
        " pgq.grant_access(%(role)s, 'consume', queue => 'shut' || n)"
        " from generate_series(1, %(objects)s) as n",
        {"role": READER, "objects": OBJECTS},
    )
    connection.execute(f"grant usage on schema pgq to {READER}")
    connection.execute(f"grant execute on all functions in schema pgq to {READER}")
    connection.execute(f"grant select on pgq.topic_stats, pgq.queue_stats to {READER}")
    connection.execute("set track_functions = 'all'")
    yield connection
    connection.execute("reset role")
    connection.execute(f"drop owned by {READER}; drop role {READER}")


def calls(connection: Session, query: str, function: str) -> tuple[int, int]:
    """How often a query of the reader calls a function, and how many rows it returns."""

    def so_far() -> int:
        row = connection.execute(CALLS, [function]).fetchone()
        assert row is not None
        return int(row[0])

    with connection.transaction():
        before = so_far()
        connection.execute(f"set local role {READER}")
        rows = connection.execute(query.encode()).fetchall()
        connection.execute("reset role")
        return so_far() - before, len(rows)


@pytest.mark.parametrize(
    ("query", "partitions"),
    [("select * from pgq.topic_stats", 8), ("select * from pgq.queue_stats", 1)],
)
def test_a_view_asks_once_what_its_reader_may_see(
    restricted: Session, query: str, partitions: int
) -> None:
    asked, rows = calls(restricted, query, "pgq._visible_in_view(text,text,text)")
    assert rows == 2 * OBJECTS * partitions
    # the planner may ask as well, how many rows to expect
    assert 1 <= asked <= 2


@pytest.mark.parametrize(
    "query",
    [
        "select * from pgq.topic_stats",
        "select * from pgq.queue_stats",
        "select * from pgq.list_topics()",
        "select * from pgq.list_queues()",
    ],
)
def test_a_role_is_asked_about_once_and_not_for_each_grant(restricted: Session, query: str) -> None:
    asked, rows = calls(restricted, query, "pgq._has_role(text,text[])")
    assert rows >= 2 * OBJECTS
    # whether it may see all, and then each role that has a grant; the planner may ask as well
    assert 2 <= asked <= 4


@pytest.mark.parametrize("function", ["list_topics", "list_queues", "list_subscriptions"])
def test_what_may_be_seen_is_looked_up_and_not_searched(connection: Session, function: str) -> None:
    """An array is searched from its beginning for each row; a hash table is not."""
    row = connection.execute(
        "select p.prosrc from pg_proc as p where p.oid = %s::regproc", [f"pgq.{function}"]
    ).fetchone()
    assert row is not None
    plan = "\n".join(line for (line,) in connection.execute(f"explain {row[0]}").fetchall())
    assert "hashed SubPlan" in plan


def test_no_source_searches_an_array_of_all_that_may_be_seen() -> None:
    searched = re.compile(r"any\s*\(\s*\(?\s*(?:select\s+)?pgq\._visible")
    refuse(
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "sql").rglob("*.sql"))
        if searched.search(path.read_text())
    )


def test_cleanup_passes_by_empty_queues(connection: Session) -> None:
    """It looks at each priority of a queue, and whether jobs wait: not of one that has none."""

    def pages() -> float:
        explain = (
            "explain (analyze, buffers, format json) select pgq._expired_jobs('{(,)}', now(), 100)"
        )
        with connection.transaction():
            connection.execute("set local enable_seqscan = off")
            connection.execute(explain)
            row = connection.execute(explain).fetchone()
        assert row is not None
        plan = row[0][0]["Plan"]
        return float(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    connection.execute("select pgq.create_queue('full'), pgq.enqueue('full', '1')")
    connection.execute("vacuum analyze")
    before = pages()
    connection.execute("select pgq.create_queue('empty' || n) from generate_series(1, 200) as n")
    connection.execute("vacuum analyze")
    assert pages() - before <= 200 * 5
