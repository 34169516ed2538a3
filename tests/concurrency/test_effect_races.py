"""Several sessions and one effect: it is begun once, and everybody learns what became of it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.effects import begin, finish, forget, noted
from support.gate import Gate
from support.queue import Job, ack, claim, claim_one, enqueue, enqueue_many, new_queue
from support.session import Connect, Session, refused, row
from support.snapshots import LEVELS as STRICT
from support.waiting import aside, results, started, wait_until_blocked

LEVELS = ["read committed", *STRICT]


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
def slow(connection: Session, queue: str) -> Job:
    """A job as its first worker has it."""
    enqueue(connection, queue)
    return claim_one(connection, queue)


@pytest.fixture
def quick(connection: Session, queue: str, slow: Job, clock: Clock) -> Job:
    """The same job as the next worker has it, who has found the effect interrupted."""
    begin(connection, slow)
    clock.advance("31 seconds")
    return claim_one(connection, queue)


def answer_beside(
    connect: Connect,
    connection: Session,
    first: Callable[[Session], Any],
    second: Callable[[Session], Any],
    commits: bool,
) -> Any:
    """What the second call answers, which waits for the transaction of the first one."""
    one, other = connect(), connect(autocommit=True)
    first(one)
    answer = aside(lambda: second(other))
    wait_until_blocked(connection, other.pid)
    one.commit() if commits else one.rollback()
    return answer.result(30)


@pytest.mark.parametrize("commits", [True, False])
def test_two_begin_it(connect: Connect, connection: Session, slow: Job, commits: bool) -> None:
    """Two threads of one worker: the second waits until it is known whether the first one has."""
    answer = answer_beside(
        connect, connection, lambda s: begin(s, slow), lambda s: begin(s, slow), commits
    )
    assert answer.state == ("interrupted" if commits else "begun")


@pytest.mark.parametrize("commits", [True, False])
def test_a_heartbeat_meanwhile(
    connect: Connect, connection: Session, slow: Job, commits: bool
) -> None:
    """It replaces the row of the job, which is held as before."""
    token = {"job_id": slow.job_id, "lease_token": slow.lease_token}
    answer = answer_beside(
        connect,
        connection,
        lambda s: s.extend_lease(**token, lease="1 hour"),
        lambda s: begin(s, slow),
        commits,
    )
    assert answer.state == "begun"


@pytest.mark.parametrize("end", ["ack", "nack", "archive_job"])
def test_the_job_ends_meanwhile(connect: Connect, connection: Session, slow: Job, end: str) -> None:
    """An effect is not begun for a job that its worker has given away."""
    token = {"job_id": slow.job_id, "lease_token": slow.lease_token}

    def late(session: Session) -> Any:
        return refused("MQ006", begin, session, slow)

    answer_beside(connect, connection, lambda s: s.call(end, **token), late, True)
    assert row(connection, "select count(*) from pgq.effect where job_id = %s", [slow.job_id]) == (
        0,
    )


def test_nobody_claims_a_job_while_its_effect_is_being_begun(
    connect: Connect, connection: Session, queue: str, slow: Job, clock: Clock
) -> None:
    """Its lease may run out meanwhile; the next worker then sees what was begun."""
    session = connect()
    assert begin(session, slow).state == "begun"
    clock.advance("31 seconds")
    assert claim(connection, queue) == []
    session.commit()
    assert begin(connection, claim_one(connection, queue)).state == "interrupted"


@pytest.mark.parametrize("claim_commits", [True, False])
def test_a_late_begin_meets_the_next_claim(
    connect: Connect,
    connection: Session,
    queue: str,
    slow: Job,
    clock: Clock,
    claim_commits: bool,
) -> None:
    """The lease has run out, so it is lost, whatever becomes of that claim."""
    clock.advance("31 seconds")

    def late(session: Session) -> Any:
        return refused("MQ006", begin, session, slow)

    answer_beside(connect, connection, lambda s: claim_one(s, queue), late, claim_commits)


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize(("settle", "state"), [(finish, "finished"), (forget, "begun")])
def test_it_is_settled_while_the_next_worker_asks(
    connect: Connect,
    connection: Session,
    slow: Job,
    quick: Job,
    settle: Callable[[Session, Job], bool],
    state: str,
    commits: bool,
) -> None:
    answer = answer_beside(
        connect, connection, lambda s: settle(s, slow), lambda s: begin(s, quick), commits
    )
    assert answer.state == (state if commits else "interrupted")


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("settle", [finish, forget])
def test_the_first_worker_is_late(
    connect: Connect,
    connection: Session,
    slow: Job,
    quick: Job,
    settle: Callable[[Session, Job], bool],
    commits: bool,
) -> None:
    """What is begun again is another's to settle."""
    answer = answer_beside(
        connect,
        connection,
        lambda s: begin(s, quick, at_least_once=True),
        lambda s: settle(s, slow),
        commits,
    )
    assert answer is not commits
    if commits:
        assert noted(connection, slow.job_id) == {"mail": "begun"}


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("first", [finish, forget])
@pytest.mark.parametrize("second", [finish, forget])
def test_two_settle_it(
    connect: Connect,
    connection: Session,
    slow: Job,
    quick: Job,
    first: Callable[[Session, Job], bool],
    second: Callable[[Session, Job], bool],
    commits: bool,
) -> None:
    """The first one counts: what has happened is not forgotten, nor noted twice."""
    answer = answer_beside(
        connect, connection, lambda s: first(s, slow), lambda s: second(s, quick), commits
    )
    assert answer is not commits
    winner = first if commits else second
    expected = {"mail": "finished"} if winner is finish else {}
    assert noted(connection, slow.job_id) == expected


