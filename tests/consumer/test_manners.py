"""How a consumer behaves where its handlers, its lease, the server or its user do not go on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pydantic
import pytest

from pgq import Client
from pgq.consumer import AsyncConsumer, Consumer
from support.clock import Clock
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import handler_for, kill_backends, unreachable, working

Kind = type[Consumer] | type[AsyncConsumer]
As = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_until(condition: Callable[[], Any]) -> Any:
    return _wait_until(condition, 2 * PATIENCE)


def lag(client: Client) -> int:
    return sum(part.lag for part in client.monitor.group_lag("events"))


class Hanging:
    """Handlers of both kinds that hang at the first message until their lease is lost."""

    def __init__(self, kind: Kind) -> None:
        self.seen: list[str] = []
        self.done = threading.Event()
        self.handler: Callable[..., Any] = self.thread if kind is Consumer else self.task

    def thread(self, payload: int) -> None:
        self.seen.append("begun")
        if len(self.seen) == 1:
            # a thread cannot be stopped; what it has done is not committed
            self.done.wait(PATIENCE)

    async def task(self, payload: int) -> None:
        self.seen.append("begun")
        if len(self.seen) == 1:
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                self.seen.append("stopped")
                raise


def test_a_lost_lease_stops_the_handler(dsn: str, client: Client) -> None:
    hanging = Hanging(AsyncConsumer)
    consumer = AsyncConsumer("all", conninfo=dsn, concurrency=1)
    consumer.handler("events", lease=0.6)(hanging.handler)
    client.publish("events", 1)
    with working(consumer):
        wait_until(lambda: hanging.seen)
        client.admin.seek("events", "all", start="earliest")  # leases are lost by that
        wait_until(lambda: lag(client) == 0)
    assert hanging.seen == ["begun", "stopped", "begun"]


def test_a_lease_that_nobody_can_extend(dsn: str, client: Client, kind: Kind) -> None:
    """The server cannot be reached for so long that the lease has run out."""
    hanging = Hanging(kind)
    consumer = kind("all", conninfo=dsn, concurrency=1, poll=0.2)
    consumer.handler("events", lease=0.5)(hanging.handler)
    client.publish("events", 1)
    with working(consumer):
        wait_until(lambda: hanging.seen)
        with unreachable(client.connection, dsn, "pgq consumer%"):
            wait_until(lambda: all(lease.lost for lease in consumer._supervisor.claims.all()))
            hanging.done.set()
        wait_until(lambda: lag(client) == 0)
    stopped = ["stopped"] if kind is AsyncConsumer else []
    assert hanging.seen == ["begun", *stopped, "begun"]


def test_a_commit_of_what_somebody_else_has(dsn: str, client: Client, kind: Kind) -> None:
    """It is refused by the database: the other one's messages are not skipped."""
    begun, go = threading.Event(), threading.Event()

    def handle(payload: int) -> None:
        begun.set()
        assert go.wait(PATIENCE)

    consumer = kind("all", conninfo=dsn, concurrency=1)
    consumer.handler("events", lease=60.0)(handle)
    client.publish("events", 1, partition=0)
    with working(consumer) as started:
        assert begun.wait(PATIENCE)
        client.admin.seek("events", "all", start="earliest")
        [message] = client.poll("events", "all")
        started.stop()
        go.set()
        started.join()
    assert lag(client) == 1
    client.commit_offset("events", "all", 0, 1, lease_token=message.lease_token)
    assert lag(client) == 0


def test_handlers_that_wait_for_nothing_let_others_run(dsn: str, client: Client) -> None:
    """Coroutines that never await: heartbeats need the loop in the middle of a lease."""
    turns = 0
    seen: list[int] = []

    async def run() -> None:
        consumer = AsyncConsumer("all", conninfo=dsn, concurrency=1)

        @consumer.handler("events")
        async def handle(payload: int) -> None:
            time.sleep(0.011)
            seen.append(turns)
            if len(seen) == 20:
                consumer.stop()

        working = asyncio.create_task(consumer.run())
        while not working.done():
            nonlocal turns
            turns += 1
            await asyncio.sleep(0)
        await working

    client.publish_batch("events", list(range(20)), partition=1)
    asyncio.run(run())
    assert lag(client) == 0
    assert len({*seen}) == 20


class Note(TypedDict):
    text: str


class Model(pydantic.BaseModel):
    age: int


