"""The views of the log read a few pages per partition, however many of them there are.

Counted in pages, so that it does not depend on the machine. At ten thousand partitions every page
more per partition is ten thousand more, and a view is looked at every few seconds.
"""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.session import Session

TOPICS = 2
PARTITIONS = 1024
PAGES = 16
"""For a partition: its row, position, first segment, last offset and one message, by index."""

VIEWS = ["topic_stats", "group_lag"]


@pytest.fixture
def partitioned(connection: Session, clock: Clock) -> Session:
    """Two topics with many partitions, some messages in each, and nothing during the last hour."""
    for number in range(TOPICS):
        connection.execute(
            "select pgq.create_topic(%(t)s, partitions => 1024, retention => %(r)s::interval),"
            " pgq.create_group(%(t)s, 'readers')",
            {"t": f"wide-{number}", "r": f"{number + 10} days"},
        )
        connection.execute(
            "select pgq.publish_batch(%s, array['1', '2', '3', '4', '5']::jsonb[],"
            " partition => n) from generate_series(0, 1023) as n",
            [f"wide-{number}"],
        )
    clock.advance("1 hour")
    connection.execute("vacuum analyze")
    return connection


def pages(connection: Session, query: str) -> tuple[float, int]:
    """How many pages a query reads for each of its rows, and how many rows these are."""
    explain = f"explain (analyze, buffers, timing off, format json) {query}"
    connection.execute(explain.encode())  # the first one also looks things up in the catalog
    row = connection.execute(explain.encode()).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    read = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return read / plan["Actual Rows"], plan["Actual Rows"]


@pytest.mark.parametrize("view", VIEWS)
def test_a_few_pages_per_partition(partitioned: Session, view: str) -> None:
    per_row, rows = pages(partitioned, f"select * from pgq.{view}")
    assert rows == TOPICS * PARTITIONS
    assert per_row <= PAGES


@pytest.mark.parametrize("view", VIEWS)
def test_one_topic_reads_its_own(partitioned: Session, view: str) -> None:
    """The others cost nothing."""
    per_row, rows = pages(partitioned, f"select * from pgq.{view} where topic = 'wide-1'")
    assert rows == PARTITIONS
    assert per_row <= PAGES


@pytest.mark.parametrize("view", VIEWS)
def test_more_leaves_cost_nothing(partitioned: Session, view: str) -> None:
    """Those of other classes are not looked into."""
    query = f"select * from pgq.{view} where topic = 'wide-0'"
    before, _ = pages(partitioned, query)
    for hours in range(24, 44):
        topic = f"other-{hours}"
        partitioned.execute(
            "select pgq.create_topic(%(t)s, retention => %(r)s::interval)",
            {"t": topic, "r": f"{hours} hours"},
        )
        partitioned.execute(
            "select pgq.publish_batch(%s, array(select '1'::jsonb from generate_series(1, 1000)))",
            [topic],
        )
    partitioned.execute("vacuum analyze")
    after, rows = pages(partitioned, query)
    assert rows == PARTITIONS
    assert after <= before + 1


def test_the_figures_are_right(partitioned: Session, clock: Clock) -> None:
    """Also those that are asked of few partitions only."""
    partitioned.execute("select pgq.publish('wide-0', '6', partition => 5)")
    partitioned.execute("select pgq.consume('wide-0', 'readers', 2, partition => 7)")
    partitioned.execute("select pgq.consume('wide-0', 'readers', 5, partition => 8)")
    stats = partitioned.execute(
        "select partition, first_offset, last_offset, messages, published_last_minute"
        " from pgq.topic_stats where topic = 'wide-0' and partition in (5, 7) order by 1"
    ).fetchall()
    assert stats == [(5, 1, 6, 6, 1), (7, 1, 5, 5, 0)]
    lag = partitioned.execute(
        "select partition, committed_offset, last_offset, lag, oldest_published_at is not null"
        " from pgq.group_lag where topic = 'wide-0' and partition in (5, 7, 8) order by 1"
    ).fetchall()
    assert lag == [(5, 0, 6, 6, True), (7, 2, 5, 3, True), (8, 5, 5, 0, False)]
