"""The same for handlers in asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from pgq import AsyncClient, Client
from pgq.testing import (
    assert_enqueued_async,
    move_clock_async,
    reset_clock_async,
    work_off_async,
)
from pgq.worker import AsyncRunningJob, Handlers, RunningJob


@pytest.fixture
def run(dsn: str, connection: psycopg.Connection[Any]) -> Callable[..., Any]:
    """Run a test with a client in a transaction that is rolled back."""
    Client(connection).admin.create_queue("mail", backoff=60)
    connection.execute("create table sent (n integer primary key)")

    def run(test: Callable[[AsyncClient], Awaitable[None]]) -> None:
        async def inside() -> None:
            async with await psycopg.AsyncConnection.connect(dsn) as session:
                await test(AsyncClient(session))
                await session.rollback()

        asyncio.run(inside())
        assert connection.execute("select from sent").fetchall() == []
        assert Client(connection).jobs.peek_jobs("mail") == []

    return run


def test_coroutines_are_awaited_in_the_transaction(run: Callable[..., Any]) -> None:
    async def test(client: AsyncClient) -> None:
        handlers = Handlers()

        @handlers.handler("mail")
        async def send(payload: dict[str, int], job: AsyncRunningJob) -> int:
            async def write() -> int:
                await client.connection.execute("insert into sent values (%s)", [payload["n"]])
                return payload["n"]

            return await job.run_once("row", write)

        await client.enqueue_batch("mail", [{"n": n} for n in (1, 1, 2)])
        done = await work_off_async(handlers, client)
        assert [(one.outcome, one.result) for one in done] == [
            ("done", 1),
            ("failed", None),
            ("done", 2),
        ]
        assert isinstance(done[1].error, psycopg.errors.UniqueViolation)
        await assert_enqueued_async(client, "mail", {"n": 1}, count=1)
        with pytest.raises(AssertionError, match='"mail" has 0 jobs'):
            await assert_enqueued_async(client, "mail", {"n": 2})
        # `run_once` was begun: it does not begin again, though its row was undone with the note
        done = await work_off_async(handlers, client, until_empty=True)
        assert {one.outcome for one in done} == {"failed"}

    run(test)


def test_plain_functions_run_in_threads(run: Callable[..., Any]) -> None:
    async def test(client: AsyncClient) -> None:
        handlers = Handlers()

        @handlers.handler("mail")
        def send(payload: Any, job: RunningJob) -> Any:
            return job.run_once("mail", lambda: payload)

        await client.enqueue("mail", 7)
        (attempt,) = await work_off_async(handlers, client.connection)
        assert (attempt.outcome, attempt.result) == ("done", 7)

    run(test)


def test_the_clock(run: Callable[..., Any]) -> None:
    async def test(client: AsyncClient) -> None:
        handlers = Handlers()

        @handlers.handler("mail")
        async def send(payload: Any) -> None: ...

        await client.enqueue("mail", {}, delay=60)
        await move_clock_async(client, 59)
        assert await work_off_async(handlers, client) == []
        await move_clock_async(client, 1)
        assert len(await work_off_async(handlers, client)) == 1
        await reset_clock_async(client)

    run(test)


def test_the_end_of_its_task_is_raised(run: Callable[..., Any]) -> None:
    async def test(client: AsyncClient) -> None:
        handlers = Handlers()

        @handlers.handler("mail")
        async def send(payload: Any) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(60)

        await client.enqueue("mail", {})
        with pytest.raises(asyncio.CancelledError):
            await work_off_async(handlers, client)

    run(test)
