"""How a worker ends, and what it does when a lease, a connection or the server is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq._runtime import _schedule
from pgq.embedded import Server
from pgq.worker import AsyncWorker, Worker
from support.clock import Clock
from support.house import install_script
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import Gate, kill_backends, states, unreachable, working

Kind = type[Worker] | type[AsyncWorker]


def wait_until(condition: Callable[[], Any]) -> Any:
    return _wait_until(condition, 2 * PATIENCE)


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", backoff=timedelta(milliseconds=10))
    return client


def test_a_stop_finishes_what_runs_and_gives_back_the_rest(
    dsn: str, client: Client, kind: Kind
) -> None:
    gate = Gate(kind)
    worker = kind(dsn, concurrency=1)
    worker.handler("mail", prefetch=5)(gate.handler)
    client.enqueue_batch("mail", list(range(5)))
    with working(worker) as started:
        wait_until(lambda: gate.begun)
        assert states(client) == (0, 5)
        started.stop()
        gate.open.set()
        started.join()
    assert gate.ended == [0]
    assert states(client) == (4, 0)
    [job] = client.jobs.archived_jobs("mail")
    assert job.payload == 0
    assert client.claim_job("mail")[0].attempt == 1, "what was given back has not been tried"


def test_a_second_stop_gives_back_what_runs(dsn: str, client: Client, kind: Kind) -> None:
    gate = Gate(kind)
    worker = kind(dsn, concurrency=2)
    worker.handler("mail")(gate.handler)
    client.enqueue_batch("mail", [1, 2])
    with working(worker) as started:
        wait_until(lambda: len(gate.begun) == 2)
        started.stop()
        started.stop()
        started.join()
        assert states(client) == (2, 0)
        gate.open.set()
    assert not client.jobs.archived_jobs("mail")


def test_patience_has_an_end(dsn: str, client: Client, kind: Kind) -> None:
    gate = Gate(kind)
    worker = kind(dsn, grace=0.05)
    worker.handler("mail")(gate.handler)
    client.enqueue("mail", 1)
    with working(worker) as started:
        wait_until(lambda: gate.begun)
        started.stop()
        started.join()
    assert states(client) == (1, 0)
    gate.open.set()


def test_heartbeats_keep_a_job(dsn: str, client: Client, kind: Kind) -> None:
    gate = Gate(kind)
    worker = kind(dsn)
    worker.handler("mail", lease=3.0)(gate.handler)
    job_id = client.enqueue("mail", 1).job_id

    def leased_until() -> datetime | None:
        job = client.get_job(job_id)
        return None if job is None else job.leased_until

    with working(worker):
        wait_until(lambda: gate.begun)
        before = leased_until()
        assert before is not None
        wait_until(lambda: (leased_until() or before) > before)
        gate.open.set()
        wait_until(lambda: client.jobs.archived_jobs("mail"))
    assert gate.ended == [1]


class Slow:
    """Something of a thread that takes its time when the thread has ended."""

    def __del__(self) -> None:
        time.sleep(0.2)


def test_a_thread_may_be_slow_to_go(dsn: str, client: Client) -> None:
    """Its worker has ended before."""
    own = threading.local()
    worker = Worker(dsn, concurrency=1)

    def handle(payload: int) -> None:
        own.slow = Slow()

    worker.handler("mail")(handle)
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: client.jobs.archived_jobs("mail"))


def test_a_lost_lease_stops_the_handler(dsn: str, client: Client, kind: Kind) -> None:
    gate = Gate(kind)
    worker = kind(dsn, concurrency=1)
    worker.handler("mail", lease=1.5)(gate.handler)
    job = client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: gate.begun)
        assert client.cancel_job(job.job_id)
        wait_until(lambda: gate.stopped)
        gate.open.set()
        client.enqueue("mail", 2)
        wait_until(lambda: gate.ended == [2])
        wait_until(lambda: len(client.jobs.archived_jobs("mail")) == 2)
    assert [job.outcome for job in client.jobs.archived_jobs("mail")] == ["cancelled", "acked"]


LISTENS = "select count(*) from pg_stat_activity where application_name = 'pgq worker: leases'"


def test_only_a_notice_wakes_it(
    dsn: str, client: Client, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would look again after an hour; so too when the connection that listens is a new one."""
    monkeypatch.setattr(_schedule, "SHORTEST", 3600.0)
    client.admin.alter_queue("mail", notify=True)
    done: list[int] = []
    worker = kind(dsn, concurrency=1, poll=3600.0)
    worker.handler("mail")(_keep(kind, done))

    def in_turn(*numbers: int) -> None:
        """One is enqueued when the look that finished the one before has found nothing."""
        for number in numbers:
            client.enqueue("mail", number)
            wait_until(lambda: len(client.jobs.archived_jobs("mail")) == number)  # noqa: B023

    with working(worker):
        in_turn(1, 2, 3)
        assert kill_backends(client.connection, "pgq worker: leases") == 1
        wait_until(lambda: client.connection.execute(LISTENS).fetchall() == [(1,)])
        in_turn(4, 5, 6)
    assert done == [1, 2, 3, 4, 5, 6]


