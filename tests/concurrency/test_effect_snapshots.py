"""Effects above READ COMMITTED: an answer is right, or 40001, and then the next try is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from support.clock import Clock
from support.effects import begin, finish, forget, noted
from support.queue import Job, ack, claim_one, enqueue, new_queue
from support.session import Connect, Session, unchanged
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session, second_answer_of

pytestmark = pytest.mark.parametrize("level", LEVELS)


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


@pytest.fixture
def clock(shared_clock: Clock) -> Clock:
    """The clock of that database; it is set right again at the end of the test."""
    return shared_clock


@pytest.fixture
def queue(connection: Session) -> str:
    return new_queue(connection)


@pytest.fixture
def job(connection: Session, queue: str) -> Job:
    """A job as its first worker has it."""
    enqueue(connection, queue)
    return claim_one(connection, queue)


@pytest.fixture
def taken(connection: Session, queue: str, job: Job, clock: Clock) -> Job:
    """The same job as the next worker has it; the first one has begun the effect."""
    begin(connection, job)
    clock.advance("31 seconds")
    return claim_one(connection, queue)


def state(session: Session, job: Job, **options: Any) -> str:
    """What begin_effect says; that the job is lost by its code."""
    try:
        with session.transaction():
            return str(begin(session, job, **options).state)
    except psycopg.Error as error:
        if error.sqlstate != "MQ006":
            raise
        return "MQ006"


def answer(session: Session, work: Callable[[], Any]) -> Any:
    """The answer at the first try, or at the second one."""
    return second_answer_of(session, work)


def test_a_whole_life(connect: Connect, connection: Session, level: str) -> None:
    """All of it in one transaction, twice, when nobody interferes."""
    session = connect(isolation_level=level)
    queue = new_queue(session)
    for _ in range(2):
        enqueue(session, queue)
        job = claim_one(session, queue)
        assert forget(session, job) is False
        assert finish(session, job) is False
        assert state(session, job) == "begun"
        assert state(session, job) == "interrupted"
        assert forget(session, job) is True
        assert state(session, job) == "begun"
        assert state(session, job, at_least_once=True) == "begun"
        assert finish(session, job, result=1) is True
        assert state(session, job) == "finished"
        assert noted(session, job.job_id) == {"mail": "finished"}
        assert ack(session, job)
        assert state(session, job) == "MQ006"
    session.commit()


def test_a_job_claimed_since(connect: Connect, connection: Session, queue: str, level: str) -> None:
    """It is not called lost because an old snapshot does not know of it."""
    session = old_session(connect, level)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert answer(session, lambda: state(session, job)) == "begun"


def test_a_job_claimed_by_another_since(
    connect: Connect, connection: Session, queue: str, job: Job, level: str
) -> None:
    """The snapshot shows it as the first worker's; nothing is begun."""
    session = old_session(connect, level)
    assert connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")
    claim_one(connection, queue)
    with unchanged(connection):
        assert answer(session, lambda: state(session, job)) == "MQ006"


@pytest.mark.parametrize("at_least_once", [False, True])
def test_begun_since(
    connect: Connect, connection: Session, job: Job, at_least_once: bool, level: str
) -> None:
    """Two threads of one worker, and the older snapshot comes second."""
    session = old_session(connect, level)
    assert state(connection, job) == "begun"
    told = answer_of(session, lambda: state(session, job, at_least_once=at_least_once))
    assert told == TRY_AGAIN
    told = answer_of(session, lambda: state(session, job, at_least_once=at_least_once))
    assert told == ("begun" if at_least_once else "interrupted")


@pytest.mark.parametrize("settle", [finish, forget])
def test_settled_though_begun_since(
    connect: Connect,
    connection: Session,
    job: Job,
    settle: Callable[[Session, Job], bool],
    level: str,
) -> None:
    """The worker's other connection began it: it is not told that there is nothing."""
    session = old_session(connect, level)
    assert state(connection, job) == "begun"
    assert answer(session, lambda: settle(session, job)) is True
    assert noted(connection, job.job_id) == ({"mail": "finished"} if settle is finish else {})


@pytest.mark.parametrize("settle", [finish, forget])
def test_settled_behind_the_end_of_the_job_though_begun_since(
    connect: Connect,
    connection: Session,
    job: Job,
    settle: Callable[[Session, Job], bool],
    level: str,
) -> None:
    """The same, when this one has given the job back before, and has no lease any more."""
    session = old_session(connect, level)
    assert state(connection, job) == "begun"

    def give_back_and_settle() -> bool:
        assert session.nack(job_id=job.job_id, lease_token=job.lease_token)
        return settle(session, job)

    assert answer(session, give_back_and_settle) is True
    assert noted(connection, job.job_id) == ({"mail": "finished"} if settle is finish else {})


@pytest.mark.parametrize("settle", [finish, forget])
def test_what_others_have_begun_stays(
    connect: Connect,
    connection: Session,
    job: Job,
    taken: Job,
    settle: Callable[[Session, Job], bool],
    level: str,
) -> None:
    """Who has neither begun it nor has the job is told no, and changes nothing."""
    session = old_session(connect, level)
    stranger = replace(job, lease_token=uuid4())
    assert answer_of(session, lambda: settle(session, stranger)) is False
    assert noted(connection, job.job_id) == {"mail": "interrupted"}


@pytest.mark.parametrize(("settle", "expected"), [(finish, "finished"), (forget, "begun")])
@pytest.mark.parametrize("at_least_once", [False, True])
def test_settled_since(
    connect: Connect,
    connection: Session,
    job: Job,
    taken: Job,
    settle: Callable[[Session, Job], bool],
    expected: str,
    at_least_once: bool,
    level: str,
) -> None:
    """The first worker was late, but the snapshot shows it as interrupted."""
    session = old_session(connect, level)
    assert settle(connection, job) is True
    told = answer(session, lambda: state(session, taken, at_least_once=at_least_once))
    assert told == expected


@pytest.mark.parametrize("settle", [finish, forget])
def test_begun_again_since(
    connect: Connect,
    connection: Session,
    job: Job,
    taken: Job,
    settle: Callable[[Session, Job], bool],
    level: str,
) -> None:
    """It is another's by now, which the snapshot does not show."""
    session = old_session(connect, level)
    assert state(connection, taken, at_least_once=True) == "begun"
    assert answer(session, lambda: settle(session, job)) is False
    assert noted(connection, job.job_id) == {"mail": "begun"}


@pytest.mark.parametrize("first", [finish, forget])
@pytest.mark.parametrize("second", [finish, forget])
def test_both_settle_it(
    connect: Connect,
    connection: Session,
    job: Job,
    taken: Job,
    first: Callable[[Session, Job], bool],
    second: Callable[[Session, Job], bool],
    level: str,
) -> None:
    """What was first counts."""
    session = old_session(connect, level)
    assert first(connection, job) is True
    assert answer(session, lambda: second(session, taken)) is False
    assert noted(connection, job.job_id) == ({"mail": "finished"} if first is finish else {})
