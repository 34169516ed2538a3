"""Workers and servers that are killed with -9 around an effect: what later attempts are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgq import Client, EffectInterrupted
from pgq.embedded import Server
from support.clock import Clock
from support.effects import begin, finish, forget, noted
from support.house import install_script
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, row
from support.waiting import wait_until

# Says which step it has done, and waits to be killed where it is told to stop. The effect is a line
# in a file, which no transaction takes back.
WORKER = """
import sys, time
import psycopg
from pgq import Client, EffectInterrupted

dsn, queue, path, order, stop = sys.argv[1:]

def step(name):
    print(name, flush=True)
    if name == stop:
        time.sleep(600)

connection = psycopg.connect(dsn, autocommit=True)
connection.execute("set application_name = 'pgq_test_victim'")
connection.execute("set synchronous_commit = off")
client = Client(connection)

def send():
    step("begun")
    with open(path, "a") as file:
        file.write(f"{job.job_id}\\n")
    step("sent")
    return {"attempt": job.attempt}

while True:
    jobs = client.claim_job(queue)
    if not jobs:
        break
    [job] = jobs
    step("claimed")
    try:
        client.run_once(job, "mail", send, at_least_once=order == "at least once")
        step("finished")
    except EffectInterrupted:
        step("interrupted")
    client.ack(job.job_id, job.lease_token)
    step("acked")
"""


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """What the workers did outside of the database."""
    path = tmp_path / "sent"
    path.touch()
    return path


def sent(file: Path) -> list[int]:
    """The jobs whose mail was sent, once for each time."""
    return [int(line) for line in file.read_text().split()]


def start(dsn: str, queue: str, file: Path, order: str, stop: str) -> subprocess.Popen[str]:
    """A worker."""
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, dsn, queue, str(file), order, stop],
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def victim(dsn: str, queue: str, file: Path, stop: str) -> Iterator[subprocess.Popen[str]]:
    """A worker that has reached the step; killed at the latest at the end of the block."""
    process = start(dsn, queue, file, "at most once", stop)
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


STEPS = {
    "claimed": ("begun", None, 0),
    "begun": ("interrupted", None, 0),
    "sent": ("interrupted", None, 1),
    "finished": ("finished", {"attempt": 1}, 1),
}
"""Where a worker dies; what the next one is told, the result, and how often the mail was sent."""


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_worker(
    shared_dsn: str, connection: Session, shared_clock: Clock, file: Path, step: str
) -> None:
    queue = new_queue(connection)
    job_id = enqueue(connection, queue)
    with victim(shared_dsn, queue, file, step) as process:
        process.kill()
    wait_until(lambda: gone(connection))
    state, result, times = STEPS[step]
    assert sent(file) == [job_id] * times
    shared_clock.advance("31 seconds")
    told = begin(connection, claim_one(connection, queue))
    assert (told.state, told.result) == (state, result)


@pytest.mark.parametrize("step", ["begun", "sent", "finished"])
def test_another_worker_goes_on(
    shared_dsn: str, connection: Session, shared_clock: Clock, file: Path, step: str
) -> None:
    """At most once it is told of the interruption; at least once it sends the mail."""
    queue = new_queue(connection)
    job_id = enqueue(connection, queue)
    with victim(shared_dsn, queue, file, step) as process:
        process.kill()
    shared_clock.advance("31 seconds")
    client = Client(connection)
    [job] = client.claim_job(queue)
    times = len(sent(file))

    def send() -> dict[str, int]:
        with file.open("a") as opened:
            opened.write(f"{job_id}\n")
        return {"attempt": job.attempt}

    if step == "finished":
        assert client.run_once(job, "mail", send) == {"attempt": 1}
        assert sent(file) == [job_id]
        return
    with pytest.raises(EffectInterrupted):
        client.run_once(job, "mail", send)
    assert len(sent(file)) == times
    assert client.run_once(job, "mail", send, at_least_once=True) == {"attempt": 2}
    assert len(sent(file)) == times + 1
    assert client.run_once(job, "mail", send) == {"attempt": 2}
    assert len(sent(file)) == times + 1


@pytest.mark.parametrize("order", ["at most once", "at least once"])
def test_some_of_many(
    shared_dsn: str, connection: Session, shared_clock: Clock, file: Path, order: str
) -> None:
    """Workers that are killed at any moment: no mail twice, or none forgotten."""
    queue = new_queue(connection, no_limit=["max_attempts"])
    ids = enqueue_many(connection, queue, 200)
    workers = [start(shared_dsn, queue, file, order, "never") for _ in range(4)]
    try:
        for number, worker in enumerate(workers[:3], start=1):
            wait_until(lambda n=number: len(sent(file)) > n * 30, 60)  # type: ignore[misc]
            worker.kill()
        for worker in workers:
            worker.communicate(timeout=60)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    wait_until(lambda: gone(connection))
    # those that the dead ones had leased
    shared_clock.advance("31 seconds")
    start(shared_dsn, queue, file, order, "never").communicate(timeout=60)
    assert stats(connection, queue) == {}
    times = Counter(sent(file))
    if order == "at most once":
        assert set(times.values()) == {1}
        assert len(times) >= len(ids) - 3
    else:
        assert sorted(times) == ids
        assert sum(times.values()) <= len(ids) + 3


def test_a_killed_server(start_server: Callable[..., Server]) -> None:
    """Notes are on disk once they are committed, where the session waits for nothing."""
    server = start_server()
    with Session.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        queue = new_queue(connection, lease="1 hour")
        enqueue_many(connection, queue, 2)
        connection.execute("create table public.marked (step text)")
        connection.execute("set synchronous_commit = off")
        # whoever else would flush
        [pid] = row(connection, "select pid from pg_stat_activity where backend_type = 'walwriter'")
        os.kill(pid, signal.SIGSTOP)
        one, other = claim(connection, queue, 2)
        assert begin(connection, one).state == "begun"
        assert begin(connection, other).state == "begun"
        assert finish(connection, other, result=7) is True
        assert forget(connection, one) is True
        connection.execute("insert into public.marked values ('behind')")
        server.kill()
    server.restart()
    with Session.connect(server.dsn, autocommit=True) as connection:
        # this is how what was not flushed has ended
        assert connection.execute("select step from public.marked").fetchall() == []
        assert noted(connection, one.job_id) == {"mail": "begun"}
        assert noted(connection, other.job_id) == {"mail": "finished"}
        told = begin(connection, other)
        assert (told.state, told.result) == ("finished", 7)
