"""Above READ COMMITTED a transaction sees what was there when it began, and others have gone on.

Whatever it asks for, the answer is right or it is 40001, and then it tries again. What must not be:
a job refused to its own worker, given out twice, left where nobody finds it, or half changed.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from support.clock import Clock
from support.queue import Job, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, refused, row
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session, second_answer_of

# a claim raises the floor at most this often
PAUSE = 0.03
ORPHANS = "select count(*) from pgq.job where queue_id not in (select queue_id from pgq.queue)"
ENDS = ["ack", "nack", "archive_job", "extend_lease"]


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


@pytest.fixture
def clock(shared_clock: Clock) -> Clock:
    """The clock of that database; it is set right again at the end of the test."""
    return shared_clock


def _end(session: Session, end: str, job: Job, batch: bool) -> Any:
    """Whether the job was the caller's."""
    token = {"lease_token": job.lease_token}
    if batch:
        return session.call(f"{end}_batch", job_ids=[job.job_id], **token) == [(job.job_id,)]
    return session.call(end, job_id=job.job_id, **token)


def _ended_once(
    session: Session, connection: Session, queue: str, end: str, job: Job, batch: bool
) -> None:
    """The worker gets a yes, at the second try at the latest, and the job is where it belongs."""

    def nothing_has_happened() -> None:
        assert stats(connection, queue) == {"leased": 1}

    answer = second_answer_of(session, lambda: _end(session, end, job, batch), nothing_has_happened)
    assert answer is True
    expected = {"nack": {"delayed": 1}, "extend_lease": {"leased": 1}}.get(end, {})
    assert stats(connection, queue) == expected
    assert answer_of(session, lambda: _end(session, "ack", job, batch)) is (end == "extend_lease")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
@pytest.mark.parametrize("end", ENDS)
def test_a_job_claimed_since(
    connect: Connect, connection: Session, end: str, batch: bool, level: str
) -> None:
    """It waited when the snapshot was taken, and is the caller's now."""
    queue = new_queue(connection)
    enqueue(connection, queue)
    session = old_session(connect, level)
    job = claim_one(connection, queue)
    _ended_once(session, connection, queue, end, job, batch)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
@pytest.mark.parametrize("end", ENDS)
def test_a_job_enqueued_and_claimed_since(
    connect: Connect, connection: Session, end: str, batch: bool, level: str
) -> None:
    """The snapshot does not know of it at all."""
    queue = new_queue(connection)
    session = old_session(connect, level)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    _ended_once(session, connection, queue, end, job, batch)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
@pytest.mark.parametrize("end", ENDS)
def test_a_job_claimed_again_since(
    connect: Connect, connection: Session, clock: Clock, end: str, batch: bool, level: str
) -> None:
    """It is the new worker's, and not the old one's, whatever the snapshot shows."""
    queue = new_queue(connection)
    enqueue(connection, queue)
    slow = claim_one(connection, queue)
    clock.advance("31 seconds")
    late, session = old_session(connect, level), old_session(connect, level)
    quick = claim_one(connection, queue)
    assert answer_of(late, lambda: _end(late, end, slow, batch)) in (False, TRY_AGAIN)
    assert stats(connection, queue) == {"leased": 1}
    assert answer_of(late, lambda: _end(late, end, slow, batch)) is False
    _ended_once(session, connection, queue, end, quick, batch)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("end", ENDS)
