"""A consumer that has nothing to do sleeps, and misses nothing: `poll` is ten minutes here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.consumer import AsyncConsumer, Consumer
from support.waiting import PATIENCE, wait_until
from support.working import handler_for, kill_backends, unreachable, working

Kind = type[Consumer] | type[AsyncConsumer]

OTHER = """
import sys, time
from pgq.consumer import Consumer

consumer = Consumer("all", conninfo=sys.argv[1], poll=600)


@consumer.handler("events", lease=3)
def handle(payload):
    print("has it", flush=True)
    time.sleep(600)


consumer.run()
"""
SLEEPS = """
    select count(*) from pg_stat_activity
    where application_name = 'pgq consumer' and state = 'idle' and query like '%next_poll%'
        and datname = current_database()
"""
BEAT = "select beat from pgq.worker"


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    """A client with a topic of two partitions that notifies, and a group."""
    connection.execute("delete from pgq.worker")
    client = Client(connection)
    client.admin.create_topic("events", partitions=2, notify=True)
    client.admin.create_group("events", "all")
    return client


class Taken:
    """The payloads of messages, and when their handler began."""

    def __init__(self) -> None:
        self.at: dict[Any, datetime] = {}

    def __call__(self, payload: Any) -> None:
        self.at[payload] = datetime.now(timezone.utc)

    def wait_for(self, payload: Any) -> datetime:
        """When the handler has begun with it."""
        wait_until(lambda: payload in self.at, PATIENCE, f"for {payload}")
        return self.at[payload]


@contextmanager
def idle(client: Client, dsn: str, kind: Kind) -> Iterator[Taken]:
    """Within this block a consumer runs that has found nothing, and sleeps."""
    taken = Taken()
    consumer = kind("all", conninfo=dsn, poll=600)
    consumer.handler("events")(handler_for(kind, taken))
    with working(consumer):
        wait_until(lambda: client.connection.execute(SLEEPS).fetchall() != [(0,)], PATIENCE)
        yield taken


def test_new_messages(dsn: str, client: Client, kind: Kind) -> None:
    with idle(client, dsn, kind) as taken:
        wait_until(
            lambda: client.connection.execute(BEAT).fetchall() == [(timedelta(minutes=2),)],
            PATIENCE,
        )
        for number in range(4):
            client.publish("events", number, partition=number % 2)
            taken.wait_for(number)


def test_a_restricted_topic(dsn: str, client: Client, kind: Kind) -> None:
    """Its notifications have no name."""
    client.admin.alter_topic("events", restricted=True)
    with idle(client, dsn, kind) as taken:
        client.publish("events", 1)
        taken.wait_for(1)


def test_another_member_was_killed(dsn: str, client: Client, kind: Kind) -> None:
    """Its messages are handled when its lease ends, though nothing tells so."""
    client.publish("events", "message", partition=0)
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER, dsn], stdout=subprocess.PIPE, env=os.environ, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "has it\n"
        with idle(client, dsn, kind) as taken:
            other.send_signal(signal.SIGKILL)
            other.wait(PATIENCE)
            leased_until = client.next_poll("events", "all")
            assert leased_until is not None
            assert -0.5 < (taken.wait_for("message") - leased_until).total_seconds() < 2.0
    finally:
        other.kill()
        other.wait(PATIENCE)
        other.stdout.close()


def test_what_comes_back_earlier(dsn: str, client: Client, kind: Kind) -> None:
    """By release_poll, by nack_offsets with a delay, and by seek."""
    client.publish("events", "message", partition=0)
    [leased] = client.poll("events", "all", lease=timedelta(hours=1))
    with idle(client, dsn, kind) as taken:
        client.release_poll("events", "all", 0, leased.lease_token)
        taken.wait_for("message")
        taken.at.clear()
        client.admin.seek("events", "all", start="earliest")
        taken.wait_for("message")
    client.publish("events", "delayed", partition=0)
    [leased] = client.poll("events", "all", lease=timedelta(hours=1))
    with idle(client, dsn, kind) as taken:
        client.nack_offsets(
            "events", "all", 0, lease_token=leased.lease_token, delay=timedelta(seconds=1)
        )
        taken.wait_for("delayed")


def test_a_lost_connection(dsn: str, client: Client, kind: Kind) -> None:
    """What comes while nobody listens is found."""
    with idle(client, dsn, kind) as taken:
        with unreachable(client.connection, dsn, "pgq consumer: leases"):
            client.publish("events", "meanwhile")
            taken.wait_for("meanwhile")
        kill_backends(client.connection, "pgq consumer%")
        client.publish("events", "without any")
        taken.wait_for("without any")
