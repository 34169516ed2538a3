"""A worker that has nothing to do sleeps, and misses nothing: `poll` is ten minutes here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.worker import AsyncWorker, Worker
from support.waiting import PATIENCE, wait_until
from support.working import Gate, kill_backends, unreachable, working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]

OTHER = """
import sys, time
from pgq.worker import Worker

worker = Worker(sys.argv[1], poll=600)


@worker.handler("mail", lease=3)
def handle(payload):
    print("has it", flush=True)
    time.sleep(600)


worker.run()
"""
SLEEPS = """
    select count(*) from pg_stat_activity
    where application_name = 'pgq worker' and state = 'idle' and query like '%next_due%'
        and datname = current_database()
"""
STATEMENTS = """
    select array_agg((pid, query_start) order by pid)::text from pg_stat_activity
    where application_name like 'pgq worker%' and datname = current_database()
"""


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", notify=True)
    client.admin.create_queue("bills", notify=True)
    return client


class Taken:
    """The payloads of jobs, and when their handler began."""

    def __init__(self) -> None:
        self.at: dict[Any, datetime] = {}

    def __call__(self, payload: Any) -> None:
        self.at[payload] = datetime.now(timezone.utc)

    def wait_for(self, payload: Any) -> datetime:
        """When the handler has begun with it."""
        wait_until(lambda: payload in self.at, PATIENCE, f"for {payload}")
        return self.at[payload]


@contextmanager
def idle(client: Client, worker: Worker | AsyncWorker) -> Iterator[None]:
    """Within this block a worker runs that has looked at its queues, and sleeps."""
    with working(worker):
        wait_until(lambda: client.connection.execute(SLEEPS).fetchall() != [(0,)], PATIENCE)
        yield


def sleeper(dsn: str, kind: Kind, as_handler: As, **options: Any) -> tuple[Any, Taken]:
    """A worker of both queues that nothing but a notification or a time wakes."""
    worker = kind(dsn, poll=600, **options)
    taken = Taken()
    for queue in ("mail", "bills"):
        worker.handler(queue)(as_handler(taken))
    return worker, taken


def test_nothing_is_asked(
    dsn: str, client: Client, kind: Kind, as_handler: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By none of its connections, though it would beat and look at settings all the time."""
    for module in ("_async", "_sync"):
        monkeypatch.setattr(f"pgq._runtime.{module}._keeper.LOOK_AGAIN", 0.05)
    worker, _ = sleeper(dsn, kind, as_handler, heartbeat=0.05)
    with idle(client, worker):
        wait_until(client.monitor.list_workers, PATIENCE)

        def rests() -> bool:
            before = client.connection.execute(STATEMENTS).fetchall()
            time.sleep(1.0)
            return client.connection.execute(STATEMENTS).fetchall() == before

        wait_until(rests, PATIENCE, "for a second without a statement")


