"""extend_lease: the heartbeat of a long job, good only while the lease is alive."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.clock import Clock
from support.queue import Job, claim, claim_one, enqueue, new_queue
from support.session import Connect, Session, contents, refused, row, unchanged


def extend(connection: Session, job: Job, **options: Any) -> bool:
    answer = connection.extend_lease(job_id=job.job_id, lease_token=job.lease_token, **options)
    assert isinstance(answer, bool)
    return answer


def left(connection: Session, job: Job) -> float:
    """How many seconds of the lease are left."""
    [seconds] = row(
        connection,
        "select extract(epoch from visible_at - pgq._clock())::float8"
        " from pgq.job where job_id = %s",
        [job.job_id],
    )
    assert isinstance(seconds, float)
    return seconds


def test_it_counts_from_now(connection: Session, clock: Clock) -> None:
    """By default as long as the queue says."""
    queue = new_queue(connection, lease="1 minute")
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    clock.advance("40 seconds")
    assert extend(connection, job) is True
    assert 59 < left(connection, job) <= 60
    assert extend(connection, job, lease="2 hours") is True
    assert 7199 < left(connection, job) <= 7200
    clock.advance("2 hours")
    assert claim_one(connection, queue).attempt == 2


@pytest.mark.parametrize("lease", ["5 seconds", "1 microsecond", None])
def test_it_never_shortens(connection: Session, clock: Clock, lease: str | None) -> None:
    """Not by the lease of the queue either, which may be shorter now, or shorter than the claim's;
    so two heartbeats of one worker may come in any order."""
    queue = new_queue(connection, lease="1 minute")
    enqueue(connection, queue)
    job = claim_one(connection, queue, lease="2 hours")
    connection.alter_queue(queue=queue, lease="1 second")
    assert extend(connection, job, lease=lease) is True
    assert row(connection, "select visible_at from pgq.job where job_id = %s", [job.job_id]) == (
        job.leased_until,
    )
    # from where it would end later it counts again
    clock.advance("7199 seconds")
    assert claim(connection, queue) == []
    assert extend(connection, job, lease="5 seconds") is True
    assert 4 < left(connection, job) <= 5
    clock.advance("6 seconds")
    assert extend(connection, job, lease=lease) is False
    assert claim_one(connection, queue).attempt == 2


def test_a_job_kept_alive_goes_to_nobody_else(
    connection: Session, queue: str, clock: Clock
) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    for _ in range(5):
        clock.advance("20 seconds")
        assert claim(connection, queue) == []
        assert extend(connection, job)
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)


def test_too_late(connection: Session, queue: str, clock: Clock) -> None:
    """Once the lease has run out the worker is told to stop, claimed by another or not."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    clock.advance("31 seconds")
    before = contents(connection)
    assert extend(connection, job, lease="1 hour") is False
    assert contents(connection) == before
    quick = claim_one(connection, queue)
    before = contents(connection)
    assert extend(connection, job) is False
    assert contents(connection) == before
    assert extend(connection, quick) is True


@pytest.mark.parametrize("end", ["ack", "nack", "archive_job"])
def test_a_finished_job(connection: Session, queue: str, end: str) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert connection.call(end, job_id=job.job_id, lease_token=job.lease_token)
    assert extend(connection, job) is False


def test_attempts_and_token_stay(connection: Session, queue: str) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert extend(connection, job)
    assert row(
        connection, "select attempt, lease_token from pgq.job where job_id = %s", [job.job_id]
    ) == (1, job.lease_token)


def test_in_a_long_transaction(connect: Connect, queue: str) -> None:
    """It counts by the clock, not from the begin of the transaction."""
    session = connect()
    enqueue(session, queue)
    job = claim_one(session, queue)
    session.commit()
    [begun] = row(session, "select now()")
    session.execute("select pg_sleep(0.1)")
    assert extend(session, job, lease="10 seconds")
    [until] = row(session, "select visible_at from pgq.job where job_id = %s", [job.job_id])
    assert until - begun >= timedelta(seconds=10.1)


@pytest.mark.parametrize(
    ("sqlstate", "bad"),
    [
        ("22004", {"job_id": None}),
        ("22004", {"lease_token": None}),
        ("22023", {"lease": "0"}),
        ("22023", {"lease": "-1 second"}),
        ("22023", {"lease": "36501 days"}),
    ],
)
def test_refusals(connection: Session, queue: str, sqlstate: str, bad: dict[str, Any]) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    good = {"job_id": job.job_id, "lease_token": job.lease_token}
    with unchanged(connection):
        refused(sqlstate, connection.extend_lease, **{**good, **bad})


def test_twice_in_one_transaction_and_rolled_back(
    connect: Connect, connection: Session, queue: str
) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    session = connect()
    assert extend(session, job, lease="1 hour")
    assert extend(session, job, lease="2 hours")
    assert left(session, job) > 7000
    session.rollback()
    assert left(connection, job) <= 30
