"""max_attempts is lowered: a claim that meets a job which has had as many buries it."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import Job, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session

RAN_OUT = "the lease of the last attempt ran out"


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """In place of the one that the tests of this folder share."""
    return emptied_dsn


@pytest.fixture
def clock(emptied_clock: Clock) -> Clock:
    """The clock of that database."""
    return emptied_clock


@pytest.fixture
def queue(connection: Session) -> str:
    """A queue in whose front a job stands that nobody claims."""
    queue = new_queue(connection, no_limit=["job_ttl", "max_attempts"])
    enqueue(connection, queue, "in front", label="A")
    return queue


def _nack(session: Session, job: Job, error: str | None = None) -> None:
    assert session.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0", error=error)


def _tried(session: Session, queue: str, times: int, error: str | None = None) -> int:
    """A job with the label B that was given back so many times."""
    job_id = enqueue(session, queue, label="B")
    for _ in range(times):
        _nack(session, claim_one(session, queue, label="B"), error)
    return job_id


def _letters(session: Session, queue: str) -> list[tuple[Any, ...]]:
    return session.execute(
        "select job_id, attempt, last_error from pgq.dead_letters where queue = %s", [queue]
    ).fetchall()


def test_by_a_claim_of_its_label(connection: Session, queue: str) -> None:
    """It says how often it was delivered, and what its worker said: no lease ran out."""
    job_id = _tried(connection, queue, 3, "boom")
    other = enqueue(connection, queue, label="B")
    connection.alter_queue(queue=queue, max_attempts=3)
    connection.cleanup()
    assert _letters(connection, queue) == []
    assert [job.job_id for job in claim(connection, queue, 10, label="B")] == [other]
    assert _letters(connection, queue) == [(job_id, 3, "boom")]
    assert stats(connection, queue) == {"dead": 1, "leased": 1, "ready": 1}


@pytest.mark.parametrize("kept", [True, False])
def test_one_that_is_leased(connection: Session, clock: Clock, queue: str, kept: bool) -> None:
    """Its worker may still end it, also after a heartbeat; when it is lost, so is the job."""
    _tried(connection, queue, 3)
    job = claim_one(connection, queue, label="B")
    connection.alter_queue(queue=queue, max_attempts=2)
    connection.cleanup()
    arguments = {"job_id": job.job_id, "lease_token": job.lease_token}
    assert connection.extend_lease(**arguments, lease="1 minute")
    if kept:
        assert connection.ack(**arguments)
    else:
        clock.advance("2 minutes")
        assert claim(connection, queue, label="B") == []
        assert _letters(connection, queue) == [(job.job_id, 4, RAN_OUT)]
    assert stats(connection, queue) == {"ready": 1} | ({} if kept else {"dead": 1})


@pytest.mark.parametrize("selected", [{}, {"label": "B"}])
def test_many_in_front(connection: Session, selected: dict[str, Any]) -> None:
    """A claim gets past them at once, and buries some; not one stays behind in the end."""
    queue = new_queue(connection, no_limit=["max_attempts"])
    enqueue_many(connection, queue, 2_500, labels=["B"] * 2_500)
    jobs = claim(connection, queue, 2_500)
    connection.nack_batch(
        job_ids=[job.job_id for job in jobs], lease_token=jobs[0].lease_token, delay="0"
    )
    good = enqueue(connection, queue, label="B")
    connection.alter_queue(queue=queue, max_attempts=1)
    assert claim_one(connection, queue, **selected).job_id == good
    assert stats(connection, queue)["dead"] >= 999
    for _ in range(2):
        assert claim(connection, queue, **selected) == []
    assert stats(connection, queue) == {"dead": 2_500, "leased": 1}


@pytest.mark.parametrize("selected", [{}, {"label": "B"}])
def test_two_claims_side_by_side(
    connect: Connect, connection: Session, selected: dict[str, Any]
) -> None:
    """What one of them buries the other passes by; they do not wait for each other."""
    queue = new_queue(connection, no_limit=["max_attempts"])
    numbers = enqueue_many(connection, queue, 2, labels=["B", "B"])
    for job in claim(connection, queue, 2):
        _nack(connection, job)
    connection.alter_queue(queue=queue, max_attempts=1)
    first, second = connect(), connect()
    second.execute("set lock_timeout = '5s'")
    assert claim(first, queue, **selected) == []
    assert claim(second, queue, **selected) == []
    second.commit()
    first.commit()
    assert {job_id for job_id, *_ in _letters(connection, queue)} == {*numbers}


def test_raised_again_in_time(connection: Session, queue: str) -> None:
    _tried(connection, queue, 2)
    for attempts in (2, 3):
        connection.alter_queue(queue=queue, max_attempts=attempts)
    assert claim_one(connection, queue, label="B").attempt == 3
    assert _letters(connection, queue) == []


@pytest.mark.parametrize("max_jobs", [1, 10])
@pytest.mark.parametrize("error", ["boom", None])
def test_by_a_claim(connection: Session, max_jobs: int, error: str | None) -> None:
    """It stands in front: the claim itself buries it, with what is true of it."""
    queue = new_queue(connection)
    job_id = enqueue(connection, queue)
    for _ in range(4):
        _nack(connection, claim_one(connection, queue), error)
    connection.alter_queue(queue=queue, max_attempts=2)
    assert claim(connection, queue, max_jobs) == []
    assert _letters(connection, queue) == [(job_id, 4, error)]


def test_lost_before_it_was_lowered(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection)
    job_id = enqueue(connection, queue)
    for _ in range(4):
        claim_one(connection, queue)
        clock.advance("1 minute")
    connection.alter_queue(queue=queue, max_attempts=2)
    enqueue_many(connection, queue, 1)
    assert claim_one(connection, queue).attempt == 1
    assert _letters(connection, queue) == [(job_id, 4, RAN_OUT)]
