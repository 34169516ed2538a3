"""release_job with a delay: a job that comes too early is snoozed, and no attempt counts."""

from __future__ import annotations

from uuid import uuid4

import pytest

from support.clock import Clock
from support.notes import noted, snooze
from support.ordered import add_many, broken, ordered_queue
from support.queue import Job, ack, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, refused, row, unchanged
from support.unique import add, keys_of


def test_no_attempt_counts(connection: Session, clock: Clock) -> None:
    """However often; what is left of its attempts stays, and so does all that the job has."""
    queue = new_queue(connection, max_attempts=2)
    number = enqueue(connection, queue, "mine", label="l", priority=3, key="k", headers={"h": 1})
    for turn in range(10):
        job = claim_one(connection, queue, label="l")
        assert (job.job_id, job.attempt, job.payload) == (number, 1, "mine")
        assert (job.label, job.priority, job.key, job.headers) == ("l", 3, "k", {"h": 1})
        assert noted(connection, number) == (turn, None)
        assert snooze(connection, job) is True
        found = connection.get_job(job_id=number)
        assert (found.state, found.attempt, found.snoozes) == ("delayed", 0, turn + 1)
        clock.advance("61 minutes")
    for last in (False, True):
        job = claim_one(connection, queue)
        connection.nack(job_id=number, lease_token=job.lease_token, delay="0", error="no answer")
        if not last:
            job = claim_one(connection, queue)
            assert job.attempt == 2
            assert snooze(connection, job, "0") is True
            assert connection.get_job(job_id=number).last_error == "no answer"
    found = connection.get_job(job_id=number)
    assert (found.state, found.attempt, found.snoozes) == ("dead", 2, 11)


def test_why_it_was_snoozed(connection: Session, queue: str) -> None:
    """Is its last error, which a later release without a reason keeps."""
    number = enqueue(connection, queue)
    for error in ("not yet", None):
        job = claim_one(connection, queue)
        assert connection.release_job(
            job_id=number, lease_token=job.lease_token, delay="0", error=error
        )
        found = connection.get_job(job_id=number)
        assert (found.attempt, found.last_error) == (0, "not yet")


def test_when_it_is_due(connection: Session, clock: Clock) -> None:
    """After its delay, to the moment, whatever the backoff and the delay of the queue."""
    queue = new_queue(connection, backoff="1 hour", delay="1 hour")
    enqueue(connection, queue, delay="0")
    job = claim_one(connection, queue)
    before = row(connection, "select pgq._clock()")[0]
    assert snooze(connection, job, "10 minutes") is True
    found = connection.get_job(job_id=job.job_id)
    waits = (found.due_at - before).total_seconds()
    assert 600 <= waits < 630
    assert (found.state, found.leased_until) == ("delayed", None)
    clock.advance("9 minutes")
    assert claim(connection, queue) == claim(connection, queue, 2) == []
    clock.advance("61 seconds")
    assert claim_one(connection, queue).job_id == job.job_id


def test_at_once(connection: Session, queue: str) -> None:
    """A delay of 0 is one as well; none is not."""
    number = enqueue(connection, queue)
    assert snooze(connection, claim_one(connection, queue), "0") is True
    assert noted(connection, number) == (1, None)
    assert snooze(connection, claim_one(connection, queue), None) is True
    assert noted(connection, number) == (1, None)
    assert claim_one(connection, queue).attempt == 1


