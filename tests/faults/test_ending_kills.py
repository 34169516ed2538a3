"""Clients and servers that are killed with -9 around a unique key, a cancel or a release."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pgq.embedded import Server
from support.clock import Clock
from support.house import install_script
from support.queue import ack, claim, claim_one, new_queue, stats
from support.session import Connect, Session
from support.unique import MODES, add, keys_of, loose_keys
from support.waiting import blocked, wait_until

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


@MODE
def test_a_producer(
    shared_dsn: str, shared_connect: Connect, connection: Session, mode: str
) -> None:
    """Whoever waits for its key has it when the producer is dead, unless its job is committed."""
    queue = new_queue(connection)
    other = shared_connect(autocommit=True)
    statement = f"select pgq.enqueue('{queue}', '1', unique_key => 'k')"
    with victim(shared_dsn, mode, statement) as process:
        if mode == "open":
            answer = blocked(connection, other, lambda: add(other, queue))
            process.kill()
            number, duplicate = answer.result(30)
            assert duplicate is False
        else:
            process.kill()
            number, duplicate = add(other, queue)
            assert duplicate is True
    assert claim_one(connection, queue).job_id == number
    assert claim(connection, queue) == []


@MODE
@pytest.mark.parametrize("until", MODES)
def test_a_worker_that_acks(
    shared_dsn: str, shared_connect: Connect, connection: Session, until: str, mode: str
) -> None:
    """The job and its key are gone together, or both are there."""
    queue = new_queue(connection, unique_until=until)
    number, _ = add(connection, queue)
    job = claim_one(connection, queue)
    with victim(shared_dsn, mode, f"select pgq.ack({number}, '{job.lease_token}')") as process:
        process.kill()
        # whether or not the server has noticed by now
        answer = ack(connection, job)
    assert answer is (mode == "open")
    assert keys_of(connection, queue) == {}
    assert stats(connection, queue) == {}
    assert add(connection, queue)[1] is False


@pytest.mark.parametrize("until", MODES)
def test_a_worker_in_mid_job(
    shared_dsn: str, connection: Session, shared_clock: Clock, until: str
) -> None:
    """Its job comes back, and keeps others out again as long as the queue says."""
    queue = new_queue(connection, unique_until=until, max_attempts=2)
    number, _ = add(connection, queue)
    statement = f"select * from pgq.claim_job('{queue}')"
    for attempt in (1, 2):
        with victim(shared_dsn, "committed", statement):
            pass
        assert stats(connection, queue) == {"leased": 1}
        if until != "claimed":
            assert add(connection, queue) == (number, True)
        shared_clock.advance("31 seconds")
        assert connection.get_job(job_id=number).attempt == attempt
    connection.cleanup()
    assert stats(connection, queue) == {"dead": 1}
    assert add(connection, queue)[1] is (until == "removed")
    assert loose_keys(connection) == 0


@MODE
def test_a_cancel(shared_dsn: str, connection: Session, mode: str) -> None:
    queue = new_queue(connection)
    number, _ = add(connection, queue)
    job = claim_one(connection, queue)
    with victim(shared_dsn, mode, f"select pgq.cancel_job({number})") as process:
        process.kill()
        answer = ack(connection, job)
    assert answer is (mode == "open")
    rows = connection.execute(
        "select outcome from pgq.archived_jobs where job_id = %s", [number]
    ).fetchall()
    assert rows == [("acked" if mode == "open" else "cancelled",)]
    assert keys_of(connection, queue) == {}


@MODE
def test_a_worker_that_stops(
    shared_dsn: str, connection: Session, shared_clock: Clock, mode: str
) -> None:
    """Killed in the middle of its release it has used up the attempt, and only then."""
    queue = new_queue(connection)
    number, _ = add(connection, queue)
    job = claim_one(connection, queue)
    statement = f"select pgq.release_job({number}, '{job.lease_token}')"
    with victim(shared_dsn, mode, statement):
        pass
    if mode == "open":
        assert stats(connection, queue) == {"leased": 1}
        shared_clock.advance("31 seconds")
    found = wait_until(lambda: claim(connection, queue))
    assert [job.attempt for job in found] == [2 if mode == "open" else 1]


def test_a_server_that_crashes(start_server: Callable[..., Server]) -> None:
    """What was committed is there: jobs with their keys, and no key without a job."""
    server = start_server()
    with Session.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        queue = new_queue(connection, unique_until="removed")
        kept = [add(connection, queue, f"key {n}")[0] for n in range(4)]
        job = claim_one(connection, queue)
        assert ack(connection, job)
        assert connection.cancel_job(job_id=kept[1])
        job = claim_one(connection, queue)
        assert connection.reject_job(job_id=job.job_id, lease_token=job.lease_token)
        other = Session.connect(server.dsn)
        add(other, queue, "lost")
        other.cancel_job(job_id=kept[3])
        server.kill()
        other.close()
    server.restart()
    with Session.connect(server.dsn, autocommit=True) as connection:
        assert keys_of(connection, queue) == {"key 2": kept[2], "key 3": kept[3]}
        assert loose_keys(connection) == 0
        assert stats(connection, queue) == {"ready": 1, "dead": 1}
        assert add(connection, queue, "lost")[1] is False
        assert add(connection, queue, "key 2") == (kept[2], True)
