"""release_job and release_job_batch: jobs are given back, and the attempt does not count."""

from __future__ import annotations

from uuid import uuid4

import pytest

from support.clock import Clock
from support.queue import Job, ack, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, refused, unchanged

BATCH = pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])


def release(session: Session, job: Job, batch: bool) -> bool:
    """Whether the job was the caller's."""
    if batch:
        found = session.release_job_batch(job_ids=[job.job_id], lease_token=job.lease_token)
        assert found in ([], [(job.job_id,)])
        return bool(found)
    answer = session.release_job(job_id=job.job_id, lease_token=job.lease_token)
    assert isinstance(answer, bool)
    return answer


@BATCH
def test_it_does_not_count(connection: Session, batch: bool) -> None:
    """However often: what is left of its attempts stays."""
    queue = new_queue(connection, max_attempts=2)
    number = enqueue(connection, queue, "mine", label="l", priority=3, key="k", headers={"h": 1})
    for _ in range(5):
        job = claim_one(connection, queue)
        assert job.attempt == 1
        assert release(connection, job, batch) is True
        assert stats(connection, queue) == {"ready": 1}
    job = claim_one(connection, queue)
    assert (job.job_id, job.attempt, job.payload) == (number, 1, "mine")
    assert (job.label, job.priority, job.key, job.headers) == ("l", 3, "k", {"h": 1})
    connection.nack(job_id=number, lease_token=job.lease_token, delay="0", error="no answer")
    for _ in range(3):
        job = claim_one(connection, queue)
        assert job.attempt == 2
        assert release(connection, job, batch) is True
        found = connection.get_job(job_id=number)
        assert (found.state, found.attempt, found.last_error) == ("ready", 1, "no answer")
    connection.nack(job_id=number, lease_token=claim_one(connection, queue).lease_token)
    assert stats(connection, queue) == {"dead": 1}


@BATCH
def test_it_is_due_at_once(connection: Session, batch: bool, clock: Clock) -> None:
    """Whatever the backoff and the delay of the queue."""
    queue = new_queue(connection, backoff="1 hour", delay="1 hour")
    enqueue(connection, queue, delay="0")
    job = claim_one(connection, queue, lease="1 day")
    assert release(connection, job, batch)
    assert claim_one(connection, queue).job_id == job.job_id


@BATCH
def test_a_job_of_somebody_else(connection: Session, queue: str, batch: bool, clock: Clock) -> None:
    enqueue_many(connection, queue, 3)
    waiting = claim_one(connection, queue)
    assert release(connection, waiting, batch)
    first, done = claim(connection, queue, 2)
    assert ack(connection, done)
    clock.advance("31 seconds")
    jobs = {job.job_id: job for job in claim(connection, queue, 9)}
    with unchanged(connection):
        for job in (waiting, first, done):
            assert release(connection, job, batch) is False
        assert not connection.release_job(job_id=2**62, lease_token=uuid4())
    assert release(connection, jobs[first.job_id], batch) is True


@BATCH
def test_a_lease_that_has_run_out(
    connection: Session, queue: str, batch: bool, clock: Clock
) -> None:
    """It counts as long as nobody else got the job."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    clock.advance("31 seconds")
    assert release(connection, job, batch) is True
    assert claim_one(connection, queue).attempt == 1


@BATCH
def test_after_max_attempts_was_lowered(connection: Session, batch: bool) -> None:
    """What has had as many without this one is a dead letter."""
    queue = new_queue(connection, max_attempts=5, backoff="0")
    enqueue(connection, queue)
    for _ in range(2):
        job = claim_one(connection, queue)
        connection.nack(job_id=job.job_id, lease_token=job.lease_token, error="no")
    job = claim_one(connection, queue)
    connection.alter_queue(queue=queue, max_attempts=2)
    assert release(connection, job, batch) is True
    assert stats(connection, queue) == {"dead": 1}
    found = connection.get_job(job_id=job.job_id)
    assert (found.attempt, found.last_error) == (2, "no")


def test_several(connection: Session, queue: str) -> None:
    """Those that are the caller's."""
    ids = enqueue_many(connection, queue, 5)
    jobs = claim(connection, queue, 4)
    token = jobs[0].lease_token
    assert connection.ack(job_id=ids[1], lease_token=token)
    found = connection.release_job_batch(job_ids=[*ids, 2**62], lease_token=token)
    assert sorted(each.job_id for each in found) == [ids[0], ids[2], ids[3]]
    assert stats(connection, queue) == {"ready": 4}
    assert connection.release_job_batch(job_ids=[], lease_token=token) == []


def test_twice_in_one_transaction(connect: Connect, connection: Session, queue: str) -> None:
    session = connect()
    enqueue(session, queue)
    job = claim_one(session, queue)
    assert release(session, job, False) is True
    assert release(session, job, False) is False
    assert claim_one(session, queue).attempt == 1


def test_what_is_refused(connection: Session) -> None:
    token = uuid4()
    with unchanged(connection):
        refused("22004", connection.release_job, job_id=None, lease_token=token)
        refused("22004", connection.release_job, job_id=1, lease_token=None)
        refused("22004", connection.release_job_batch, job_ids=None, lease_token=token)
        refused("22004", connection.release_job_batch, job_ids=[1, None], lease_token=token)
        refused("22004", connection.release_job_batch, job_ids=[1], lease_token=None)
        refused("22023", connection.release_job_batch, job_ids=[[1], [2]], lease_token=token)
