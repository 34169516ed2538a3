"""Many workers on one queue: every job is done, and by one worker at a time."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.queue import Job, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, row

Connections = Callable[[], Session]


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


def at_once(connect: Connect, number: int, work: Callable[[Session, int], None]) -> None:
    """Run ``work`` in threads, each with a connection of its own, and raise what they raise."""
    connections = [connect(autocommit=True) for _ in range(number)]
    start = threading.Barrier(number)

    def run(place: int) -> None:
        start.wait(30)
        work(connections[place], place)

    with ThreadPoolExecutor(number) as pool:
        for future in [pool.submit(run, place) for place in range(number)]:
            future.result()


@pytest.mark.parametrize(("workers", "max_jobs"), [(12, 1), (6, 7)])
def test_each_job_is_done_once(
    shared_connect: Connect, connection: Session, workers: int, max_jobs: int
) -> None:
    """None is lost, none is given to two, and no claim gets more than it asked for."""
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 150, priority=1)
    ids += enqueue_many(connection, queue, 150, priority=0)
    done: list[tuple[int, int]] = []

    def work(session: Session, place: int) -> None:
        while jobs := claim(session, queue, max_jobs):
            assert len(jobs) <= max_jobs
            done.extend((job.job_id, job.attempt) for job in jobs)
            for job in jobs:
                assert session.ack(job_id=job.job_id, lease_token=job.lease_token)

    at_once(shared_connect, workers, work)
    assert sorted(done) == [(job_id, 1) for job_id in sorted(ids)]
    assert stats(connection, queue) == {}
    assert row(connection, "select count(*) from pgq.archived_jobs where queue = %s", [queue]) == (
        300,
    )


def test_producers_and_workers_together(shared_connect: Connect, connection: Session) -> None:
    """Some attempts fail: the job comes back with the next number, and is done in the end."""
    queue = new_queue(connection, no_limit=["max_attempts"])
    producers, each = 3, 60
    made: list[int] = []
    attempts: list[tuple[int, int]] = []
    done: list[int] = []
    producing = threading.Semaphore(0)

    def work(session: Session, place: int) -> None:
        chance = random.Random(place)
        if place < producers:
            for n in range(each):
                made.append(enqueue(session, queue, n, priority=n % 3, label=f"l{n % 2}"))
            producing.release()
            return
        while True:
            last = len(done) == producers * each
            label = chance.choice([None, "l0", "l1"])
            jobs = claim(session, queue, chance.randint(1, 5), label=label)
            if not jobs and last:
                return
            for job in jobs:
                assert label in (None, job.label)
                attempts.append((job.job_id, job.attempt))
                options = {"job_id": job.job_id, "lease_token": job.lease_token}
                if chance.random() < 0.2:
                    assert session.nack(**options, delay="0")
                else:
                    assert session.ack(**options)
                    done.append(job.job_id)

    at_once(shared_connect, producers + 5, work)
    assert sorted(done) == sorted(made)
    # an attempt number is given out once
    assert max(Counter(attempts).values()) == 1
    assert stats(connection, queue) == {}


def test_batches_acked_by_batches(shared_connect: Connect, connection: Session) -> None:
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 2000)
    done: list[int] = []

    def work(session: Session, place: int) -> None:
        while jobs := claim(session, queue, 100):
            numbers = [job.job_id for job in jobs]
            acked = session.ack_batch(job_ids=numbers, lease_token=jobs[0].lease_token)
            assert sorted(job_id for (job_id,) in acked) == sorted(numbers)
            done.extend(numbers)

    at_once(shared_connect, 4, work)
    assert sorted(done) == ids


def test_open_claims_do_not_wait_for_each_other(
    shared_connect: Connect, connection: Session
) -> None:
    """They skip what others hold, and never get more than asked."""
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 5)
    sessions = [shared_connect() for _ in range(3)]
    for session in sessions:
        session.execute("set lock_timeout = '1s'")
    found = [claim(session, queue, 2) for session in sessions]
    assert [[job.job_id for job in jobs] for jobs in found] == [ids[:2], ids[2:4], ids[4:]]
    assert claim(connection, queue, 10) == []
    # a rollback frees its jobs at once, and is no attempt
    sessions[1].rollback()
    assert [(job.job_id, job.attempt) for job in claim(connection, queue, 10)] == [
        (ids[2], 1),
        (ids[3], 1),
    ]


def test_a_disconnect_frees_jobs_at_once(shared_connect: Connect, connection: Session) -> None:
    queue = new_queue(connection)
    job_id = enqueue(connection, queue)
    session = shared_connect()
    assert claim_one(session, queue).job_id == job_id
    session.close()
    found: list[Job] = []
    while not found:
        found = claim(connection, queue)
    assert found[0].attempt == 1


def test_open_enqueues_neither_block_nor_show(shared_connect: Connect, connection: Session) -> None:
    """Jobs come when they are committed, in whatever order that is."""
    queue = new_queue(connection)
    connection.execute("set lock_timeout = '1s'")
    slow, quick = shared_connect(), shared_connect()
    enqueue(slow, queue, "slow")
    enqueue(quick, queue, "quick")
    quick.commit()
    enqueue(connection, queue, "now")
    assert [job.payload for job in claim(connection, queue, 10)] == ["quick", "now"]
    slow.commit()
    assert [job.payload for job in claim(connection, queue, 10)] == ["slow"]
