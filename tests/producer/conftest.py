"""A database that these tests share, with nothing in it when a test begins."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from pgq import Client
from support.working import emptied


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """The connection string of a database with pgq and nothing in it."""
    return emptied(shared_dsn)


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    """A client with a topic, a group and a queue."""
    client = Client(connection)
    client.admin.create_topic("events", partitions=4)
    client.admin.create_group("events", "all")
    client.admin.create_queue("mail")
    return client
