"""What a handler or the server does to a consumer, and what goes on beside it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pgq import Client
from pgq.consumer import AsyncConsumer, Consumer
from support.away import read_only, read_only_at_once
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import Started, unreachable, working

Kind = type[Consumer] | type[AsyncConsumer]
As = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_until(condition: Callable[[], Any]) -> None:
    _wait_until(condition, 2 * PATIENCE)


def lag(client: Client) -> int:
    return sum(partition.lag for partition in client.monitor.group_lag("events"))


def said(caplog: Any, text: str) -> bool:
    return any(text in record.getMessage() for record in caplog.records)


class NoText(Exception):
    def __str__(self) -> str:
        return self.missing.text  # type: ignore[attr-defined, no-any-return]


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """What handlers wait for that hang; it comes at the end."""
    event = threading.Event()
    yield event
    event.set()


ERRORS = [NoText(), GeneratorExit(), asyncio.CancelledError(), SystemExit(3)]


@pytest.mark.parametrize("batch", [None, 10])
def test_errors_that_raise(
    dsn: str, client: Client, kind: Kind, as_handler: As, batch: int | None
) -> None:
    """Each message goes to the dead letters, and what is beside it is handled."""
    done: list[int] = []

    def handle(payload: Any) -> None:
        for number in payload if batch else [payload]:
            if number < len(ERRORS):
                raise ERRORS[number]
            done.append(number)

    client.admin.create_topic("dead", partitions=1)
    client.admin.alter_group("events", "all", max_attempts=1, dead_letter_topic="dead")
    for number in range(len(ERRORS) + 4):
        client.publish("events", number, partition=number % 4)
    consumer = kind("all", conninfo=dsn, concurrency=2)
    consumer.handler("events", batch=batch)(as_handler(handle))
    with working(consumer):
        wait_until(lambda: lag(client) == 0)
    assert {*done} == {*range(len(ERRORS), len(ERRORS) + 4)}
    letters = client.bulk.fetch_range("dead", 0, 1, len(ERRORS))
    errors = {letter.payload: (letter.headers or {})["pgq_error"] for letter in letters}
    assert errors[0] == "NoText: its str() raises"


@pytest.mark.parametrize("counted", [True, False])
def test_a_handler_that_hangs(
    dsn: str, client: Client, kind: Kind, stuck: threading.Event, counted: bool, caplog: Any
) -> None:
    """Its messages are tried again; a thread that was given up is counted until it returns."""
    calls: list[int] = []

    def handle(number: int) -> None:
        calls.append(number)
        if number == 0 and calls.count(0) == 1:
            stuck.wait(2 * PATIENCE)

    client.admin.create_topic("dead", partitions=1)
    if counted:
        client.admin.alter_group("events", "all", max_attempts=3, dead_letter_topic="dead")
    for number in range(4):
        client.publish("events", number, partition=number)
    consumer = kind("all", conninfo=dsn, concurrency=1, heartbeat=0.05)
    consumer.handler("events", timeout=0.05, backoff=0.01)(handle)
    with working(consumer):
        wait_until(lambda: lag(client) == 0)
        wait_until(lambda: client.monitor.list_workers()[0].details.get("abandoned") == 1)
    assert sorted(calls) == [0, 0, 1, 2, 3]
    assert said(caplog, "is given up after 0.05 s")
    assert said(caplog, "timeout of 0.05 s")


def test_a_coroutine_that_hangs(dsn: str, client: Client) -> None:
    calls: list[int] = []

    async def handle(number: int) -> None:
        calls.append(number)
        if len(calls) == 1:
            await asyncio.sleep(2 * PATIENCE)

    client.publish("events", 0)
    consumer = AsyncConsumer("all", conninfo=dsn, timeout=0.05)
    consumer.handler("events", backoff=0.01)(handle)
    with working(consumer):
        wait_until(lambda: lag(client) == 0)
    assert calls == [0, 0]


def test_it_begins_when_the_server_is_there(
    dsn: str, client: Client, kind: Kind, as_handler: As, caplog: Any
) -> None:
    done: list[int] = []
    consumer = kind("all", conninfo=dsn)
    consumer.handler("events")(as_handler(done.append))
    client.publish("events", 1)
    with unreachable(client.connection, dsn, "%consumer%"):
        started = Started(consumer)
        wait_until(lambda: said(caplog, "database unavailable"))
        assert not started.ended.done()
    wait_until(lambda: done == [1])
    started.stop()
    started.join()


@pytest.fixture(params=["new sessions", "all sessions"])
def refusing(request: pytest.FixtureRequest, client: Client) -> Callable[[], Any]:
    """The database refuses to write in a block; with the first, its sessions do so for ever."""
    if request.param == "new sessions":
        return lambda: read_only(client.connection, "pgq consumer%")
    request.getfixturevalue("server")
    return lambda: read_only_at_once(client.connection)


def test_read_only_for_a_while(
    dsn: str, client: Client, kind: Kind, as_handler: As, refusing: Any, caplog: Any
) -> None:
    """Sessions that refuse to write are left, and no message comes twice."""
    caplog.set_level(logging.INFO)
    done: Counter[int] = Counter()
    go = threading.Event()

    def handle(number: int) -> None:
        done[number] += 1
        if number == 2:
            go.wait(PATIENCE)

    consumer = kind("all", conninfo=dsn, concurrency=2, heartbeat=0.1)
    consumer.handler("events", max_messages=3)(as_handler(handle))
    for number in range(20):
        client.publish("events", number, partition=number % 2)
    with working(consumer):
        wait_until(lambda: 2 in done)
        with refusing():
            go.set()
            wait_until(lambda: said(caplog, "is read-only for now"))
        wait_until(lambda: lag(client) == 0)
    assert {*done.values()} == {1}
