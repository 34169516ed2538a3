"""Each test runs with the worker in threads and the one in tasks, in a database that they share."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.worker import AsyncWorker, Worker
from support.clock import Clock


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """The connection string of a database with pgq and no queue."""
    with psycopg.connect(shared_dsn) as connection:
        client = Client(connection)
        for queue in client.list_queues():
            client.drop_queue(queue.queue)
    return shared_dsn


@pytest.fixture(params=[Worker, AsyncWorker], ids=["threads", "tasks"])
def kind(request: pytest.FixtureRequest) -> type[Worker] | type[AsyncWorker]:
    """The class of the worker."""
    found: type[Worker] | type[AsyncWorker] = request.param
    return found


@pytest.fixture
def as_handler(kind: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a handler of a plain function: for tasks, one that is a coroutine function."""

    def make(function: Callable[..., Any]) -> Callable[..., Any]:
        if kind is Worker:
            return function

        async def handler(*arguments: Any) -> Any:
            await asyncio.sleep(0)
            return function(*arguments)

        handler.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        handler.__annotations__ = getattr(function, "__annotations__", {})
        return handler

    return make


@pytest.fixture
def clock(dsn: str, shared_clock: Clock) -> Clock:
    """The clock of that database."""
    return shared_clock
