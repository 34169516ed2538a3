"""These tests share a database, which is empty of topics and queues when a test begins."""

from __future__ import annotations

import psycopg
import pytest

from pgq import Client
from support import Clock


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """The connection string of a database with pgq and nothing in it."""
    with psycopg.connect(shared_dsn) as connection:
        client = Client(connection)
        for topic in client.list_topics():
            client.drop_topic(topic.topic)
        for queue in client.list_queues():
            client.drop_queue(queue.queue)
    return shared_dsn


@pytest.fixture
def clock(dsn: str, shared_clock: Clock) -> Clock:
    """The clock of that database."""
    return shared_clock