def test_a_batch_of_which_one_was_finished_since(
    connect: Connect, connection: Session, end: str, level: str
) -> None:
    """All that are left are ended, or none: not those alone that the snapshot knows."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 2)
    session = old_session(connect, level)
    enqueue_many(connection, queue, 2)
    jobs = claim(connection, queue, 4)
    ids, token = [job.job_id for job in jobs], {"lease_token": jobs[0].lease_token}
    assert connection.ack(job_id=ids[0], **token)

    def work() -> list[int]:
        return sorted(n for (n,) in session.call(f"{end}_batch", job_ids=ids, **token))

    def nothing_has_happened() -> None:
        assert stats(connection, queue) == {"leased": 3}

    assert second_answer_of(session, work, nothing_has_happened) == ids[1:]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("recreate", [False, True])
@pytest.mark.parametrize("function", ["enqueue", "enqueue_batch"])
def test_a_job_for_a_queue_that_was_dropped_since(
    connect: Connect, connection: Session, function: str, recreate: bool, level: str
) -> None:
    """It goes into no queue that is not there; one of that name may be there again."""
    queue = new_queue(connection)
    before = row(connection, ORPHANS)
    session = old_session(connect, level)
    connection.drop_queue(queue=queue)
    if recreate:
        connection.create_queue(queue=queue)
    content: dict[str, Any] = {"body": b"1"} if function == "enqueue" else {"bodies": [b"1"]}
    added = answer_of(session, lambda: session.call(function, queue=queue, **content), "MQ002")
    if not recreate:
        assert added == TRY_AGAIN
        connection.create_queue(queue=queue)
    # what was said to be there is there
    kept = [] if added == TRY_AGAIN else [added] if function == "enqueue" else added
    found = claim(connection, queue, 10)
    assert [job.job_id for job in found] == [job.job_id for job in kept]
    assert row(connection, ORPHANS) == before


@pytest.mark.parametrize("level", LEVELS)
def test_a_job_enqueued_by_an_old_snapshot(
    connect: Connect, connection: Session, level: str
) -> None:
    """The floor of the queue has passed the snapshot, but not the job."""
    queue = new_queue(connection)
    session = old_session(connect, level)
    for _ in range(5):
        for job in [claim_one(connection, queue) for _ in enqueue_many(connection, queue, 3)]:
            assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)
        time.sleep(PAUSE)
    answer = answer_of(session, lambda: enqueue(session, queue, "old"))
    if answer != TRY_AGAIN:
        assert [job.job_id for job in claim(connection, queue, 10)] == [answer]


def _change(connection: Session, queue: str, change: str) -> None:
    """What becomes of the first of the jobs."""
    if change == "purge":
        connection.purge_queue(queue=queue, all_jobs=True)
        return
    job = claim_one(connection, queue)
    arguments = {"job_id": job.job_id, "lease_token": job.lease_token}
    if change == "nack":
        connection.nack(**arguments, delay="0")
    elif change != "claim":
        connection.call(change, **arguments)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("max_jobs", [1, 5])
@pytest.mark.parametrize("change", ["claim", "ack", "nack", "archive_job", "purge"])
def test_a_claim_with_an_old_snapshot(
    connect: Connect, connection: Session, change: str, max_jobs: int, level: str
) -> None:
    """It gets what is free, if it gets anything, and each job is done once in the end."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 3)
    session = old_session(connect, level)
    _change(connection, queue, change)
    left = stats(connection, queue)

    def nothing_has_happened() -> None:
        assert stats(connection, queue) == left

    answer = second_answer_of(
        session, lambda: claim(session, queue, max_jobs), nothing_has_happened
    )
    ready = left.get("ready", 0)
    assert len(answer) == min(max_jobs, ready)
    assert stats(connection, queue).get("leased", 0) == left.get("leased", 0) + len(answer)
    for job in answer:
        assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)


@pytest.mark.parametrize("level", LEVELS)
def test_jobs_that_came_since(connect: Connect, connection: Session, level: str) -> None:
    """None is overlooked: what is for all jobs of a queue needs READ COMMITTED."""
    queue = new_queue(connection, max_attempts=1)
    session = old_session(connect, level)
    dead, _ = enqueue_many(connection, queue, 2)
    job = claim_one(connection, queue)
    assert connection.nack(job_id=dead, lease_token=job.lease_token)
    for function, arguments in (
        ("redrive", {"all_jobs": True}),
        ("redrive", {"job_id": dead}),
        ("purge_queue", {"all_jobs": True}),
        ("purge_queue", {"dead_only": True}),
    ):
        refused("25001", session.call, function, queue=queue, **arguments)
        session.rollback()
        session.execute("select")
    assert stats(connection, queue) == {"ready": 1, "dead": 1}


@pytest.mark.parametrize("level", LEVELS)
def test_workers_whose_snapshots_are_older_than_their_claims(
    connect: Connect, connection: Session, level: str
) -> None:
    """Each claims on one connection and acks on another one; every ack is a yes in the end."""
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 120)
    done: list[int] = []

    def work(place: int) -> None:
        claiming, acking = connect(autocommit=True), connect(isolation_level=level)
        while True:
            acking.execute("select count(*) from pgq.queue")
            jobs = claim(claiming, queue, place)
            if not jobs:
                return
            for job in jobs:
                answer = TRY_AGAIN
                while answer == TRY_AGAIN:
                    answer = answer_of(acking, lambda job=job: _end(acking, "ack", job, False))  # type: ignore[misc]
                assert answer is True
                assert job.attempt == 1
                done.append(job.job_id)

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, place) for place in (1, 1, 2, 3)]:
            future.result()
    assert sorted(done) == ids
    assert stats(connection, queue) == {}
