"""drop_queue: everything of the queue goes, and nothing of any other."""

from __future__ import annotations

import psycopg
import pytest

from jobs import (
    AnyConnection,
    Connect,
    call,
    claim,
    claim_one,
    enqueue,
    enqueue_many,
    new_queue,
    refused,
    row,
    stats,
    value,
)
from support import Clock


def test_jobs_of_every_state_go(connection: AnyConnection, queue: str) -> None:
    other = new_queue(connection)
    ids = enqueue_many(connection, other, 3)
    dead = enqueue(connection, queue, priority=0)
    call(connection, "alter_queue", queue=queue, max_attempts=1)
    job = claim_one(connection, queue)
    assert value(connection, "nack", job_id=dead, lease_token=job.lease_token)
    enqueue_many(connection, queue, 3)
    leased = claim_one(connection, queue)
    enqueue(connection, queue, delay="1 hour")
    assert stats(connection, queue) == {"ready": 2, "leased": 1, "delayed": 1, "dead": 1}

    queue_id = row(connection, "select queue_id from pgq.queue where queue = %s", [queue])
    connection.execute("select pgq.drop_queue(%s)", [queue])
    for table in ("job", "dead_job", "queue_floor", "queue_floor_lock"):
        left = f"select count(*) from pgq.{table} where queue_id = %s"
        assert row(connection, left, queue_id) == (0,)
    assert not value(connection, "ack", job_id=leased.job_id, lease_token=leased.lease_token)
    refused(connection, "MQ002", "claim_job", queue=queue)
    refused(connection, "MQ002", "enqueue", queue=queue, payload="{}")
    assert [j.job_id for j in claim(connection, other, 10)] == ids


def test_a_new_queue_of_the_same_name_is_empty(
    connection: AnyConnection, queue: str, clock: Clock
) -> None:
    enqueue_many(connection, queue, 3)
    job = claim_one(connection, queue)
    assert value(connection, "ack", job_id=job.job_id, lease_token=job.lease_token)
    connection.execute("select pgq.drop_queue(%s)", [queue])
    call(connection, "create_queue", queue=queue)
    assert stats(connection, queue) == {}
    assert row(connection, "select count(*) from pgq.archived_jobs where queue = %s", [queue]) == (
        0,
    )
    clock.advance("1 hour")
    assert claim(connection, queue, 10) == []


def test_refusals(connection: AnyConnection) -> None:
    refused(connection, "MQ002", "drop_queue", queue="no-such-queue")
    refused(connection, "22004", "drop_queue", queue=None)


def test_twice_in_one_transaction(connect: Connect, connection: AnyConnection, queue: str) -> None:
    session = connect()
    enqueue(session, queue)
    session.execute("select pgq.drop_queue(%s)", [queue])
    with pytest.raises(psycopg.Error) as caught, session.transaction():
        session.execute("select pgq.drop_queue(%s)", [queue])
    assert caught.value.sqlstate == "MQ002"
    session.rollback()
    assert stats(connection, queue) == {}
