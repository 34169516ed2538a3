"""Claims that do not wait for the disk: where they are refused, and which wait all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgq import AsyncClient, Client
from pgq._runtime._async import _keeper as tasks_keeper
from pgq._runtime._sync import _keeper as threads_keeper
from pgq.worker import AsyncWorker, Handlers, Worker
from pgq.worker._async import _slot as tasks_slot
from pgq.worker._sync import _slot as threads_slot
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_until(condition: Callable[[], Any]) -> Any:
    return _wait_until(condition, 2 * PATIENCE)


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", backoff=timedelta(milliseconds=10))
    return client


def finished(client: Client) -> int:
    return len(client.jobs.archived_jobs("mail"))


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"ordered": True}, "ordered"),
        ({"max_leased": 2}, "max_leased"),
        ({"max_leased_per_key": 2}, "max_leased_per_key"),
        ({"rate_limit": 2}, "rate_limit"),
        ({"max_attempts": 1}, "max_attempts 1"),
    ],
)
def test_claims_that_have_to_be_flushed(
    dsn: str, client: Client, kind: Kind, as_handler: As, settings: dict[str, Any], word: str
) -> None:
    client.admin.create_queue("strict", **settings)
    worker = kind(dsn)
    worker.handler("strict", flush_claims=False)(as_handler(lambda payload: None))
    with pytest.raises(ValueError, match=rf'queue "strict" needs flush_claims: it has {word}'):
        asyncio.run(worker.run()) if isinstance(worker, AsyncWorker) else worker.run()


def test_only_pure_claims_are_not_flushed(
    dsn: str, client: Client, kind: Kind, as_handler: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What finishes a job is on the disk when it is answered."""
    seen: set[tuple[str, str]] = set()

    def watch(name: str) -> None:
        call, call_in_task = getattr(Client, name), getattr(AsyncClient, name)

        def watched(self: Client, *arguments: Any, **named: Any) -> Any:
            [(setting,)] = self.connection.execute("show synchronous_commit").fetchall()
            seen.add((name, setting))
            return call(self, *arguments, **named)

        async def watched_in_task(self: AsyncClient, *arguments: Any, **named: Any) -> Any:
            asked = await self.connection.execute("show synchronous_commit")
            seen.update((name, setting) for (setting,) in await asked.fetchall())
            return await call_in_task(self, *arguments, **named)

        monkeypatch.setattr(Client, name, watched)
        monkeypatch.setattr(AsyncClient, name, watched_in_task)

    for name in ("claim_job", "finish_and_claim", "ack_batch"):
        watch(name)
    worker = kind(dsn, concurrency=1, connect={"options": "-c synchronous_commit=on"})
    worker.handler("mail", prefetch=3, flush_claims=False)(as_handler(lambda payload: None))
    client.enqueue_batch("mail", list(range(10)))
    with working(worker):
        wait_until(lambda: finished(client) == 10)
    assert seen == {("claim_job", "off"), ("finish_and_claim", "on"), ("ack_batch", "on")}


@pytest.mark.parametrize(
    ("attempts", "count", "flushed"),
    [(None, 3, False), (2, 3, False), (1, 3, True), (None, 9, False)],
)
def test_a_job_with_a_single_attempt_is_claimed_with_a_flush(
    dsn: str, client: Client, kind: Kind, attempts: int | None, count: int, flushed: bool
) -> None:
    """Or else a crash of the server would forget the attempt."""
    handlers = Handlers()
    handlers.handler("mail", prefetch=10, flush_claims=False)(lambda payload: None)
    client.enqueue_batch("mail", list(range(count - 1)))
    client.enqueue("mail", "last", max_attempts=attempts)
    said: list[Any] = []

    def note(connection: Any) -> Any:
        execute = connection.execute

        def noted(statement: Any, *arguments: Any) -> Any:
            said.append(statement)
            return execute(statement, *arguments)

        connection.execute = noted
        return connection

    handler = handlers.by_queue["mail"]
    if kind is Worker:
        with psycopg.connect(dsn, autocommit=True) as connection:
            jobs = threads_slot._claim(Client(note(connection)), handler)
    else:

        async def claim() -> Any:
            async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
                return await tasks_slot._claim(AsyncClient(note(connection)), handler)

        jobs = asyncio.run(claim())
    assert len(jobs) == count
    texts = [one for one in said if "synchronous_commit" in str(one)]
    default = ["set local synchronous_commit to default"] if flushed else []
    assert texts == ["set local synchronous_commit = off", *default]


def test_a_queue_that_is_limited_later(
    dsn: str,
    client: Client,
    kind: Kind,
    as_handler: As,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The worker says so, and waits for the disk from then on."""
    for module in (tasks_keeper, threads_keeper):
        monkeypatch.setattr(module, "LOOK_AGAIN", 0.0)
    worker = kind(dsn)
    worker.handler("mail", flush_claims=False, lease=0.3)(as_handler(lambda payload: None))
    with working(worker):
        client.admin.alter_queue("mail", max_leased=5)
        wait_until(lambda: "claims are flushed from now on" in caplog.text)
        client.enqueue("mail", 1)
        wait_until(lambda: finished(client) == 1)
    assert worker._handlers.by_queue["mail"].flush_claims
