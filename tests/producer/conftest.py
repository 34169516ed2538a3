"""A database that these tests share, with nothing in it when a test begins."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from pgq import Client


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """The connection string of a database with pgq and nothing in it."""
    with psycopg.connect(shared_dsn) as connection:
        client = Client(connection)
        # a topic that gets the dead letters of a group cannot be dropped
        for group in client.list_groups():
            client.drop_group(group.topic, group.consumer_group)
        for topic in client.list_topics():
            client.drop_topic(topic.topic)
        for queue in client.list_queues():
            client.drop_queue(queue.queue)
    return shared_dsn


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    """A client with a topic, a group and a queue."""
    client = Client(connection)
    client.create_topic("events", partitions=4)
    client.create_group("events", "all")
    client.create_queue("mail")
    return client
