"""Each test runs with the consumer in threads and the one in tasks, in a database they share."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.consumer import AsyncConsumer, Consumer
from support.clock import Clock


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """The connection string of a database with pgq and no topic."""
    with psycopg.connect(shared_dsn) as connection:
        client = Client(connection)
        # a topic that gets the dead letters of a group cannot be dropped
        for group in client.list_groups():
            client.drop_group(group.topic, group.consumer_group)
        for topic in client.list_topics():
            client.drop_topic(topic.topic)
    return shared_dsn


@pytest.fixture
def clock(dsn: str, shared_clock: Clock) -> Clock:
    """The clock of that database."""
    return shared_clock


@pytest.fixture(params=[Consumer, AsyncConsumer], ids=["threads", "tasks"])
def kind(request: pytest.FixtureRequest) -> type[Consumer] | type[AsyncConsumer]:
    """The class of the consumer."""
    found: type[Consumer] | type[AsyncConsumer] = request.param
    return found


@pytest.fixture
def as_handler(kind: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a handler of a plain function: for tasks, one that is a coroutine function."""

    def make(function: Callable[..., Any]) -> Callable[..., Any]:
        if kind is Consumer:
            return function

        async def handler(*arguments: Any) -> Any:
            await asyncio.sleep(0)
            return function(*arguments)

        handler.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        handler.__annotations__ = getattr(function, "__annotations__", {})
        return handler

    return make


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    """A client with a topic of four partitions and a group."""
    client = Client(connection)
    client.create_topic("events", partitions=4)
    client.create_group("events", "all")
    return client
