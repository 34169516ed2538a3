"""Leases that cannot be kept, or are not what the worker thought."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.worker import AsyncWorker, Worker
from support.session import Session
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import Gate, Started, states, working

Kind = type[Worker] | type[AsyncWorker]


def wait_until(condition: Callable[[], Any]) -> Any:
    return _wait_until(condition, 2 * PATIENCE)


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", backoff=timedelta(milliseconds=10))
    return client


def test_a_heartbeat_without_an_answer_keeps_no_lease(
    dsn: str, client: Client, kind: Kind, connect: Callable[..., Session]
) -> None:
    gate = Gate(kind)
    worker = kind(dsn, concurrency=1)
    worker.handler("mail", lease=2.0)(gate.handler)
    client.enqueue("mail", 1)
    blocker = connect()
    with working(worker):
        wait_until(lambda: gate.begun)
        blocker.execute("lock table pgq.job in access exclusive mode")
        wait_until(lambda: gate.stopped)
        blocker.rollback()
        gate.open.set()


def test_a_handler_that_takes_its_time_to_stop(dsn: str, client: Client) -> None:
    """It is cancelled once, and its slot goes on with the next job."""
    worker = AsyncWorker(dsn, concurrency=1)
    cancelled: list[str] = []
    done: list[int] = []

    @worker.handler("mail", lease=0.6)
    async def handle(payload: int) -> None:
        if payload == 2:
            done.append(payload)
            return
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.append("once")
            try:
                await asyncio.sleep(1.5)
            except asyncio.CancelledError:
                cancelled.append("again")
            raise

    job = client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: states(client) == (0, 1))
        client.cancel_job(job.job_id)
        client.enqueue("mail", 2)
        wait_until(lambda: done)
    assert cancelled == ["once"]


def test_jobs_that_were_not_begun_have_not_been_tried(dsn: str, client: Client, kind: Kind) -> None:
    """The one attempt of a queue is used up by the job that was begun alone."""
    client.admin.alter_queue("mail", max_attempts=1)
    gate = Gate(kind)
    worker = kind(dsn, concurrency=1)
    worker.handler("mail", prefetch=5)(gate.handler)
    client.enqueue_batch("mail", list(range(5)))
    with working(worker) as started:
        wait_until(lambda: gate.begun)
        started.stop()
        started.stop()
        started.join()
        gate.open.set()
    assert [letter.payload for letter in client.jobs.dead_letters("mail")] == [0]
    assert states(client) == (4, 0)


def test_a_shorter_lease_of_the_queue(dsn: str, client: Client, kind: Kind) -> None:
    """Settings are read again now and then; until then claims last as long as is reckoned with."""
    gate = Gate(kind)
    # a heartbeat would be the last that this connection has asked
    worker = kind(dsn, concurrency=1, heartbeat=None)
    worker.handler("mail")(gate.handler)
    client.admin.alter_queue("mail", notify=True)
    listens = (
        "select from pg_stat_activity"
        " where application_name = 'pgq worker: leases' and query = 'listen pgq_queue'"
    )
    with working(worker):
        wait_until(lambda: client.connection.execute(listens).fetchall())
        client.admin.alter_queue("mail", lease=timedelta(seconds=1))
        job_id = client.enqueue("mail", 1).job_id
        wait_until(lambda: gate.begun)
        job = client.get_job(job_id)
        assert job is not None
        assert job.leased_until is not None
        assert job.leased_until - datetime.now(timezone.utc) > timedelta(seconds=9)
        gate.open.set()


def test_without_heartbeats_it_does_not_go_on(
    dsn: str, client: Client, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("broken")

    module = "_sync" if kind is Worker else "_async"
    monkeypatch.setattr(f"pgq.worker.{module}._supervisor.Supervisor.renew", fail)
    worker = kind(dsn)
    worker.handler("mail")(Gate(kind).handler)
    started = Started(worker)
    with pytest.raises(RuntimeError, match="broken"):
        started.ended.result(PATIENCE)