@pytest.mark.parametrize(
    ("annotation", "good", "bad", "where"),
    [
        (Note, {"text": "a"}, {"text": 1}, "text"),
        (Model, {"age": 1}, {"age": "old"}, "age"),
    ],
    ids=["TypedDict", "pydantic"],
)
def test_what_does_not_fit_goes_to_the_dead_letters(
    dsn: str, client: Client, kind: Kind, annotation: Any, good: Any, bad: Any, where: str
) -> None:
    """With an error that says where, and without waiting between its attempts."""
    client.admin.create_topic("dead", partitions=1)
    client.admin.alter_group("events", "all", max_attempts=3, dead_letter_topic="dead")
    got: list[Any] = []

    def handle(payload: Any) -> None:
        got.append(payload)

    async def handle_in_task(payload: Any) -> None:
        got.append(payload)

    function = handle if kind is Consumer else handle_in_task
    function.__annotations__ = {"payload": annotation}
    consumer = kind("all", conninfo=dsn)
    consumer.handler("events", backoff=600.0, backoff_max=600.0)(function)
    client.publish_batch("events", [bad, good], partition=0)
    with working(consumer):
        wait_until(lambda: lag(client) == 0)
    assert got == [annotation(**good)]
    [letter] = client.bulk.fetch_range("dead", 0, 1, 1)
    assert letter.payload == bad
    error = (letter.headers or {})["pgq_error"]
    assert f"the payload does not fit {annotation.__name__}: " in error
    assert where in error


PROGRAM = """
import {imports}
from pgq.consumer import {kind}

consumer = {kind}("all", conninfo={dsn!r}, concurrency=1)

@consumer.handler("events")
{how}def handle(payload):
    print("begun", payload, flush=True)
    {sleep}(0.3)
    print("ended", payload, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_process(
    dsn: str, client: Client, kind: Kind, tmp_path: Path, number: signal.Signals
) -> None:
    """`pgq work` runs a consumer as well; what it has done is committed, the rest given back."""
    tasks = kind is AsyncConsumer
    name = f"app_{kind.__name__.lower()}"
    (tmp_path / f"{name}.py").write_text(
        PROGRAM.format(
            imports="asyncio" if tasks else "time",
            kind=kind.__name__,
            dsn=dsn,
            how="async " if tasks else "",
            sleep="await asyncio.sleep" if tasks else "time.sleep",
        )
    )
    client.publish_batch("events", ["a", "b", "c"], partition=0)
    process = subprocess.Popen(
        [sys.executable, "-m", "pgq", "work", f"{name}:consumer"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun a\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 0, err
    assert out == "ended a\n"
    assert lag(client) == 2
    assert [message.payload for message in client.poll("events", "all")] == ["b", "c"]


def test_a_topic_that_is_not_there_is_said(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "app_nowhere.py").write_text(
        PROGRAM.format(
            imports="time", kind="Consumer", dsn=dsn, how="", sleep="time.sleep"
        ).replace("events", "nowhere")
    )
    refused = subprocess.run(
        [sys.executable, "-m", "pgq", "work", "app_nowhere:consumer", "--strict"],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
    )
    assert refused.returncode == 1
    assert refused.stderr.startswith('pgq: topic "nowhere" does not exist, or role ')
    assert len(refused.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_killed_process_repeats_what_was_not_committed(
    dsn: str, client: Client, clock: Clock, kind: Kind, tmp_path: Path
) -> None:
    """Another one has its messages in their order when the leases are over."""
    tasks = kind is AsyncConsumer
    name = f"killed_{kind.__name__.lower()}"
    (tmp_path / f"{name}.py").write_text(
        PROGRAM.format(
            imports="asyncio" if tasks else "time",
            kind=kind.__name__,
            dsn=dsn,
            how="async " if tasks else "",
            sleep="await asyncio.sleep" if tasks else "time.sleep",
        )
    )
    client.publish_batch("events", ["a", "b", "c"], partition=0)
    process = subprocess.Popen(
        [sys.executable, "-m", "pgq", "work", f"{name}:consumer"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines == ["begun a\n", "ended a\n", "begun b\n"]
    finally:
        process.kill()
        process.communicate()
    clock.advance("1 hour")
    seen: list[str] = []
    consumer = kind("all", conninfo=dsn, poll=0.1)
    consumer.handler("events")(handler_for(kind, seen.append))
    with working(consumer):
        wait_until(lambda: lag(client) == 0)
    assert seen == ["a", "b", "c"]


def test_killed_connections_lose_nothing(
    dsn: str, client: Client, clock: Clock, kind: Kind, as_handler: As
) -> None:
    """What was not committed is repeated, and each partition stays in its order."""
    seen: list[int] = []
    consumer = kind("all", conninfo=dsn, concurrency=2, poll=0.1)
    consumer.handler("events", max_messages=10, lease=300.0)(as_handler(seen.append))
    with working(consumer):
        for step in range(3):
            before = len(seen)
            client.publish_batch("events", [*range(step * 40, step * 40 + 40)], partition=step)
            wait_until(lambda: len(seen) > before + 5)  # noqa: B023
            kill_backends(client.connection, "pgq consumer")
            clock.advance("301 seconds")
        wait_until(lambda: lag(client) == 0)
    assert {*seen} == {*range(120)}
    for step in range(3):
        first = [*dict.fromkeys(number for number in seen if number // 40 == step)]
        assert first == sorted(first)
