"""Eight workers on many ordered keys, which fail, give back, lose leases and are killed with -9."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from support.ordered import add, broken, held, ordered_queue
from support.queue import ack, claim, claim_one
from support.session import Connect, Session, row
from support.waiting import aside, blocked, results, wait_until

KEYS = [f"key {n}" for n in range(12)]
ADDED = 40
WORKERS = 8

# Notes each job that it has done in the transaction of the ack; does all that workers may do.
WORKER = """
import random, sys, time
import psycopg

dsn, queue, seed = sys.argv[1:]
rng = random.Random(seed)
connection = psycopg.connect(dsn, autocommit=True)
connection.execute("set application_name = 'pgq_test_victim'")
print("ready", flush=True)
while True:
    rows = connection.execute(
        "select job_id, lease_token, key from pgq.claim_job(%s, %s, '0.3 seconds')",
        [queue, rng.choice([1, 1, 3])],
    ).fetchall()
    if not rows:
        time.sleep(0.02)
    for job_id, token, key in rows:
        what = rng.random()
        held = [job_id, token]
        if what < 0.1:
            connection.execute("select pgq.nack(%s, %s)", held)
        elif what < 0.2:
            connection.execute("select pgq.release_job(%s, %s)", held)
        elif what < 0.23:
            time.sleep(0.4)
        else:
            level = rng.choice(["read committed", "read committed", "serializable"])
            try:
                with connection.transaction():
                    connection.execute("set transaction isolation level " + level)
                    [(done,)] = connection.execute("select pgq.ack(%s, %s)", held).fetchall()
                    if done:
                        connection.execute(
                            "insert into public.done (key, job_id) values (%s, %s)", [key, job_id]
                        )
            except psycopg.errors.SerializationFailure:
                pass
"""


@contextmanager
def worker(dsn: str, queue: str, seed: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, dsn, queue, str(seed)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def producer(connect: Connect, queue: str, seed: int) -> None:
    """Enqueue jobs, several in a transaction and some of them rolled back, and note the ids."""
    rng = random.Random(seed)
    session = connect()
    for _ in range(ADDED):
        try:
            keys = rng.sample(KEYS, rng.choice([1, 1, 2, 4]))
            made = session.enqueue_batch(queue=queue, payloads=[1] * len(keys), keys=keys)
            for key, (number, _) in zip(keys, made, strict=True):
                session.execute("insert into public.added values (%s, %s)", [key, number])
            time.sleep(rng.random() * 0.02)
        except psycopg.errors.DeadlockDetected:
            session.rollback()
        if rng.random() < 0.1:
            session.rollback()
        else:
            session.commit()


@pytest.fixture
def ledger(connection: Session) -> Session:
    connection.execute(
        "create table public.added (key text, job_id bigint);"
        "create table public.done ("
        " place bigint generated always as identity, key text, job_id bigint)"
    )
    return connection


@pytest.mark.slow
def test_order_survives_everything(dsn: str, connect: Connect, ledger: Session) -> None:
    """Of each key all that was committed is done once, in the order of the commits."""
    queue = ordered_queue(ledger, no_limit=["max_attempts"])
    seeds = iter(range(1000))
    writers = [aside(lambda s=s: producer(connect, queue, s)) for s in range(3)]
    for _ in range(3):
        _crowd(dsn, queue, seeds, 1.5)
    results(*writers)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and _left(ledger, queue):
        _crowd(dsn, queue, seeds, 2)
    ledger.cleanup()
    assert _left(ledger, queue) == 0
    assert broken(ledger) == []
    assert ledger.execute("select count(*) from pgq.ordered_key").fetchall() == [(0,)]
    [wanted, missing] = row(
        ledger,
        "select count(*), count(*) filter (where d.job_id is null)"
        " from public.added as a left join public.done as d using (job_id)",
    )
    assert (wanted > 3 * ADDED / 2, missing) == (True, 0)
    wrong = ledger.execute(
        "select * from (select key, job_id, lag(job_id) over (partition by key order by place)"
        " as before from public.done) as d where d.before >= d.job_id"
    ).fetchall()
    assert wrong == []


def _crowd(dsn: str, queue: str, seeds: Iterator[int], seconds: float) -> None:
    """Eight workers, all of which are killed."""
    workers: list[Any] = [worker(dsn, queue, next(seeds)) for _ in range(WORKERS)]
    for each in workers:
        each.__enter__()
    time.sleep(seconds)
    for each in workers:
        each.__exit__(None, None, None)


def _left(connection: Session, queue: str) -> int:
    [count] = row(
        connection,
        "select count(*) from pgq.job as j inner join pgq.queue as q using (queue_id)"
        " where q.queue = %s",
        [queue],
    )
    assert isinstance(count, int)
    return count


# ---------------------------------------------------------------------------- one at a time

CLIENT = """
import sys, time
import psycopg

dsn, mode, statement = sys.argv[1:]
connection = psycopg.connect(dsn, autocommit=mode == "committed")
connection.execute(statement)
print("done", flush=True)
time.sleep(600)
"""


@contextmanager
def victim(dsn: str, mode: str, statement: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, dsn, mode, statement], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("mode", ["open", "committed"])
def test_a_worker_that_acks(dsn: str, connection: Session, mode: str) -> None:
    """The next has come up together with the end of the first, or neither has happened."""
    queue = ordered_queue(connection)
    first, second = add(connection, queue), add(connection, queue)
    job = claim_one(connection, queue)
    with victim(dsn, mode, f"select pgq.ack({first}, '{job.lease_token}')") as process:
        process.kill()
        assert ack(connection, job) is (mode == "open")
    assert claim_one(connection, queue).job_id == second
    assert broken(connection) == []


@pytest.mark.parametrize("mode", ["open", "committed"])
def test_a_producer(dsn: str, connect: Connect, connection: Session, mode: str) -> None:
    """Who waits for its key goes on when it is dead."""
    queue = ordered_queue(connection)
    first = add(connection, queue)
    other = connect(autocommit=True)
    with victim(dsn, mode, f"select pgq.enqueue('{queue}', '1', 'k')") as process:
        if mode == "open":
            answer = blocked(connection, other, lambda: add(other, queue))
            process.kill()
            number = answer.result(30)
        else:
            process.kill()
            number = add(other, queue)
    found = []
    while jobs := claim(connection, queue, 9):
        found += [job.job_id for job in jobs]
        assert ack(connection, jobs[0])
    assert (found[0], found[-1], len(found)) == (first, number, 2 + (mode == "committed"))


def test_a_producer_beside_the_end_of_the_first(dsn: str, connection: Session) -> None:
    """The key is noted; when the producer is dead the key is free."""
    queue = ordered_queue(connection)
    add(connection, queue)
    job = claim_one(connection, queue)
    with victim(dsn, "open", f"select pgq.enqueue('{queue}', '1', 'k')") as process:
        assert connection.archive_job(**held(job)) is True
        process.kill()
        number = add(connection, queue)
    wait_until(lambda: [j.job_id for j in claim(connection, queue)] == [number])
    assert broken(connection) == []
