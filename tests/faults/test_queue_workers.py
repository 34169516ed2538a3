"""Workers that are killed with -9: their jobs come back, and nothing is done twice or lost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, row
from support.waiting import wait_until

# Says which step it has done, and waits to be killed where it is told to stop.
WORKER = """
import sys, time
import psycopg

dsn, queue, autocommit, stop = sys.argv[1:]

def step(name):
    print(name, flush=True)
    if name == stop:
        time.sleep(600)

connection = psycopg.connect(dsn, autocommit=autocommit == "autocommit")
connection.execute("set application_name = 'pgq_test_victim'")
step("connected")
while True:
    rows = connection.execute(
        "select job_id, lease_token, payload from pgq.claim_job(%s)", [queue]
    ).fetchall()
    if not rows:
        break
    [(job_id, token, payload)] = rows
    step("claimed")
    connection.execute("insert into public.effect (job_id) values (%s)", [job_id])
    step("worked")
    connection.execute("select pgq.ack(%s, %s)", [job_id, token])
    step("acked")
    connection.commit()
    step("committed")
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


@pytest.mark.parametrize("step", ["claimed", "worked"])
def test_in_mid_job(shared_dsn: str, connection: Session, shared_clock: Clock, step: str) -> None:
    """When the lease ends the job goes to another worker, as the next attempt."""
    queue = new_queue(connection)
    job_id = enqueue(connection, queue, "x")
    with victim(shared_dsn, queue, "autocommit", step) as process:
        process.kill()
    assert stats(connection, queue) == {"leased": 1}
    assert claim(connection, queue) == []
    shared_clock.advance("31 seconds")
    job = claim_one(connection, queue)
    assert (job.job_id, job.attempt, job.payload) == (job_id, 2, "x")
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)


@pytest.mark.parametrize("step", ["claimed", "worked", "acked"])
def test_in_mid_transaction(shared_dsn: str, connection: Session, step: str) -> None:
    """The job is free at once, as if nobody had had it, and its effect is undone."""
    queue = new_queue(connection)
    job_id = enqueue(connection, queue)
    with victim(shared_dsn, queue, "transaction", step) as process:
        assert claim(connection, queue) == []
        process.kill()
        begun = time.monotonic()
        [job] = wait_until(lambda: claim(connection, queue))
        # long before any lease would end
        assert time.monotonic() - begun < 10
    assert (job.job_id, job.attempt) == (job_id, 1)
    assert row(connection, "select count(*) from public.effect") == (0,)


@pytest.mark.parametrize("mode", ["autocommit", "transaction"])
def test_after_the_end(shared_dsn: str, connection: Session, mode: str) -> None:
    """What was acked stays so."""
    queue = new_queue(connection)
    enqueue(connection, queue)
    with victim(shared_dsn, queue, mode, "committed") as process:
        process.kill()
    wait_until(lambda: gone(connection))
    assert stats(connection, queue) == {}
    assert row(connection, "select count(*) from public.effect") == (1,)


def test_a_job_that_kills_its_workers(
    shared_dsn: str, connection: Session, shared_clock: Clock
) -> None:
    """It ends in the dead letters: crashes count as attempts."""
    queue = new_queue(connection, max_attempts=2)
    enqueue(connection, queue)
    for _ in range(2):
        with victim(shared_dsn, queue, "autocommit", "claimed") as process:
            process.kill()
        shared_clock.advance("31 seconds")
    assert claim(connection, queue) == []
    assert stats(connection, queue) == {"dead": 1}


def test_some_of_many(shared_dsn: str, connection: Session) -> None:
    """Workers in transactions, some of them killed at any moment: each effect exactly once."""
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 400)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, shared_dsn, queue, "transaction", "never"],
            stdout=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    effects = "select count(*) from public.effect"
    try:
        for number, worker in enumerate(workers[:2], start=1):
            wait_until(lambda n=number: row(connection, effects) > (n * 50,))  # type: ignore[misc]
            worker.kill()
        assert [worker.wait(60) for worker in workers] == [-9, -9, 0, 0]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    wait_until(lambda: gone(connection))
    # those that the dead ones held when the others looked last
    for job in claim(connection, queue, 10):
        connection.execute("insert into public.effect (job_id) values (%s)", [job.job_id])
        assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    done = connection.execute("select job_id from public.effect order by job_id").fetchall()
    assert [job_id for (job_id,) in done] == ids
    assert stats(connection, queue) == {}