def test_a_job_that_would_expire(connection: Session, clock: Clock) -> None:
    """It is refused, and the worker has it still; without a delay it can be given back."""
    queue = new_queue(connection, job_ttl="1 hour", lease="2 hours")
    number = enqueue(connection, queue)
    job = claim_one(connection, queue)
    with unchanged(connection):
        for delay in ("1 hour", "2 hours", "36500 days"):
            error = refused("22023", snooze, connection, job, delay=delay)
            assert "expires at" in str(error.diag.message_detail)
        left = "select pgq.release_job(job_id, lease_token, expires_at - pgq._clock() - %s)"
        left += " from pgq.job where job_id = %s"
        refused("22023", lambda: connection.execute(left, ["0", number]))
    assert row(connection, left, ["1 minute", number]) == (True,)
    assert noted(connection, number) == (1, None)
    clock.advance("59.5 minutes")
    job = claim_one(connection, queue)
    assert job.job_id == number
    clock.advance("2 minutes")
    with unchanged(connection):
        refused("22023", snooze, connection, job, delay="0")
    assert connection.get_job(job_id=number).state == "leased"
    assert snooze(connection, job, None) is True
    assert connection.get_job(job_id=number).state == "expired"


def test_a_job_that_never_expires(connection: Session) -> None:
    queue = new_queue(connection, no_limit=["job_ttl"])
    number = enqueue(connection, queue)
    assert snooze(connection, claim_one(connection, queue), "36500 days") is True
    assert connection.get_job(job_id=number).state == "delayed"


def test_bad_delays(connection: Session, queue: str) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    with unchanged(connection):
        for delay in ("-1 second", "36501 days", "1 day -1 hour", "-1 microsecond"):
            refused("22023", snooze, connection, job, delay=delay)
            refused("22023", connection.release_job, job_id=1, lease_token=uuid4(), delay=delay)
        for null in ("job_id", "lease_token"):
            held = {"job_id": job.job_id, "lease_token": job.lease_token, "delay": "0", null: None}
            refused("22004", connection.release_job, **held)
    assert ack(connection, job)


def test_a_job_of_somebody_else(connection: Session, clock: Clock) -> None:
    """Nothing is noted; nor is it asked when that job expires."""
    queue = new_queue(connection, job_ttl="1 day")
    enqueue_many(connection, queue, 4)
    snoozed, first, done, dead = claim(connection, queue, 4)
    assert snooze(connection, snoozed, "1 minute")
    assert ack(connection, done)
    assert connection.reject_job(job_id=dead.job_id, lease_token=dead.lease_token)
    clock.advance("31 seconds")
    second = claim_one(connection, queue)
    with unchanged(connection):
        for job in (snoozed, first, done, dead):
            for delay in ("0", "1 hour", "2 days"):
                assert snooze(connection, job, delay) is False
        other = connection.release_job(job_id=2**62, lease_token=uuid4(), delay="1 hour")
        assert other is False
    assert second.job_id == first.job_id
    assert noted(connection, second.job_id) == (0, None)
    assert snooze(connection, second) is True


def test_a_lease_that_has_run_out(connection: Session, queue: str, clock: Clock) -> None:
    """It counts as long as nobody else got the job."""
    number = enqueue(connection, queue)
    job = claim_one(connection, queue)
    clock.advance("31 seconds")
    assert snooze(connection, job) is True
    assert claim(connection, queue) == []
    assert noted(connection, number) == (1, None)


def test_a_job_that_has_not_begun(connection: Session, queue: str, clock: Clock) -> None:
    """A worker that has jobs in store snoozes any of them."""
    enqueue_many(connection, queue, 2)
    for job in claim(connection, queue, 2, prefetch=True):
        assert snooze(connection, job) is True
        assert connection.get_job(job_id=job.job_id).attempt == 0
    clock.advance("61 minutes")
    assert [job.attempt for job in claim(connection, queue, 2)] == [1, 1]


def test_a_lost_attempt_before_it(connection: Session, clock: Clock) -> None:
    """What did count goes on counting."""
    queue = new_queue(connection, max_attempts=3)
    number = enqueue(connection, queue)
    claim_one(connection, queue)
    clock.advance("31 seconds")
    job = claim_one(connection, queue)
    assert job.attempt == 2
    assert snooze(connection, job, "0") is True
    assert connection.get_job(job_id=number).attempt == 1
    assert claim_one(connection, queue).attempt == 2


