"""finish_and_claim beside others: each job once, and a worker learns what it has lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.gate import Gate
from support.queue import Job, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, row
from support.snapshots import LEVELS, old_session, second_answer_of
from support.waiting import aside, results, settled, wait_until_blocked

LOST = "lost"


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


@pytest.fixture
def clock(shared_clock: Clock) -> Clock:
    """The clock of that database; it is set right again at the end of the test."""
    return shared_clock


@pytest.fixture
def gate(connection: Session) -> Iterator[Gate]:
    """A gate that is taken away again: the database is shared."""
    gate = Gate(connection)
    yield gate
    gate.remove()


def go_on(session: Session, queue: str, jobs: list[Job], max_jobs: int = 1) -> list[int]:
    """Finish jobs and claim the next ones; their ids."""
    options: dict[str, Any] = {"queue": queue, "max_jobs": max_jobs}
    if jobs:
        options["job_ids"] = [job.job_id for job in jobs]
        options["lease_token"] = jobs[0].lease_token
    return [found[0] for found in session.finish_and_claim(**options)]


def go_on_or_lose(session: Session, queue: str, jobs: list[Job]) -> Any:
    """The same; LOST where a job was not the caller's any more."""
    try:
        return go_on(session, queue, jobs)
    except psycopg.Error as error:
        if error.sqlstate != "MQ006":
            raise
        return LOST


@pytest.mark.parametrize(("workers", "max_jobs"), [(8, 1), (4, 7)])
def test_each_job_is_done_once(
    connect: Connect, connection: Session, workers: int, max_jobs: int
) -> None:
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 200, priority=1)
    ids += enqueue_many(connection, queue, 200, priority=0)
    done: list[int] = []
    start = threading.Barrier(workers)
    sessions = [connect(autocommit=True) for _ in range(workers)]

    def work(session: Session) -> None:
        start.wait(30)
        rows: list[tuple[Any, ...]] = []
        while True:
            options: dict[str, Any] = {"queue": queue, "max_jobs": max_jobs}
            if rows:
                options |= {"job_ids": [r[0] for r in rows], "lease_token": rows[0][1]}
            done.extend(r[0] for r in rows)
            rows = session.finish_and_claim(**options)
            assert len(rows) <= max_jobs
            if not rows:
                return

    with ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(work, session) for session in sessions]:
            future.result()
    assert sorted(done) == sorted(ids)
    assert stats(connection, queue) == {}
    assert row(connection, "select count(*) from pgq.archived_jobs where queue = %s", [queue]) == (
        400,
    )


@pytest.mark.parametrize("first_commits", [True, False])
@pytest.mark.parametrize("end", ["ack", "nack", "archive_job"])
def test_a_job_that_is_being_ended(
    connect: Connect, connection: Session, end: str, first_commits: bool
) -> None:
    """It waits for the other end; if that one wins, neither half has happened."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 2)
    job = claim_one(connection, queue)
    one, other = connect(), connect(autocommit=True)
    assert one.call(end, job_id=job.job_id, lease_token=job.lease_token)
    answer = aside(lambda: go_on_or_lose(other, queue, [job]))
    wait_until_blocked(connection, other.pid)
    one.commit() if first_commits else one.rollback()
    if first_commits:
        assert answer.result(30) == LOST
        expected = {"nack": {"ready": 1, "delayed": 1}}.get(end, {"ready": 1})
        assert stats(connection, queue) == expected
    else:
        assert len(answer.result(30)) == 1
        assert stats(connection, queue) == {"leased": 1}


@pytest.mark.parametrize("claim_commits", [True, False])
def test_a_late_worker_meets_the_next_claim(
    connect: Connect, connection: Session, clock: Clock, claim_commits: bool
) -> None:
    """Only if that claim is rolled back is the job still the first worker's."""
    queue = new_queue(connection)
    job_id = enqueue(connection, queue)
    slow = claim_one(connection, queue)
    clock.advance("31 seconds")
    claimer, late = connect(), connect(autocommit=True)
    assert claim_one(claimer, queue).job_id == job_id
    enqueue(connection, queue, "next")
    answer = aside(lambda: go_on_or_lose(late, queue, [slow]))
    wait_until_blocked(connection, late.pid)
    claimer.commit() if claim_commits else claimer.rollback()
    if claim_commits:
        assert answer.result(30) == LOST
        assert stats(connection, queue) == {"leased": 1, "ready": 1}
    else:
        assert len(answer.result(30)) == 1
        assert stats(connection, queue) == {"leased": 1}


