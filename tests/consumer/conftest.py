"""Each test runs with the consumer in threads and the one in tasks, in a database they share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.consumer import AsyncConsumer, Consumer
from support.clock import Clock
from support.working import emptied, handler_for


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """The connection string of a database with pgq and no topic."""
    return emptied(shared_dsn)


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
    """Make a handler of a plain function."""
    return partial(handler_for, kind)


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    """A client with a topic of four partitions and a group."""
    client = Client(connection)
    client.admin.create_topic("events", partitions=4)
    client.admin.create_group("events", "all")
    return client
