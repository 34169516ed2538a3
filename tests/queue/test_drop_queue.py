"""drop_queue: everything of the queue goes, and nothing of any other."""

from __future__ import annotations

import psycopg
import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, refused, row, unchanged


def test_jobs_of_every_state_go(connection: Session, queue: str) -> None:
    other = new_queue(connection)
    ids = enqueue_many(connection, other, 3)
    dead = enqueue(connection, queue, priority=0)
    connection.alter_queue(queue=queue, max_attempts=1)
    job = claim_one(connection, queue)
    assert connection.nack(job_id=dead, lease_token=job.lease_token)
    enqueue_many(connection, queue, 3)
    leased = claim_one(connection, queue)
    enqueue(connection, queue, delay="1 hour")
    assert stats(connection, queue) == {"ready": 2, "leased": 1, "delayed": 1, "dead": 1}

    queue_id = row(connection, "select queue_id from pgq.queue where queue = %s", [queue])
    connection.execute("select pgq.drop_queue(%s)", [queue])
    for table in ("job", "dead_job", "queue_floor", "queue_floor_lock"):
        left = f"select count(*) from pgq.{table} where queue_id = %s"
        assert row(connection, left, queue_id) == (0,)
    assert not connection.ack(job_id=leased.job_id, lease_token=leased.lease_token)
    with unchanged(connection):
        refused("MQ002", connection.claim_job, queue=queue)
    with unchanged(connection):
        refused("MQ002", connection.enqueue, queue=queue, payload="{}")
    assert [j.job_id for j in claim(connection, other, 10)] == ids


def test_a_new_queue_of_the_same_name_is_empty(
    connection: Session, queue: str, clock: Clock
) -> None:
    enqueue_many(connection, queue, 3)
    job = claim_one(connection, queue)
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    connection.execute("select pgq.drop_queue(%s)", [queue])
    connection.create_queue(queue=queue)
    assert stats(connection, queue) == {}
    assert row(connection, "select count(*) from pgq.archived_jobs where queue = %s", [queue]) == (
        0,
    )
    clock.advance("1 hour")
    assert claim(connection, queue, 10) == []


def test_refusals(connection: Session) -> None:
    with unchanged(connection):
        refused("MQ002", connection.drop_queue, queue="no-such-queue")
    with unchanged(connection):
        refused("22004", connection.drop_queue, queue=None)


def test_twice_in_one_transaction(connect: Connect, connection: Session, queue: str) -> None:
    session = connect()
    enqueue(session, queue)
    session.execute("select pgq.drop_queue(%s)", [queue])
    with pytest.raises(psycopg.Error) as caught, session.transaction():
        session.execute("select pgq.drop_queue(%s)", [queue])
    assert caught.value.sqlstate == "MQ002"
    session.rollback()
    assert stats(connection, queue) == {}


def test_only_segments_that_are_never_truncated_are_noted(connection: Session) -> None:
    """Those of a topic with max_bytes, and those of a retention, lose its rows as they are."""
    connection.create_topic(topic="sized", max_bytes=1_000_000)
    connection.create_queue(queue="kept", no_limit=["retention"])
    connection.create_queue(queue="mail")
    for queue in ("kept", "mail"):
        connection.enqueue(queue=queue, payload=1)
    connection.publish(topic="sized", payload=1)
    [(queue_id,)] = connection.execute(
        "select queue_id from pgq.queue where queue = 'mail'"
    ).fetchall()
    connection.drop_queue(queue="mail")
    noted = connection.execute(
        "select distinct c.retention, c.owner_id from pgq.dropped_range"
        " join pgq.segment using (segment) join pgq.storage_class as c using (storage_class_id)"
        " where queue_id = %s",
        [queue_id],
    ).fetchall()
    assert noted == [(None, None)]
