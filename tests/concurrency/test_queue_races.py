"""Two sessions want to do something to one job: one of them does, the other one learns of it."""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, new_queue, stats
from support.session import Connect, Session, row
from support.waiting import aside, wait_until_blocked

ENDS = ["ack", "nack", "archive_job", "extend_lease"]


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


@pytest.mark.parametrize("first_commits", [True, False])
@pytest.mark.parametrize(
    ("first", "second"),
    [("ack", "nack"), ("nack", "ack"), ("ack", "ack"), ("nack", "nack"), ("ack", "extend_lease")],
)
def test_two_ends_of_one_job(
    shared_connect: Connect,
    connection: Session,
    first: str,
    second: str,
    first_commits: bool,
) -> None:
    """The second waits for the first: one of the two wins, and the other one says no."""
    queue = new_queue(connection)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    arguments = {"job_id": job.job_id, "lease_token": job.lease_token}
    one, other = shared_connect(), shared_connect(autocommit=True)
    assert one.call(first, **arguments)
    answer = aside(lambda: other.call(second, **arguments))
    wait_until_blocked(connection, other.pid)
    one.commit() if first_commits else one.rollback()
    assert answer.result(30) is not first_commits
    winner = first if first_commits else second
    expected = {"ack": {}, "nack": {"delayed": 1}, "extend_lease": {"leased": 1}}[winner]
    assert stats(connection, queue) == expected
    assert row(connection, "select count(*) from pgq.archived_jobs where queue = %s", [queue]) == (
        1 if winner == "ack" else 0,
    )


@pytest.mark.parametrize("claim_commits", [True, False])
@pytest.mark.parametrize("end", ENDS)
def test_a_late_end_meets_the_next_claim(
    shared_connect: Connect,
    connection: Session,
    shared_clock: Clock,
    end: str,
    claim_commits: bool,
) -> None:
    """Only if that claim is rolled back is the job still the first worker's to end."""
    queue = new_queue(connection)
    enqueue(connection, queue)
    slow = claim_one(connection, queue)
    shared_clock.advance("31 seconds")
    claimer, other = shared_connect(), shared_connect(autocommit=True)
    quick = claim_one(claimer, queue)
    answer = aside(lambda: other.call(end, job_id=slow.job_id, lease_token=slow.lease_token))
    # a lease that ran out is extended by nobody, so there is nothing to wait for
    if end != "extend_lease":
        wait_until_blocked(connection, other.pid)
    claimer.commit() if claim_commits else claimer.rollback()
    assert answer.result(30) is (end != "extend_lease" and not claim_commits)
    if claim_commits:
        assert connection.ack(job_id=quick.job_id, lease_token=quick.lease_token)


@pytest.mark.parametrize("end", ENDS)
def test_claims_pass_by_a_job_that_is_being_ended(
    shared_connect: Connect, connection: Session, shared_clock: Clock, end: str
) -> None:
    queue = new_queue(connection)
    enqueue(connection, queue, "held")
    job = claim_one(connection, queue)
    ender = shared_connect()
    assert ender.call(end, job_id=job.job_id, lease_token=job.lease_token)
    enqueue(connection, queue, "next")
    shared_clock.advance("31 seconds")
    connection.execute("set lock_timeout = '1s'")
    assert [found.payload for found in claim(connection, queue, 10)] == ["next"]


def test_a_job_that_dies_while_it_is_purged(shared_connect: Connect, connection: Session) -> None:
    """It is gone afterwards, not a dead letter that the purge has not seen."""
    queue = new_queue(connection, max_attempts=1)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    worker, purger = shared_connect(), shared_connect(autocommit=True)
    assert worker.nack(job_id=job.job_id, lease_token=job.lease_token)
    purged = aside(lambda: purger.purge_queue(queue=queue, all_jobs=True))
    wait_until_blocked(connection, purger.pid)
    worker.commit()
    assert purged.result(30).taken == 1
    assert stats(connection, queue) == {}


def test_a_letter_that_is_redriven_while_it_is_purged(
    shared_connect: Connect, connection: Session
) -> None:
    """Neither the letter nor the job is left, and what comes later is not meant."""
    queue = new_queue(connection, max_attempts=1)
    for _ in range(2):
        enqueue(connection, queue)
        job = claim_one(connection, queue)
        assert connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    owner, purger = shared_connect(), shared_connect(autocommit=True)
    assert owner.redrive(queue=queue, job_id=job.job_id).taken == 1
    purged = aside(lambda: purger.purge_queue(queue=queue, all_jobs=True))
    wait_until_blocked(connection, purger.pid)
    enqueue(connection, queue)
    owner.commit()
    assert purged.result(30).taken == 2
    assert stats(connection, queue) == {"ready": 1}


def test_a_job_that_is_acked_while_it_is_purged(
    shared_connect: Connect, connection: Session
) -> None:
    queue = new_queue(connection)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    worker, purger = shared_connect(), shared_connect(autocommit=True)
    assert worker.ack(job_id=job.job_id, lease_token=job.lease_token)
    purged = aside(lambda: purger.purge_queue(queue=queue, all_jobs=True))
    wait_until_blocked(connection, purger.pid)
    worker.commit()
    assert purged.result(30).taken == 0
    assert row(connection, "select count(*) from pgq.archived_jobs where queue = %s", [queue]) == (
        1,
    )


def test_two_redrives(shared_connect: Connect, connection: Session) -> None:
    """The job comes back once."""
    queue = new_queue(connection, max_attempts=1)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    one, other = shared_connect(), shared_connect(autocommit=True)
    assert one.redrive(queue=queue, all_jobs=True).taken == 1
    second = aside(lambda: other.redrive(queue=queue, job_id=job.job_id))
    wait_until_blocked(connection, other.pid)
    one.commit()
    assert second.result(30).taken == 0
    assert stats(connection, queue) == {"ready": 1}


def test_a_queue_dropped_under_its_producers(shared_connect: Connect, connection: Session) -> None:
    """Neither waits for the other; what comes late belongs to no queue."""
    queue = new_queue(connection)
    producer = shared_connect()
    enqueue(producer, queue)
    connection.execute("set lock_timeout = '1s'")
    connection.execute("select pgq.drop_queue(%s)", [queue])
    producer.commit()
    connection.execute("select pgq.create_queue(%s)", [queue])
    assert claim(connection, queue) == []
    assert stats(connection, queue) == {}


def test_settings_change_while_jobs_move(shared_connect: Connect, connection: Session) -> None:
    """An alter_queue that is not committed blocks neither producers nor workers."""
    queue = new_queue(connection)
    other = shared_connect()
    other.execute("select pgq.alter_queue(%s, lease => '1 hour')", [queue])
    connection.execute("set lock_timeout = '1s'")
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")
    job = claim_one(connection, queue)
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)
