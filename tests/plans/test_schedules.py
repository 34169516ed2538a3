"""run_schedules: what it reads grows in proportion to what it writes."""

from __future__ import annotations

import json

import pytest

from support.session import Session


def pages(connection: Session, ticks: int) -> int:
    """How many pages a call looks at that writes so many ticks."""
    found = connection.execute(
        "explain (analyze, buffers, format json) select * from pgq.run_schedules(%s)", [ticks]
    ).fetchone()
    assert found
    [plan] = found[0] if isinstance(found[0], list) else json.loads(found[0])
    assert plan["Plan"]["Actual Rows"] == ticks
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


@pytest.mark.parametrize("schedules", [1, 900])
def test_many_ticks(connection: Session, schedules: int) -> None:
    """Of one schedule, which has missed them, or of as many as there are ticks."""
    connection.execute("select pgq.create_queue('q')")
    connection.execute(
        "select count(*) from generate_series(1, %s) as n, pgq.create_schedule('s' || n,"
        " queue => 'q', payload => '1', every => '1 minute', missed => 'all',"
        " starts_at => pgq._clock() - interval '1 day')",
        [schedules],
    )
    pages(connection, 10)  # plans, and what a session looks up once
    few = pages(connection, 80)
    assert pages(connection, 800) < 15 * few
