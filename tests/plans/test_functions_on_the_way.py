"""How many functions of pgq the usual path of a hot call goes through."""

from __future__ import annotations

from typing import Any

import pytest

from support.session import Session

MOST = {"publish": 4, "enqueue": 4, "claim_job": 5, "ack": 4, "consume": 5}


def _arguments(session: Session, function: str) -> dict[str, Any]:
    if function in ("publish", "consume"):
        session.create_topic(topic="t", partitions=2)
        session.create_group(topic="t", consumer_group="g")
        for _ in range(8):
            session.publish(topic="t", payload=1)
    else:
        session.create_queue(queue="q")
        session.enqueue(queue="q", payload=1)
    if function == "ack":
        [job] = session.claim_job(queue="q")
        return {"job_id": job.job_id, "lease_token": job.lease_token}
    return {
        "publish": {"topic": "t", "payload": 1},
        "consume": {"topic": "t", "consumer_group": "g", "max_messages": 1},
        "enqueue": {"queue": "q", "payload": 1},
        "claim_job": {"queue": "q"},
    }[function]


@pytest.mark.parametrize("function", MOST)
def test_few(connection: Session, function: str) -> None:
    """What the planner writes out in a statement is none of them."""
    arguments = _arguments(connection, function)
    connection.execute("set track_functions = 'all'")
    with connection.transaction():
        before = connection.execute("select funcname from pg_stat_xact_user_functions").fetchall()
        assert before == []
        connection.call(function, **arguments)
        called = connection.execute(
            "select funcname, calls from pg_stat_xact_user_functions where schemaname = 'pgq'"
        ).fetchall()
    assert len(called) <= MOST[function], called
    assert sum(calls for _, calls in called) <= MOST[function], called