def test_polling_goes_on_without_notices(dsn: str, client: Client, kind: Kind) -> None:
    """The connection that listens is lost and does not come back; that which claims is there."""
    client.admin.alter_queue("mail", notify=True)
    done: list[int] = []
    worker = kind(dsn, concurrency=1, poll=0.2)
    worker.handler("mail", lease=300.0)(_keep(kind, done))
    with working(worker):
        client.enqueue("mail", 1)
        wait_until(lambda: len(client.jobs.archived_jobs("mail")) == 1)
        with unreachable(client.connection, dsn, "pgq worker: leases"):
            wait_until(lambda: client.connection.execute(LISTENS).fetchall() == [(0,)])
            client.enqueue("mail", 2)
            wait_until(lambda: len(client.jobs.archived_jobs("mail")) == 2)
            assert client.connection.execute(LISTENS).fetchall() == [(0,)]
    assert done == [1, 2]


def _keep(kind: Kind, done: list[Any]) -> Callable[[Any], Any]:
    if kind is Worker:
        return done.append

    async def keep(payload: Any) -> None:
        done.append(payload)

    return keep


def test_killed_connections_double_nothing(
    dsn: str, client: Client, clock: Clock, kind: Kind
) -> None:
    done: list[int] = []

    def new_worker() -> Worker | AsyncWorker:
        worker = kind(dsn, concurrency=3, poll=0.2)
        worker.handler("mail", lease=300.0)(_keep(kind, done))
        return worker

    with working(new_worker()):
        for step in range(4):
            before = len(done)
            client.enqueue_batch("mail", list(range(step * 50, step * 50 + 50)))
            wait_until(lambda: len(done) > before + 10)  # noqa: B023
            kill_backends(client.connection, "pgq worker")
        wait_until(lambda: len(done) + states(client)[1] >= 200)
    assert states(client)[1] <= 12, "answers that were lost had these in them, and nobody else"
    clock.advance("301 seconds")
    with working(new_worker()):
        wait_until(lambda: states(client) == (0, 0))
    assert sorted(done) == list(range(200))
    assert len(client.jobs.archived_jobs("mail")) == 200


@pytest.mark.slow
def test_a_server_that_restarts(start_server: Callable[..., Server], kind: Kind) -> None:
    """Nothing is lost, and what was finished is not done again."""
    server = start_server()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        client = Client(connection)
        client.admin.create_queue("mail", lease=timedelta(seconds=8))
        client.enqueue_batch("mail", list(range(300)))
    done: list[int] = []
    worker = kind(server.dsn, concurrency=3, poll=0.2)
    worker.handler("mail")(_keep(kind, done))
    with working(worker):
        for step in (1, 2):
            wait_until(lambda: len(done) > 40 * step)  # noqa: B023
            server.kill()
            server.restart()
        wait_until(lambda: len(done) >= 300)
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            client = Client(connection)
            wait_until(lambda: states(client) == (0, 0))
            archived = client.jobs.archived_jobs("mail")
    assert sorted(job.payload for job in archived) == list(range(300))
    assert sorted(done) == list(range(300))


PROGRAM = """
import sys, time
from pgq.worker import Handlers

handlers = Handlers()

@handlers.handler("mail", prefetch=3)
{how}def handle(payload):
    print("begun", payload, flush=True)
    if payload == "hang":
        {sleep}(600)
    {sleep}(0.3)
    print("ended", payload, flush=True)
"""


@pytest.fixture(params=["threads", "tasks"])
def program(request: pytest.FixtureRequest, dsn: str, tmp_path: Path) -> list[str]:
    """The command of a worker in a process of its own."""
    text = PROGRAM.format(
        how="async " if request.param == "tasks" else "",
        sleep="await asyncio.sleep" if request.param == "tasks" else "time.sleep",
    )
    name = f"app_{request.param}"
    (tmp_path / f"{name}.py").write_text("import asyncio\n" + text)
    command = [sys.executable, "-m", "pgq", "work", f"{name}:handlers", "--database", dsn]
    return ["env", f"PYTHONPATH={tmp_path}", *command, "--concurrency", "1"]


def _start(program: list[str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("begun"), process.stderr and process.stderr.read()
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_process(
    client: Client, program: list[str], number: signal.Signals
) -> None:
    client.enqueue_batch("mail", ["a", "b", "c"])
    process = _start(program)
    process.send_signal(number)
    out, err = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 0, err
    assert out == "ended a\n"
    assert states(client) == (2, 0)


def test_a_second_signal_ends_it_at_once(client: Client, program: list[str]) -> None:
    client.enqueue_batch("mail", ["hang", "b"])
    process = _start(program)
    assert process.stderr is not None
    process.send_signal(signal.SIGTERM)
    for line in process.stderr:
        if "stops when" in line:
            break
    process.send_signal(signal.SIGTERM)
    process.wait(2 * PATIENCE)
    assert process.returncode == 1, process.stderr and process.stderr.read()
    assert states(client) == (2, 0)


def test_a_killed_process_loses_nothing(client: Client, program: list[str], clock: Any) -> None:
    client.enqueue_batch("mail", ["hang", "b"])
    process = _start(program)
    process.kill()
    process.wait(PATIENCE)
    assert states(client) == (0, 2)
    clock.advance("31 seconds")
    # the second had not begun: it lost no attempt, and comes alone
    assert [job.attempt for job in client.claim_job("mail", max_jobs=5)] == [2]
    assert [job.attempt for job in client.claim_job("mail", max_jobs=5)] == [1]
