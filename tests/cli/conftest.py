"""The command line in this process, and as one of its own, on a database with nothing in it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.__main__ import main
from support.clock import Clock
from support.command import PGQ, Done, Run


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
        for worker in client.monitor.list_workers():
            client.monitor.delete_worker(worker.worker)
    return shared_dsn


@pytest.fixture
def clock(dsn: str, shared_clock: Clock) -> Clock:
    """The clock of that database."""
    return shared_clock


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    return Client(connection)


@pytest.fixture
def pgq(
    dsn: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """Run a command in this process; ``given`` is what it reads."""
    monkeypatch.setenv("DATABASE_URL", dsn)
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments: str, given: bytes | str = b"") -> Done:
        content = given.encode() if isinstance(given, str) else given
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), "utf-8"))
        capfdbinary.readouterr()
        status = main(list(arguments))
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        done = Done(status, out.decode(), err.decode())
        assert "Traceback" not in done.err
        return done

    return run


@pytest.fixture
def process(dsn: str) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a command as a process of its own, with pipes; what a test leaves running is killed."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, **settings: Any) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "DATABASE_URL": dsn, **settings.pop("env", {})}
        environment.pop("PYTHONUNBUFFERED", None)
        running = subprocess.Popen(
            [*PGQ, *arguments],
            env=environment,
            **{
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                **settings,
            },
        )
        begun.append(running)
        return running

    yield start
    for running in begun:
        with running:
            running.kill()
