"""Workers that write the ticks of schedules, beside their jobs and beside others who do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgq import AsyncClient, Client
from pgq.worker import AsyncWorker, Worker
from pgq.worker._async import _ticking as tasks_ticking
from pgq.worker._sync import _ticking as threads_ticking
from support.client import groups
from support.clock import Clock
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import kill_backends, working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_until(condition: Callable[[], Any]) -> Any:
    return _wait_until(condition, 2 * PATIENCE)


@pytest.fixture
def client(connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client with a queue and three schedules for it; workers look at them all the time."""
    for module in (tasks_ticking, threads_ticking):
        monkeypatch.setattr(module, "EVERY", 0.01)
    client = Client(connection)
    client.admin.create_queue("mail")
    for name in ("a", "b", "c"):
        client.schedules.create_schedule(
            name, queue="mail", payload=name, every=timedelta(hours=1), missed="all"
        )
    return client


def ticks(client: Client) -> Counter[tuple[str, str]]:
    """How often each tick was written, by the schedule and its time."""
    done = client.jobs.archived_jobs("mail")
    return Counter((job.payload, (job.headers or {})["scheduled_at"]) for job in done)


def test_each_tick_once(dsn: str, client: Client, clock: Clock, kind: Kind, as_handler: As) -> None:
    """By two workers and another caller side by side."""

    def new_worker() -> Worker | AsyncWorker:
        worker = kind(dsn, concurrency=2, poll=0.05, schedules=True)
        worker.handler("mail", prefetch=20)(as_handler(lambda payload: None))
        return worker

    mine = 0
    with working(new_worker()), working(new_worker()):
        for step in range(1, 4):
            clock.advance("20 hours")
            mine += len(client.schedules.run_schedules())
            wait_until(lambda: len(ticks(client)) >= 60 * step)  # noqa: B023
    assert {*ticks(client).values()} == {1}
    assert len(ticks(client)) == 180
    assert [(one.last_error, one.paused) for one in client.schedules.list_schedules()] == [
        (None, False)
    ] * 3


def test_errors_do_not_stop_it(
    dsn: str,
    client: Client,
    clock: Clock,
    kind: Kind,
    as_handler: As,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One of the call, one of a schedule, and a connection that is lost."""
    failures = [1]
    for used in (Client, AsyncClient):
        _fail_once(monkeypatch, used, failures)
    client.admin.create_queue("gone")
    client.schedules.create_schedule("d", queue="gone", payload=1, every=timedelta(hours=1))
    client.admin.drop_queue("gone")
    worker = kind(dsn, poll=0.05, schedules=True)
    worker.handler("mail")(as_handler(lambda payload: None))
    with working(worker):
        clock.advance("1 hour")
        wait_until(lambda: len(ticks(client)) == 3)
        assert "schedules do not run, again in" in caplog.text
        wait_until(lambda: "schedule d: MQ002" in caplog.text)
        assert kill_backends(client.connection, "pgq worker: schedules") == 1
        clock.advance("1 hour")
        wait_until(lambda: len(ticks(client)) == 6)
    others = "select 1 from pg_stat_activity where application_name = 'pgq worker: schedules'"
    wait_until(lambda: not client.connection.execute(others).fetchall())


def _fail_once(monkeypatch: pytest.MonkeyPatch, used: type[Any], failures: list[int]) -> None:
    schedules = groups(used)["schedules"]
    call = schedules.run_schedules

    def failing(self: Any, *arguments: Any) -> Any:
        if failures:
            failures.pop()
            raise psycopg.errors.InsufficientPrivilege("not for you")
        return call(self, *arguments)

    monkeypatch.setattr(schedules, "run_schedules", failing)
