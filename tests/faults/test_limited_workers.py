"""Workers of limited queues that are killed with -9: no limit is broken, and none stays used up."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.clock import Clock
from support.queue import ack, claim, claim_one, enqueue_many, new_queue
from support.session import Connect, Session, refused, row
from support.waiting import blocked, results, wait_until

# Runs a statement, says so, and waits to be killed.
CLIENT = """
import sys, time
import psycopg

dsn, mode, statement = sys.argv[1:]
connection = psycopg.connect(dsn, autocommit=mode == "committed")
connection.execute("set application_name = 'pgq_test_victim'")
connection.execute(statement)
print("done", flush=True)
time.sleep(600)
"""

MODE = pytest.mark.parametrize("mode", ["open", "committed"])


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


@contextmanager
def victim(dsn: str, mode: str, statement: str) -> Iterator[subprocess.Popen[str]]:
    """A client that has run the statement, and has committed it or not; it can be killed."""
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


def gone(connection: Session) -> bool:
    """Whether the server has noticed that the victims are dead."""
    return row(
        connection,
        "select count(*) from pg_stat_activity where application_name = 'pgq_test_victim'",
    ) == (0,)


@MODE
def test_a_claim_up_to_max_leased(
    shared_dsn: str, shared_connect: Connect, connection: Session, shared_clock: Clock, mode: str
) -> None:
    """An open one makes room at once; a committed one when its leases end."""
    queue = new_queue(connection, max_leased=3)
    ids = enqueue_many(connection, queue, 6)
    other = shared_connect(autocommit=True)
    statement = f"select pgq.claim_job('{queue}', 3)"
    with victim(shared_dsn, mode, statement) as process:
        if mode == "open":
            waiting = blocked(connection, other, lambda: claim(other, queue, 9))
            process.kill()
            [got] = results(waiting)
            assert [(job.job_id, job.attempt) for job in got] == [(one, 1) for one in ids[:3]]
            return
        process.kill()
    wait_until(lambda: gone(connection))
    assert claim(connection, queue, 9) == []
    shared_clock.advance("31 seconds")
    got = claim(connection, queue, 9)
    assert len(got) == 3
    assert claim(connection, queue, 9) == []
    assert all(ack(connection, job) for job in got)
    got += claim(connection, queue, 9)
    assert {job.job_id: job.attempt for job in got} == {
        one: 2 if one in ids[:3] else 1 for one in ids
    }


@pytest.mark.parametrize("end", ["ack", "finish_and_claim", "nack"])
@MODE
def test_an_end_that_makes_room(shared_dsn: str, connection: Session, mode: str, end: str) -> None:
    """There is room when the end has committed; an open one is undone with its worker."""
    queue = new_queue(connection, max_leased=1, backoff="1 hour")
    ids = enqueue_many(connection, queue, 2)
    job = claim_one(connection, queue)
    statement = {
        "ack": f"select pgq.ack({job.job_id}, '{job.lease_token}')",
        "nack": f"select pgq.nack({job.job_id}, '{job.lease_token}')",
        "finish_and_claim": f"select pgq.finish_and_claim('{queue}', array[{job.job_id}],"
        f" '{job.lease_token}', max_jobs => 0)",
    }[end]
    with victim(shared_dsn, mode, statement) as process:
        process.kill()
    wait_until(lambda: gone(connection))
    if mode == "open":
        assert claim(connection, queue) == []
        assert ack(connection, job)
    assert claim_one(connection, queue).job_id == ids[1]
    assert claim(connection, queue) == []


def test_an_exchange_is_whole(shared_dsn: str, connection: Session) -> None:
    """Killed between the end of one job and the commit: the first is leased still, and no other."""
    queue = new_queue(connection, max_leased=1)
    ids = enqueue_many(connection, queue, 2)
    job = claim_one(connection, queue)
    statement = f"select pgq.finish_and_claim('{queue}', array[{job.job_id}], '{job.lease_token}')"
    with victim(shared_dsn, "open", statement) as process:
        process.kill()
    wait_until(lambda: gone(connection))
    assert claim(connection, queue) == []
    [following] = connection.finish_and_claim(
        queue=queue, job_ids=[job.job_id], lease_token=job.lease_token
    )
    assert following.job_id == ids[1]


@MODE
def test_a_claim_up_to_the_rate(shared_dsn: str, connection: Session, mode: str) -> None:
    """What an open one took of the rate is there again; what a committed one took stays taken."""
    queue = new_queue(connection, rate_limit=3, rate_interval="1 hour")
    enqueue_many(connection, queue, 9)
    with victim(shared_dsn, mode, f"select pgq.claim_job('{queue}', 3)") as process:
        process.kill()
    wait_until(lambda: gone(connection))
    assert len(claim(connection, queue, 9)) == (3 if mode == "open" else 0)
    assert claim(connection, queue, 9) == []


@MODE
def test_a_producer_up_to_max_unfinished(shared_dsn: str, connection: Session, mode: str) -> None:
    """Jobs of an open transaction are gone with their producer, and do not count."""
    queue = new_queue(connection, max_unfinished=3)
    statement = f"select pgq.enqueue_batch('{queue}', array['1', '2', '3']::jsonb[])"
    with victim(shared_dsn, mode, statement) as process:
        process.kill()
    wait_until(lambda: gone(connection))
    if mode == "open":
        assert len(enqueue_many(connection, queue, 3)) == 3
    refused("MQ010", connection.enqueue_batch, queue=queue, payloads=[1])
