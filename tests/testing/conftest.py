"""A session that is rolled back, and a handler that writes in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.worker import Handlers
from support.session import Connect

Connection = psycopg.Connection[Any]


@pytest.fixture
def inner(connection: Connection, connect: Connect) -> Iterator[Connection]:
    """A session whose transaction is rolled back; the queue is there before."""
    Client(connection).admin.create_queue("mail", backoff=60, backoff_jitter=0)
    connection.execute("create table sent (n integer primary key)")
    with connect() as session:
        yield session
        if not session.closed:
            session.rollback()


@pytest.fixture
def handlers(inner: Connection) -> Handlers:
    """A handler that writes a row for its job, and returns its number twice."""
    handlers = Handlers()

    @handlers.handler("mail")
    def send(payload: dict[str, int]) -> int:
        inner.execute("insert into sent values (%s)", [payload["n"]])
        return payload["n"] * 2

    return handlers
