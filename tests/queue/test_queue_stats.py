"""queue_stats: how many jobs a queue has in each state, and since when the oldest one waits."""

from __future__ import annotations

from typing import Any

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, row


def test_every_state(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, max_attempts=1, job_ttl="1 hour")
    enqueue_many(connection, queue, 2)
    clock.advance("50 minutes")
    ids = enqueue_many(connection, queue, 5)
    enqueue(connection, queue, delay="55 minutes")
    clock.advance("11 minutes")
    dead, *leased, done = claim(connection, queue, 4)
    token = dead.lease_token
    assert [dead.job_id, *(job.job_id for job in leased), done.job_id] == ids[:4]
    connection.nack(job_id=dead.job_id, lease_token=token)
    connection.ack(job_id=done.job_id, lease_token=token)
    assert stats(connection, queue) == {
        "ready": 1,
        "leased": 2,
        "delayed": 1,
        "expired": 2,
        "dead": 1,
    }


def test_an_expired_job_counts_as_leased_while_it_is(connection: Session, clock: Clock) -> None:
    """Its worker can still end it; afterwards it is expired."""
    queue = new_queue(connection, job_ttl="1 hour", lease="2 hours")
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    clock.advance("90 minutes")
    assert stats(connection, queue) == {"leased": 1}
    clock.advance("31 minutes")
    assert stats(connection, queue) == {"expired": 1}
    assert claim(connection, queue) == []
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)


def test_age_of_the_oldest(connection: Session, queue: str, clock: Clock) -> None:
    """Since when it is due, not since when it is there; null when none is ready."""

    def oldest() -> Any:
        [due_at] = row(
            connection, "select oldest_ready_at from pgq.queue_stats where queue = %s", [queue]
        )
        return due_at

    assert oldest() is None
    first = enqueue(connection, queue, delay="1 minute")
    assert oldest() is None
    clock.advance("90 seconds")
    enqueue(connection, queue)
    [due_at] = row(connection, "select visible_at from pgq.job where job_id = %s", [first])
    assert oldest() == due_at
    assert len(claim(connection, queue, 2)) == 2
    assert oldest() is None
    clock.advance("1 minute")
    [due_at] = row(
        connection,
        "select min(visible_at) from pgq.job inner join pgq.queue using (queue_id)"
        " where queue = %s",
        [queue],
    )
    assert oldest() == due_at


def test_an_empty_queue_is_there(connection: Session, queue: str) -> None:
    assert row(connection, "select * from pgq.queue_stats where queue = %s", [queue]) == (
        queue,
        0,
        0,
        0,
        0,
        0,
        None,
        False,
        0,
        None,
        False,
    )


def test_reading_is_enough_for_it(connect: Connect, queue: str) -> None:
    session = connect()
    session.execute("set transaction read only")
    assert stats(session, queue) == {}
