"""These tests share a database, in which nothing is when a test begins."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from pgq import Client
from support.clock import Clock


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """The connection string of a database with pgq and nothing in it."""
    with psycopg.connect(shared_dsn) as connection:
        client = Client(connection)
        for group in client.admin.list_groups():
            client.admin.drop_group(group.topic, group.consumer_group)
        for topic in client.admin.list_topics():
            client.admin.drop_topic(topic.topic)
        for queue in client.admin.list_queues():
            client.admin.drop_queue(queue.queue)
        for schedule in client.schedules.list_schedules():
            client.schedules.drop_schedule(schedule.schedule)
    return shared_dsn


@pytest.fixture
def clock(dsn: str, shared_clock: Clock) -> Clock:
    """The clock of that database."""
    return shared_clock


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    return Client(connection)


@pytest.fixture
def readings(client: Client) -> Client:
    """A client with a topic of one partition and a group."""
    client.admin.create_topic("readings", partitions=1)
    client.admin.create_group("readings", "sums")
    return client


@pytest.fixture
def mail(client: Client) -> Client:
    """A client with a queue."""
    client.admin.create_queue("mail")
    return client
