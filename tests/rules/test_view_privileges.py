"""A role that is granted a view can read it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

VIEWS = ["group_lag", "topic_stats", "queue_stats", "dead_letters", "archived_jobs", "effects"]


@pytest.fixture
def role(connection: psycopg.Connection[Any]) -> Iterator[str]:
    connection.execute("create role pgq_onlooker")
    connection.execute("grant usage on schema pgq to pgq_onlooker")
    yield "pgq_onlooker"
    connection.execute("reset role")
    connection.execute("drop owned by pgq_onlooker")
    connection.execute("drop role pgq_onlooker")


@pytest.mark.parametrize("view", VIEWS)
def test_a_granted_view_can_be_read(
    connection: psycopg.Connection[Any], role: str, view: str
) -> None:
    connection.execute(
        "select pgq.create_topic('readings'), pgq.create_group('readings', 'averages'),"
        " pgq.publish('readings', '1'), pgq.create_queue('work', max_attempts => 1),"
        " pgq.enqueue('work', '1'), pgq.enqueue('work', '2')"
    )
    for finish in ("ack", "nack"):
        connection.execute(
            "select pgq.begin_effect(job_id, lease_token, 'mail'),"
            f" pgq.{finish}(job_id, lease_token) from pgq.claim_job('work')"
        )
    connection.execute(f"grant select on pgq.{view} to {role}")
    connection.execute(f"set role {role}")
    assert connection.execute(f"select * from pgq.{view}").fetchall()
    for forbidden in (
        "select from pgq.message",
        *(f"select from pgq.{other}" for other in VIEWS if other != view),
        "select pgq.publish('readings', '1')",
        "select pgq._last_offset(1, 0, 1)",
    ):
        with pytest.raises(InsufficientPrivilege):
            connection.execute(forbidden)
