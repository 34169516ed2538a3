"""reject_job: a job that no attempt can do is a dead letter at once."""

from __future__ import annotations

from uuid import uuid4

import pytest

from support.clock import Clock
from support.queue import Job, ack, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, refused, row, unchanged


def reject(session: Session, job: Job, error: str | None = None) -> bool:
    answer = session.reject_job(job_id=job.job_id, lease_token=job.lease_token, error=error)
    assert isinstance(answer, bool)
    return answer


@pytest.mark.parametrize("limit", [{}, {"no_limit": ["max_attempts"]}])
def test_whatever_attempts_are_left(connection: Session, limit: dict[str, list[str]]) -> None:
    queue = new_queue(connection, **limit)
    number = enqueue(connection, queue, "mine", label="l", priority=3)
    assert reject(connection, claim_one(connection, queue), "cannot be done") is True
    assert stats(connection, queue) == {"dead": 1}
    assert row(
        connection,
        "select attempt, last_error, label, priority, payload from pgq.dead_letters"
        " where job_id = %s",
        [number],
    ) == (1, "cannot be done", "l", 3, "mine")
    assert connection.redrive(queue=queue, job_id=number).taken == 1
    job = claim_one(connection, queue)
    assert (job.attempt, job.payload) == (1, "mine")
    assert connection.get_job(job_id=number).last_error == "cannot be done"


@pytest.mark.parametrize("error", [None, "", "worse"])
def test_the_error_before(connection: Session, queue: str, error: str | None) -> None:
    """It stays where this one says nothing, as with nack; nothing is added to it."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0", error="bad")
    assert reject(connection, claim_one(connection, queue), error)
    expected = "bad" if error is None else error
    assert connection.get_job(job_id=job.job_id).last_error == expected


def test_a_lease_that_has_run_out(connection: Session, queue: str, clock: Clock) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    clock.advance("31 seconds")
    assert reject(connection, job, "no") is True
    assert connection.get_job(job_id=job.job_id).last_error == "no"


def test_a_job_of_somebody_else(connection: Session, queue: str, clock: Clock) -> None:
    enqueue_many(connection, queue, 2)
    first, done = claim(connection, queue, 2)
    assert ack(connection, done)
    clock.advance("31 seconds")
    again = claim_one(connection, queue)
    with unchanged(connection):
        assert reject(connection, first) is False
        assert reject(connection, done) is False
        assert not connection.reject_job(job_id=2**62, lease_token=uuid4())
    assert reject(connection, again) is True
    assert reject(connection, again) is False


def test_twice_in_one_transaction(connect: Connect, connection: Session, queue: str) -> None:
    session = connect()
    enqueue(session, queue)
    job = claim_one(session, queue)
    assert reject(session, job) is True
    assert reject(session, job) is False
    session.commit()
    assert stats(connection, queue) == {"dead": 1}


def test_what_is_refused(connection: Session) -> None:
    with unchanged(connection):
        refused("22004", connection.reject_job, job_id=None, lease_token=uuid4())
        refused("22004", connection.reject_job, job_id=1, lease_token=None)
