"""redrive: dead letters become jobs again, with all their attempts before them."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, contents, refused, row, unchanged


def bury(connection: Session, number: int, **settings: Any) -> tuple[str, list[int]]:
    """A queue with dead letters."""
    queue = new_queue(connection, max_attempts=1, **settings)
    ids = enqueue_many(connection, queue, number, priority=3)
    for job in claim(connection, queue, number):
        connection.nack(job_id=job.job_id, lease_token=job.lease_token, error="it failed")
    assert stats(connection, queue) == {"dead": number}
    return queue, ids


def test_one(connection: Session) -> None:
    queue, ids = bury(connection, 3)
    assert connection.redrive(queue=queue, job_id=ids[1], all_jobs=False).taken == 1
    assert stats(connection, queue) == {"dead": 2, "ready": 1}
    job = claim_one(connection, queue)
    assert (job.job_id, job.attempt, job.payload, job.priority) == (ids[1], 1, 1, 3)
    # it keeps the error until there is another one
    assert row(connection, "select last_error from pgq.job where job_id = %s", [ids[1]]) == (
        "it failed",
    )
    before = contents(connection)
    assert connection.redrive(queue=queue, job_id=ids[1]).taken == 0
    assert contents(connection) == before


def test_all(connection: Session) -> None:
    queue, ids = bury(connection, 3)
    other, _ = bury(connection, 1)
    assert connection.redrive(queue=queue, all_jobs=True).taken == 3
    assert stats(connection, queue) == {"ready": 3}
    assert stats(connection, other) == {"dead": 1}
    assert connection.redrive(queue=queue, all_jobs=True).taken == 0
    assert [job.job_id for job in claim(connection, queue, 10)] == ids


def test_all_attempts_are_before_it_again(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, max_attempts=2)
    job_id = enqueue(connection, queue)
    for _ in range(2):
        for attempt in (1, 2):
            job = claim_one(connection, queue)
            assert job.attempt == attempt
            connection.nack(job_id=job_id, lease_token=job.lease_token, delay="0")
        assert stats(connection, queue) == {"dead": 1}
        assert connection.redrive(queue=queue, all_jobs=True).taken == 1


def test_the_job_ttl_begins_anew(connection: Session, clock: Clock) -> None:
    """A job that would have expired long ago can be redriven as long as its letter is there."""
    queue, ids = bury(connection, 1, job_ttl="1 hour")
    clock.advance("2 hours")
    connection.alter_queue(queue=queue, max_attempts=2)
    assert connection.redrive(queue=queue, all_jobs=True).taken == 1
    clock.advance("59 minutes")
    assert claim_one(connection, queue).job_id == ids[0]
    clock.advance("2 minutes")
    assert claim(connection, queue) == []
    assert stats(connection, queue) == {"expired": 1}


def test_without_limits(connection: Session, clock: Clock) -> None:
    """A letter that is kept for ever becomes a job that never expires."""
    queue, ids = bury(connection, 1, no_limit=["job_ttl", "retention"])
    clock.advance("3000 days")
    assert connection.redrive(queue=queue, all_jobs=True).taken == 1
    clock.advance("3000 days")
    assert claim_one(connection, queue).job_id == ids[0]


def test_not_delayed(connection: Session, clock: Clock) -> None:
    """The delay of the queue is for what is enqueued; this is due at once."""
    queue = new_queue(connection, max_attempts=1, delay="1 minute")
    enqueue(connection, queue)
    clock.advance("61 seconds")
    job = claim_one(connection, queue)
    connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    connection.redrive(queue=queue, all_jobs=True)
    assert claim_one(connection, queue).job_id == job.job_id


def test_what_is_no_dead_letter_of_the_queue(connection: Session) -> None:
    """A living job, one of another queue, one that never was."""
    queue, ids = bury(connection, 1)
    other, _ = bury(connection, 1)
    living = enqueue(connection, queue)
    before = contents(connection)
    for name, job_id in ((queue, living), (queue, -1), (other, ids[0])):
        assert connection.redrive(queue=name, job_id=job_id).taken == 0
    assert contents(connection) == before


@pytest.mark.parametrize("all_jobs", [None, False, True])
def test_it_must_be_said_which(connection: Session, all_jobs: bool | None) -> None:
    """Either one or all, or nothing is touched."""
    queue, ids = bury(connection, 2)
    selectors: dict[str, Any] = {"all_jobs": all_jobs}
    if all_jobs:
        selectors["job_id"] = ids[0]
    with unchanged(connection):
        refused("22023", connection.redrive, queue=queue, **selectors)
    with unchanged(connection):
        refused("22023", connection.redrive, queue=queue)
    assert stats(connection, queue) == {"dead": 2}


@pytest.mark.parametrize("selector", [{"all_jobs": True}, {"job_id": 1}])
def test_refusals(connection: Session, selector: dict[str, Any]) -> None:
    with unchanged(connection):
        refused("MQ002", connection.redrive, queue="no-such-queue", **selector)
    with unchanged(connection):
        refused("22004", connection.redrive, queue=None, **selector)


def test_twice_in_one_transaction_and_rolled_back(connect: Connect, connection: Session) -> None:
    queue, ids = bury(connection, 3)
    session = connect()
    assert session.redrive(queue=queue, job_id=ids[2]).taken == 1
    assert session.redrive(queue=queue, all_jobs=True).taken == 2
    assert session.redrive(queue=queue, all_jobs=True).taken == 0
    assert claim(connection, queue, 10) == []
    session.rollback()
    assert stats(connection, queue) == {"dead": 3}
