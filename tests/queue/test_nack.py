"""nack: when a job comes back, what is kept of the failure, and when there is no more retry."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.clock import Clock
from support.queue import Job, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, contents, refused, row, unchanged


def nack(connection: Session, job: Job, **options: Any) -> bool:
    answer = connection.nack(job_id=job.job_id, lease_token=job.lease_token, **options)
    assert isinstance(answer, bool)
    return answer


def retry_delay(connection: Session, job: Job) -> float:
    """In how many seconds a job may be claimed again, just after its nack."""
    [seconds] = row(
        connection,
        "select extract(epoch from visible_at - pgq._clock())::float8"
        " from pgq.job where job_id = %s",
        [job.job_id],
    )
    assert isinstance(seconds, float)
    return seconds


def test_zero_means_at_once(connection: Session, queue: str) -> None:
    """The nack itself is no attempt."""
    enqueue(connection, queue)
    first = claim_one(connection, queue)
    assert nack(connection, first, delay="0") is True
    assert stats(connection, queue) == {"ready": 1}
    second = claim_one(connection, queue)
    assert (second.job_id, second.attempt) == (first.job_id, 2)


def test_delay(connection: Session, queue: str, clock: Clock) -> None:
    enqueue(connection, queue)
    assert nack(connection, claim_one(connection, queue), delay="10 seconds")
    assert stats(connection, queue) == {"delayed": 1}
    clock.advance("9 seconds")
    assert claim(connection, queue) == []
    clock.advance("2 seconds")
    assert claim_one(connection, queue).attempt == 2


def test_backoff_doubles_up_to_its_cap(connection: Session, clock: Clock) -> None:
    """1, 2, 4, 8 … seconds by default, without the jitter."""
    queue = new_queue(connection, no_limit=["max_attempts"], backoff_max="20 seconds")
    enqueue(connection, queue)
    for expected in (1, 2, 4, 8, 16, 20, 20):
        job = claim_one(connection, queue)
        assert nack(connection, job)
        assert expected - 1 < retry_delay(connection, job) <= expected
        clock.advance(timedelta(seconds=expected))


def test_backoff_of_the_queue(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, backoff="10 minutes", backoff_max="15 minutes")
    enqueue(connection, queue)
    for expected in (600, 900, 900):
        job = claim_one(connection, queue)
        assert nack(connection, job)
        assert expected - 1 < retry_delay(connection, job) <= expected
        clock.advance("15 minutes")


def test_no_backoff(connection: Session) -> None:
    queue = new_queue(connection, backoff="0")
    enqueue(connection, queue)
    assert nack(connection, claim_one(connection, queue))
    assert claim_one(connection, queue).attempt == 2


def test_very_many_attempts_stay_at_the_cap(connection: Session) -> None:
    queue = new_queue(connection, no_limit=["max_attempts"])
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    connection.execute("update pgq.job set attempt = 2000000000 where job_id = %s", [job.job_id])
    assert nack(connection, job)
    assert 3599 < retry_delay(connection, job) <= 3600


def test_jitter(connection: Session) -> None:
    """It adds up to its share, and not always the same."""
    queue = new_queue(connection, backoff="100 seconds", backoff_jitter=0.5)
    enqueue_many(connection, queue, 40)
    delays = []
    for job in claim(connection, queue, 40):
        assert nack(connection, job)
        delays.append(retry_delay(connection, job))
    assert min(delays) > 99
    assert max(delays) <= 150
    assert max(delays) - min(delays) > 10


def test_the_last_error_is_kept(connection: Session, queue: str) -> None:
    """A nack that names none keeps the one before."""
    job_id = enqueue(connection, queue)
    last_error = "select last_error from pgq.job where job_id = %s"
    for error, kept in (("first", "first"), ("second", "second"), (None, "second")):
        assert nack(connection, claim_one(connection, queue), delay="0", error=error)
        assert row(connection, last_error, [job_id]) == (kept,)


def test_a_job_nacked_for_ever_dies(connection: Session) -> None:
    """After max_attempts deliveries, with its last error, whatever delay the nack asks for."""
    queue = new_queue(connection, max_attempts=3)
    job_id = enqueue(connection, queue, "x", priority=2, label="l")
    for attempt in (1, 2, 3):
        job = claim_one(connection, queue)
        assert job.attempt == attempt
        assert nack(connection, job, delay="0", error=f"failure {attempt}")
    assert claim(connection, queue) == []
    assert stats(connection, queue) == {"dead": 1}
    assert row(
        connection,
        "select job_id, attempt, last_error, priority, label, payload"
        " from pgq.dead_letters where queue = %s",
        [queue],
    ) == (job_id, 3, "failure 3", 2, "l", "x")
    assert nack(connection, job) is False


def test_one_attempt_means_no_retry(connection: Session) -> None:
    queue = new_queue(connection, max_attempts=1)
    enqueue(connection, queue)
    assert nack(connection, claim_one(connection, queue), delay="1 hour")
    assert stats(connection, queue) == {"dead": 1}
    [died_at, error] = row(
        connection, "select died_at, last_error from pgq.dead_letters where queue = %s", [queue]
    )
    assert error is None
    assert row(connection, "select pgq._clock() - %s < interval '1 minute'", [died_at]) == (True,)


def test_without_a_limit_it_never_dies(connection: Session) -> None:
    queue = new_queue(connection, no_limit=["max_attempts"])
    enqueue(connection, queue)
    for attempt in range(1, 12):
        job = claim_one(connection, queue)
        assert job.attempt == attempt
        assert nack(connection, job, delay="0")


def test_stale_tokens_change_nothing(connection: Session, queue: str, clock: Clock) -> None:
    """Neither after another claim, nor after a nack or an ack: what is done stays done."""
    enqueue(connection, queue)
    slow = claim_one(connection, queue)
    clock.advance("31 seconds")
    quick = claim_one(connection, queue)
    before = contents(connection)
    assert nack(connection, slow, error="late") is False
    assert contents(connection) == before

    assert nack(connection, quick, delay="0") is True
    before = contents(connection)
    assert nack(connection, quick, delay="1 hour", error="again") is False
    assert contents(connection) == before

    last = claim_one(connection, queue)
    assert connection.ack(job_id=last.job_id, lease_token=last.lease_token)
    before = contents(connection)
    assert nack(connection, last, delay="0") is False
    assert contents(connection) == before
    assert claim(connection, queue) == []


def test_a_lease_that_ran_out_counts_until_somebody_else_claims(
    connection: Session, queue: str, clock: Clock
) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    clock.advance("1 hour")
    assert nack(connection, job, delay="10 seconds")
    assert stats(connection, queue) == {"delayed": 1}


def test_unknown_id(connection: Session, queue: str) -> None:
    enqueue(connection, queue)
    token = claim_one(connection, queue).lease_token
    assert connection.nack(job_id=-1, lease_token=token) is False


@pytest.mark.parametrize(
    ("sqlstate", "bad"),
    [
        ("22004", {"job_id": None}),
        ("22004", {"lease_token": None}),
        ("22023", {"delay": "-1 microsecond"}),
        ("22023", {"delay": "36501 days"}),
    ],
)
def test_refusals(connection: Session, queue: str, sqlstate: str, bad: dict[str, Any]) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    good = {"job_id": job.job_id, "lease_token": job.lease_token}
    with unchanged(connection):
        refused(sqlstate, connection.nack, **{**good, **bad})


def test_twice_in_one_transaction_and_rolled_back(connect: Connect, connection: Session) -> None:
    queue = new_queue(connection, max_attempts=1)
    enqueue_many(connection, queue, 2)
    jobs = claim(connection, queue, 2)
    session = connect()
    for job in jobs:
        assert nack(session, job)
        assert not nack(session, job)
    session.rollback()
    assert stats(connection, queue) == {"leased": 2}
    for job in jobs:
        assert nack(session, job)
    session.commit()
    assert stats(connection, queue) == {"dead": 2}