@contextmanager
def stopped(
    connection: Session, event: str, session: Session, work: Callable[[], Any]
) -> Iterator[Future[Any]]:
    """While in the block, a call stands between two of its statements about the effect."""
    gate = Gate(connection, "effect", event, "statement")
    try:
        with gate.stopping(session, work) as answer:
            yield answer
        answer.result(30)
    finally:
        gate.remove()


def test_it_is_finished_while_it_is_begun_again(
    connect: Connect, connection: Session, slow: Job, quick: Job
) -> None:
    """The first worker has said so in time, or too late: not both that and another run."""
    session, late = connect(autocommit=True), connect(autocommit=True)
    with stopped(
        connection, "before update", session, lambda: begin(session, quick, at_least_once=True)
    ) as begun:
        finished = started(connection, late, lambda: finish(late, slow))
    told = (begun.result(30).state, finished.result(30))
    assert told in [("begun", False), ("finished", True)]


def test_it_is_forgotten_while_it_is_begun(
    connect: Connect, connection: Session, slow: Job, quick: Job
) -> None:
    """Behind the look that found it interrupted."""
    session = connect(autocommit=True)
    with stopped(connection, "after insert", session, lambda: begin(session, quick)) as begun:
        assert forget(connection, slow) is True
    told = begun.result(30)
    assert (told.state, told.attempt) == ("begun", 2)
    assert noted(connection, slow.job_id) == {"mail": "begun"}


def tried(session: Session, work: Callable[[Session], Any]) -> Any:
    """The answer of a call that is committed, at whichever try."""
    while True:
        try:
            answer = work(session)
            session.commit()
        except psycopg.errors.SerializationFailure:
            session.rollback()
        else:
            return answer


@pytest.mark.parametrize("level", LEVELS)
def test_many_begin_it(connect: Connect, slow: Job, level: str) -> None:
    """One of them is told to run it."""
    sessions = [connect(isolation_level=level) for _ in range(6)]
    start = threading.Barrier(len(sessions))

    def work(session: Session) -> str:
        start.wait(30)
        return str(tried(session, lambda s: begin(s, slow)).state)

    with ThreadPoolExecutor(len(sessions)) as pool:
        told = list(pool.map(work, sessions))
    assert sorted(told) == ["begun", *["interrupted"] * 5]


@pytest.mark.parametrize("at_least_once", [False, True])
@pytest.mark.parametrize("level", LEVELS)
def test_many_workers(
    connect: Connect, connection: Session, level: str, at_least_once: bool
) -> None:
    """Some give up at any moment. Nothing is run twice, or all is run, as was asked for."""
    queue = new_queue(connection, no_limit=["max_attempts"], backoff="0")
    ids = enqueue_many(connection, queue, 30)
    run: list[int] = []
    done: dict[int, Any] = {}

    def outside(session: Session, job: Job, chance: random.Random) -> bool:
        """Whether the worker has come to the end."""
        begun = tried(session, lambda s: begin(s, job, at_least_once=at_least_once))
        result = begun.result
        if begun.state == "begun":
            if chance.random() < 0.2:
                return False
            run.append(job.job_id)
            result = job.attempt
            if chance.random() < 0.2:
                return False
            assert tried(session, lambda s: finish(s, job, result=result))
        elif begun.state == "interrupted":
            result = "interrupted"
        if chance.random() < 0.3:
            return False
        assert tried(session, lambda s: ack(s, job))
        done[job.job_id] = result
        return True

    def work(seed: int) -> None:
        chance = random.Random(seed)
        session = connect(isolation_level=level)
        while len(done) < len(ids):
            for job in tried(session, lambda s: claim(s, queue)):
                if not outside(session, job, chance):
                    token = {"job_id": job.job_id, "lease_token": job.lease_token}
                    assert tried(session, lambda s, t=token: s.nack(**t, delay="0"))  # type: ignore[misc]

    results(*(aside(lambda seed=seed: work(seed)) for seed in range(4)))  # type: ignore[misc]
    assert sorted(done) == ids
    if at_least_once:
        assert set(run) == set(ids)
        assert "interrupted" not in done.values()
    else:
        assert len(run) == len(set(run))
        assert {job for job in ids if done[job] != "interrupted"} <= set(run)