def test_after_max_attempts_was_lowered(connection: Session) -> None:
    """What has had as many without this one is a dead letter."""
    queue = new_queue(connection, max_attempts=5, backoff="0")
    number = enqueue(connection, queue)
    for _ in range(2):
        job = claim_one(connection, queue)
        connection.nack(job_id=number, lease_token=job.lease_token, error="no")
    job = claim_one(connection, queue)
    connection.alter_queue(queue=queue, max_attempts=2)
    assert snooze(connection, job) is True
    found = connection.get_job(job_id=number)
    assert (found.state, found.attempt, found.last_error) == ("dead", 2, "no")


# ---------------------------------------------------------------------------- keys and limits


def test_an_ordered_queue(connection: Session, clock: Clock) -> None:
    """The other jobs of its key wait for it, those of other keys do not."""
    queue = ordered_queue(connection)
    first, second, other = add_many(connection, queue, ["a", "a", "b"])
    job = claim_one(connection, queue)
    assert job.job_id == first
    assert snooze(connection, job) is True
    assert stats(connection, queue) == {"delayed": 1, "waiting": 1, "ready": 1}
    assert [each.job_id for each in claim(connection, queue, 9, lease="1 day")] == [other]
    assert broken(connection) == []
    clock.advance("61 minutes")
    [job] = claim(connection, queue, 9)
    assert (job.job_id, job.attempt) == (first, 1)
    assert ack(connection, job)
    assert [each.job_id for each in claim(connection, queue, 9)] == [second]


def test_a_limit_of_a_key(connection: Session, clock: Clock) -> None:
    """It leaves its slot to another one, and waits for one when it is due."""
    queue = new_queue(connection, max_leased_per_key=1)
    first, second = add_many(connection, queue, ["a", "a"])
    job = claim_one(connection, queue)
    assert claim(connection, queue) == []
    assert snooze(connection, job) is True
    [other] = claim(connection, queue, 9, lease="2 hours")
    assert other.job_id == second
    clock.advance("61 minutes")
    assert claim(connection, queue, 9) == []
    assert ack(connection, other)
    [job] = claim(connection, queue, 9)
    assert (job.job_id, job.attempt) == (first, 1)


def test_a_limit_of_the_queue(connection: Session) -> None:
    queue = new_queue(connection, max_leased=1)
    first, second = enqueue_many(connection, queue, 2)
    job = claim_one(connection, queue)
    assert job.job_id == first
    assert claim(connection, queue) == []
    assert snooze(connection, job) is True
    assert claim_one(connection, queue).job_id == second


@pytest.mark.parametrize("taken", [False, True])
def test_a_unique_key_that_a_claim_has_freed(
    connection: Session, clock: Clock, taken: bool
) -> None:
    """The job takes it back; if another job has it by now, it goes on without."""
    queue = new_queue(connection, unique_until="claimed")
    number, _ = add(connection, queue, "k")
    job = claim_one(connection, queue)
    assert keys_of(connection, queue) == {}
    other, _ = add(connection, queue, "k") if taken else (number, False)
    assert snooze(connection, job) is True
    assert keys_of(connection, queue) == {"k": other}
    assert add(connection, queue, "k") == (other, True)
    clock.advance("61 minutes")
    assert {each.job_id for each in claim(connection, queue, 9)} == {number, other}


# ---------------------------------------------------------------------------- transactions


def snoozed_twice(session: Session, queue: str) -> Job:
    for _ in range(2):
        job = claim_one(session, queue)
        assert snooze(session, job, "0") is True
        assert snooze(session, job, "0") is False
    return job


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_in_one_transaction(connect: Connect, connection: Session, queue: str, level: str) -> None:
    """What is rolled back is not counted."""
    number = enqueue(connection, queue)
    session = connect(isolation_level=level)
    snoozed_twice(session, queue)
    session.execute("savepoint s")
    snoozed_twice(session, queue)
    session.execute("rollback to savepoint s")
    assert noted(session, number) == (2, None)
    session.commit()
    snoozed_twice(session, queue)
    session.rollback()
    assert noted(connection, number) == (2, None)
    assert claim_one(connection, queue).attempt == 1