def test_a_new_job(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    """Of one queue and of the other, again and again."""
    worker, taken = sleeper(dsn, kind, as_handler)
    with idle(client, worker):
        for number in range(6):
            began = time.monotonic()
            client.enqueue(("mail", "bills")[number % 2], number)
            taken.wait_for(number)
            assert time.monotonic() - began < 2.0


def test_several_at_once(dsn: str, client: Client, kind: Kind) -> None:
    """Each slot that gets one wakes another."""
    gate = Gate(kind)
    worker = kind(dsn, poll=600, concurrency=4)
    worker.handler("mail")(gate.handler)
    with idle(client, worker):
        client.enqueue_batch("mail", [1, 2, 3])
        wait_until(lambda: len(gate.begun) == 3, PATIENCE)
        client.enqueue("mail", 4)
        wait_until(lambda: len(gate.begun) == 4, PATIENCE)
        gate.open.set()


def test_a_delayed_job(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    """It was there before the worker, and another one has come since."""
    client.enqueue("mail", "first", delay=timedelta(seconds=2))
    first = datetime.now(timezone.utc)
    worker, taken = sleeper(dsn, kind, as_handler)
    with idle(client, worker):
        client.enqueue("mail", "second", delay=timedelta(seconds=3))
        second = datetime.now(timezone.utc)
        assert -0.5 < (taken.wait_for("first") - first).total_seconds() - 2 < 1.5
        assert -0.5 < (taken.wait_for("second") - second).total_seconds() - 3 < 1.5


def test_another_worker_was_killed(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    """Its job begins when its lease ends, though nothing tells so."""
    client.enqueue("mail", "job")
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER, dsn], stdout=subprocess.PIPE, env=os.environ, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "has it\n"
        worker, taken = sleeper(dsn, kind, as_handler)
        with idle(client, worker):
            other.send_signal(signal.SIGKILL)
            other.wait(PATIENCE)
            [job] = client.jobs.peek_jobs("mail", state="leased")
            assert job.leased_until is not None
            late = (taken.wait_for("job") - job.leased_until).total_seconds()
            assert -0.5 < late < 2.0
    finally:
        other.kill()
        other.wait(PATIENCE)
        other.stdout.close()


def test_what_is_due_earlier(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    """By a statement of somebody else: a retry, a redrive, a resumed queue."""
    waiting = client.enqueue("mail", "retried", delay=timedelta(hours=1))
    client.enqueue("mail", "redriven")
    [dead] = client.claim_job("mail")
    client.reject_job(dead.job_id, dead.lease_token)
    worker, taken = sleeper(dsn, kind, as_handler)
    with idle(client, worker):
        client.connection.execute("select pgq.retry_job(%s)", [waiting.job_id])
        taken.wait_for("retried")
        client.connection.execute("select pgq.redrive('mail', all_jobs => true)")
        taken.wait_for("redriven")
        client.admin.pause_queue("mail")
        client.enqueue("mail", "paused")
        client.enqueue("bills", "meanwhile")
        taken.wait_for("meanwhile")
        assert "paused" not in taken.at
        client.admin.resume_queue("mail")
        taken.wait_for("paused")


def test_a_restricted_queue(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    """Its notifications have no name."""
    client.admin.alter_queue("mail", restricted=True)
    worker, taken = sleeper(dsn, kind, as_handler)
    with idle(client, worker):
        client.enqueue("mail", 1)
        taken.wait_for(1)


def test_a_lost_connection(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    """What comes while nobody listens is found, before and after there is a new one."""
    worker, taken = sleeper(dsn, kind, as_handler)
    with idle(client, worker):
        with unreachable(client.connection, dsn, "pgq worker: leases"):
            client.enqueue("mail", "meanwhile")
            taken.wait_for("meanwhile")
        kill_backends(client.connection, "pgq worker%")
        client.enqueue("mail", "without any")
        taken.wait_for("without any")


def test_a_queue_without_notify(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    """The worker looks for itself, and knows when a delayed job is due."""
    client.admin.alter_queue("mail", notify=False)
    worker = kind(dsn, poll=2)
    taken = Taken()
    worker.handler("mail")(as_handler(taken))
    with idle(client, worker):
        client.enqueue("mail", "later", delay=timedelta(seconds=3))
        due_at = datetime.now(timezone.utc) + timedelta(seconds=3)
        assert -0.5 < (taken.wait_for("later") - due_at).total_seconds() < 2.0


def test_what_a_limit_holds_back(dsn: str, client: Client, kind: Kind) -> None:
    """Nothing tells when it may begin: the worker looks again before long."""
    client.admin.alter_queue("mail", max_leased=1)
    gate = Gate(kind)
    worker = kind(dsn, poll=600, concurrency=2)
    worker.handler("mail")(gate.handler)
    client.enqueue("mail", 1)
    [other] = client.claim_job("mail", lease=timedelta(hours=1))
    with idle(client, worker):
        client.enqueue("mail", 2)
        client.ack(other.job_id, other.lease_token)
        wait_until(lambda: gate.begun == [2], PATIENCE)
        gate.open.set()


def test_heartbeats(dsn: str, client: Client, kind: Kind) -> None:
    """More seldom while there is nothing to do, and the list knows it; at once with a job."""
    gate = Gate(kind)
    worker = kind(dsn, poll=600, heartbeat=0.05)
    worker.handler("mail", lease=3600)(gate.handler)

    def told() -> Any:
        return client.connection.execute("select running, beat from pgq.worker").fetchall()

    with idle(client, worker):
        wait_until(lambda: told() == [(0, timedelta(minutes=2))], PATIENCE)
        client.enqueue("mail", 1)
        wait_until(lambda: told() == [(1, None)], PATIENCE)
        gate.open.set()


def test_an_older_database(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    """Without next_due the worker looks for itself."""
    client.enqueue("mail", "later", delay=timedelta(seconds=1))
    rename = "alter function pgq.{} rename to {}"
    client.connection.execute(rename.format("next_due", "_next_due").encode())
    try:
        worker, taken = sleeper(dsn, kind, as_handler)
        with working(worker):
            taken.wait_for("later")
    finally:
        client.connection.execute(rename.format("_next_due", "next_due").encode())


def test_ticks_of_schedules(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    """The worker sleeps until one is due, and asks nothing before."""
    ahead = datetime.now(timezone.utc) + timedelta(seconds=4)
    client.schedules.create_schedule(
        "s", queue="mail", payload="tick", every=timedelta(hours=1), starts_at=ahead
    )
    worker, taken = sleeper(dsn, kind, as_handler, schedules=True)
    with idle(client, worker):
        assert -0.5 < (taken.wait_for("tick") - ahead).total_seconds() < 2.0