def test_two_calls_with_the_same_jobs(connect: Connect, connection: Session) -> None:
    """A worker that sends its call again, on another connection, gets no second batch by it."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 5)
    jobs = claim(connection, queue, 2)
    one, other = connect(), connect(autocommit=True)
    assert len(go_on(one, queue, jobs)) == 1
    again = aside(lambda: go_on_or_lose(other, queue, jobs[::-1]))
    wait_until_blocked(connection, other.pid)
    one.commit()
    assert again.result(30) == LOST
    assert stats(connection, queue) == {"leased": 1, "ready": 2}


def test_open_calls_do_not_wait_for_each_other(connect: Connect, connection: Session) -> None:
    """Workers with long transactions claim past what the others hold."""
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 6)
    sessions = [connect() for _ in range(3)]
    jobs = [claim(connection, queue, 1) for _ in sessions]
    for session in sessions:
        session.execute("set lock_timeout = '1s'")
    found = [go_on(session, queue, mine) for session, mine in zip(sessions, jobs, strict=True)]
    assert found == [[job_id] for job_id in ids[3:]]
    sessions[1].rollback()
    assert [job.job_id for job in claim(connection, queue, 10)] == [ids[4]]
    assert connection.ack(job_id=ids[1], lease_token=jobs[1][0].lease_token)


@pytest.mark.parametrize("level", LEVELS)
def test_a_job_claimed_since_the_snapshot(
    connect: Connect, connection: Session, level: str
) -> None:
    """It is not called lost because an old snapshot does not know of it."""
    queue = new_queue(connection)
    enqueue(connection, queue)
    session = old_session(connect, level)
    new_ids = enqueue_many(connection, queue, 2)
    jobs = claim(connection, queue, 2)

    def nothing_has_happened() -> None:
        assert stats(connection, queue) == {"leased": 2, "ready": 1}

    answer = second_answer_of(
        session, lambda: go_on_or_lose(session, queue, jobs), nothing_has_happened
    )
    assert answer == [new_ids[1]]
    assert stats(connection, queue) == {"leased": 1}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("change", ["finished", "next claimed", "nothing"])
def test_with_an_old_snapshot(
    connect: Connect, connection: Session, change: str, level: str
) -> None:
    """Right, or told to try again: both halves, or neither."""
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 3)
    jobs = claim(connection, queue, 1)
    session = old_session(connect, level)
    if change == "finished":
        assert connection.ack(job_id=ids[0], lease_token=jobs[0].lease_token)
    elif change == "next claimed":
        assert claim_one(connection, queue).job_id == ids[1]
    before = stats(connection, queue)

    def nothing_has_happened() -> None:
        assert stats(connection, queue) == before

    answer = second_answer_of(
        session, lambda: go_on_or_lose(session, queue, jobs), nothing_has_happened
    )
    expected: dict[str, Any] = {"finished": LOST, "next claimed": [ids[2]], "nothing": [ids[1]]}
    assert answer == expected[change]
    if change == "finished":
        assert stats(connection, queue) == before


ORDERS: dict[str, Callable[[list[Job]], list[Job]]] = {
    "as claimed": lambda jobs: jobs,
    "the other way round": lambda jobs: jobs[::-1],
}


@pytest.mark.parametrize("order", ORDERS)
def test_beside_a_purge(connect: Connect, connection: Session, gate: Gate, order: str) -> None:
    """No deadlock, whatever the order of the jobs; what is purged is lost or was finished."""
    queue = new_queue(connection)
    for priority in (9, 5, 0):
        enqueue(connection, queue, priority=priority)
    jobs = ORDERS[order](claim(connection, queue, 3))
    worker, purger = connect(autocommit=True), connect(autocommit=True)
    with gate.stopping(worker, lambda: go_on_or_lose(worker, queue, jobs)) as answer:
        purged = aside(lambda: purger.purge_queue(queue=queue, all_jobs=True).taken)
        settled(connection, purger, purged)
    assert results(answer, purged) in ([[], 0], [LOST, 3])
    assert stats(connection, queue) == {}
