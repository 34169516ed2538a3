"""Workers that live by finish_and_claim and are killed with -9: no job is lost, none done twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue_many, new_queue, stats
from support.session import Connect, Session, row
from support.waiting import wait_until

# Says how many jobs it has done, and waits to be killed where it is told to stop. The effect of a
# job is in the transaction that finishes it.
WORKER = """
import sys, time
import psycopg

dsn, queue, mode, stop = sys.argv[1:]

def step(name):
    print(name, flush=True)
    if name == stop:
        time.sleep(600)

connection = psycopg.connect(dsn, autocommit=mode == "autocommit")
connection.execute("set application_name = 'pgq_test_victim'")
job, token, done = None, None, 0
while True:
    if job is not None:
        connection.execute("insert into public.effect (job_id) values (%s)", [job])
        step(f"worked {done}")
    rows = connection.execute(
        "select job_id, lease_token from pgq.finish_and_claim("
        "queue => %s, job_ids => %s, lease_token => %s)",
        [queue, None if job is None else [job], token],
    ).fetchall()
    step(f"called {done}")
    connection.commit()
    done += 1
    step(f"committed {done}")
    if not rows:
        break
    [(job, token)] = rows
"""


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    connection = shared_connect(autocommit=True)
    connection.execute("drop table if exists public.effect")
    connection.execute("create table public.effect (job_id bigint)")
    return connection


@contextmanager
def victim(dsn: str, queue: str, mode: str, stop: str) -> Iterator[subprocess.Popen[str]]:
    """A worker that has reached the step; killed at the latest at the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, dsn, queue, mode, stop],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == stop:
                break
        else:
            raise AssertionError(f"the worker ended before the step {stop}")
        yield process
    finally:
        process.kill()
        process.wait()


def gone(connection: Session) -> bool:
    """Whether the server has noticed that the victims are dead."""
    return row(
        connection,
        "select count(*) from pg_stat_activity where application_name = 'pgq_test_victim'",
    ) == (0,)


def effects(connection: Session) -> list[int]:
    rows = connection.execute("select job_id from public.effect order by 1").fetchall()
    return [job_id for (job_id,) in rows]


def finished(connection: Session, queue: str) -> list[int]:
    rows = connection.execute(
        "select job_id from pgq.archived_jobs where queue = %s order by 1", [queue]
    ).fetchall()
    return [job_id for (job_id,) in rows]


@pytest.mark.parametrize("stop", ["committed 2", "worked 2"])
def test_between_two_calls(
    shared_dsn: str, connection: Session, shared_clock: Clock, stop: str
) -> None:
    """The jobs that were finished stay so; the one that it had comes back when its lease ends."""
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 3)
    with victim(shared_dsn, queue, "autocommit", stop) as process:
        process.kill()
    wait_until(lambda: gone(connection))
    assert finished(connection, queue) == ids[:1]
    assert stats(connection, queue) == {"leased": 1, "ready": 1}
    assert [job.job_id for job in claim(connection, queue, 10)] == ids[2:]
    shared_clock.advance("31 seconds")
    back = [job for job in claim(connection, queue, 10) if job.job_id == ids[1]]
    assert [job.attempt for job in back] == [2]
    assert connection.ack(job_id=ids[1], lease_token=back[0].lease_token)


@pytest.mark.parametrize("stop", ["worked 1", "called 1"])
def test_before_the_commit(
    shared_dsn: str, connection: Session, shared_clock: Clock, stop: str
) -> None:
    """Both halves are undone: the next job is free at once, the last one is still leased."""
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 2)
    with victim(shared_dsn, queue, "transaction", stop) as process:
        process.kill()
    wait_until(lambda: gone(connection))
    assert effects(connection) == []
    assert finished(connection, queue) == []
    assert stats(connection, queue) == {"leased": 1, "ready": 1}
    free = claim_one(connection, queue)
    assert (free.job_id, free.attempt) == (ids[1], 1)
    shared_clock.advance("31 seconds")
    back = {job.job_id: job.attempt for job in claim(connection, queue, 10)}
    assert back == {ids[0]: 2, ids[1]: 2}


def test_some_of_many(shared_dsn: str, connection: Session, shared_clock: Clock) -> None:
    """Workers in transactions, half of them killed at any moment: each effect exactly once."""
    queue = new_queue(connection, no_limit=["max_attempts"])
    ids = enqueue_many(connection, queue, 300)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, shared_dsn, queue, "transaction", "never"],
            stdout=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    try:
        for number, worker in enumerate(workers[:2], start=1):
            wait_until(
                lambda n=number: len(effects(connection)) > n * 50 or workers[3].poll() is not None,  # type: ignore[misc]
                60,
            )
            worker.kill()
        assert [worker.wait(60) for worker in workers] == [-9, -9, 0, 0]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    wait_until(lambda: gone(connection))
    # those that the dead ones had leased, or held when the others looked last
    shared_clock.advance("31 seconds")
    subprocess.run(
        [sys.executable, "-c", WORKER, shared_dsn, queue, "transaction", "never"],
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=60,
    )
    assert effects(connection) == ids
    assert finished(connection, queue) == ids
    assert stats(connection, queue) == {}
