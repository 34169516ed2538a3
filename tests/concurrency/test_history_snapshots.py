"""Attempts and results that are noted in a snapshot which misses what cleanup has done since.

They go into the segment that is open for the queue now, or the call raises 40001; never into one
that was sealed, emptied, or taken by others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.clock import Clock
from support.queue import Job, claim_one, enqueue, new_queue
from support.session import Connect, Session, row
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session
from support.storage import clean, seal

STATES = ["sealed", "closed", "emptied", "taken by others"]
Way = Callable[[Session, str, Job], Any]


def held(job: Job) -> dict[str, Any]:
    return {"job_id": job.job_id, "lease_token": job.lease_token}


def several(job: Job) -> dict[str, Any]:
    return {"job_ids": [job.job_id], "lease_token": job.lease_token}


LEASED: dict[str, Way] = {
    "nack": lambda s, q, job: s.nack(**held(job)),
    "nack_batch": lambda s, q, job: s.nack_batch(**several(job)),
    "reject_job": lambda s, q, job: s.reject_job(**held(job)),
    "ack": lambda s, q, job: s.ack(**held(job)),
    "ack_batch": lambda s, q, job: s.ack_batch(**several(job)),
    "archive_job": lambda s, q, job: s.archive_job(**held(job)),
    "finish_and_claim": lambda s, q, job: s.finish_and_claim(queue=q, **several(job), max_jobs=0),
    "cancel_job": lambda s, q, job: s.cancel_job(job_id=job.job_id),
}
LOST: dict[str, Way] = {
    "claim_job": lambda s, q, job: s.claim_job(queue=q),
    "claim_job of many": lambda s, q, job: s.claim_job(queue=q, max_jobs=9),
    "a finish_and_claim that finds it": lambda s, q, job: s.finish_and_claim(queue=q),
}


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """One database for this file, which each test finds empty."""
    return emptied_dsn


@pytest.fixture
def clock(emptied_clock: Clock) -> Clock:
    """Its clock."""
    return emptied_clock


def age(session: Session, clock: Clock, state: str) -> None:
    """Let the segment that is open now come to this state."""
    seal(session, clock, "3 hours")
    if state != "sealed":
        clean(session)
    if state in ("emptied", "taken by others"):
        clock.advance("9 hours 1 minute")
        assert "segment truncated" in clean(session)
    if state == "taken by others":
        session.create_queue(queue="other", retention="5 days")
        session.create_queue(queue="another", retention="6 days")


def where(session: Session, job_id: int) -> list[tuple[Any, ...]]:
    """Of what was noted of a job: whether it is in the segment that is open for its queue."""
    return session.execute(
        "select e.event, e.segment = q.segment from pgq.job_event as e"
        " inner join pgq.queue as q using (queue_id) where e.job_id = %s",
        [job_id],
    ).fetchall()


def prepared(connection: Session, lost: bool) -> tuple[str, Job]:
    queue = new_queue(
        connection,
        retention="9 hours",
        backoff="0",
        keep_results=True,
        archive=False,
        no_limit=["job_ttl"],
    )
    enqueue(connection, queue)
    return queue, claim_one(connection, queue, lease="1 hour" if lost else "1 day")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("way", [*LEASED, *LOST])
def test_an_old_snapshot(
    connect: Connect, connection: Session, clock: Clock, way: str, state: str, level: str
) -> None:
    queue, job = prepared(connection, way in LOST)
    session = old_session(connect, level)
    age(connection, clock, state)
    call = (LEASED | LOST)[way]
    assert answer_of(session, lambda: call(session, queue, job)) == TRY_AGAIN
    assert where(connection, job.job_id) == []
    assert answer_of(session, lambda: call(session, queue, job)) != TRY_AGAIN
    [(_, right)] = where(connection, job.job_id)
    assert right


@pytest.mark.parametrize("way", [*LEASED, *LOST])
@pytest.mark.parametrize("seen", [False, True], ids=["read nothing", "has noted one"])
def test_a_transaction_that_has_its_id(
    connect: Connect, connection: Session, clock: Clock, way: str, seen: bool
) -> None:
    """At READ COMMITTED: from before the sealing, with or without a lock on these tables."""
    queue, job = prepared(connection, way in LOST)
    session = connect()
    session.execute("select pg_current_xact_id()")
    if seen:
        enqueue(connection, queue)
        first = claim_one(session, queue)
        session.nack(**held(first), delay="9 hours")
    age(connection, clock, "sealed")
    (LEASED | LOST)[way](session, queue, job)
    session.commit()
    assert [right for _, right in where(connection, job.job_id)] == [True]
    if seen:
        assert where(connection, first.job_id) == [("failed", False)]


@pytest.mark.parametrize("level", ["read committed", *LEVELS])
def test_a_whole_life(connect: Connect, connection: Session, level: str) -> None:
    """At every level: each attempt once, and the end."""
    queue = new_queue(connection, backoff="0", keep_results=True, max_attempts=9)
    number = enqueue(connection, queue)
    session = connect(isolation_level=level)
    for _ in range(3):
        job = claim_one(session, queue)
        session.commit()
        assert session.nack(**held(job))
        session.commit()
    job = claim_one(session, queue)
    assert session.ack(**held(job))
    session.commit()
    assert [a.attempt for a in connection.job_history(job_id=number)] == [3, 2, 1]
    assert connection.get_result(job_id=number).state == "finished"
    assert row(connection, "select count(*) from pgq.job_event") == (4,)


@pytest.mark.parametrize("level", LEVELS)
def test_readers_with_an_old_snapshot(
    connect: Connect, connection: Session, clock: Clock, level: str
) -> None:
    """They see what was, until retention has removed it; and never what others have noted since."""
    _, job = prepared(connection, lost=False)
    session = old_session(connect, level)
    session.execute("select count(*) from pgq.job")
    connection.nack(**held(job))
    assert connection.cancel_job(job_id=job.job_id)
    assert session.get_result(job_id=job.job_id).state == "leased"
    assert session.job_history(job_id=job.job_id) == []
