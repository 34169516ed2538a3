"""A handler that does not return is given up, and its slot goes on."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq import Client, LeaseLost
from pgq.worker import AsyncWorker, Worker
from support.clock import Clock
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_until(condition: Callable[[], Any]) -> None:
    _wait_until(condition, 2 * PATIENCE)


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", max_attempts=1, backoff=timedelta(milliseconds=10))
    return client


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """What handlers wait for that hang; it comes at the end."""
    event = threading.Event()
    yield event
    event.set()


def details(client: Client) -> list[Any]:
    return [worker.details for worker in client.monitor.list_workers()]


@pytest.mark.parametrize("mine", [True, False], ids=["of the handler", "of the worker"])
def test_a_thread_is_given_up(
    dsn: str, client: Client, kind: Kind, stuck: threading.Event, mine: bool, caplog: Any
) -> None:
    """Its job has failed, others are done beside it, and it is counted until it returns."""
    done: list[int] = []

    def handle(number: int) -> None:
        if number == 0:
            stuck.wait(2 * PATIENCE)
        done.append(number)

    limit = timedelta(milliseconds=50)
    worker = kind(dsn, concurrency=1, heartbeat=0.05, timeout=None if mine else limit)
    worker.handler("mail", timeout=limit if mine else None, lease=0.5)(handle)
    client.enqueue_batch("mail", [0, 1, 2])
    with working(worker):
        wait_until(lambda: sorted(done) == [1, 2])
        [letter] = client.jobs.dead_letters("mail")
        assert "HandlerTimeout" in (letter.last_error or "")
        assert "timeout of 0.05 s" in (letter.last_error or "")
        wait_until(lambda: details(client) == [{"abandoned": 1}])
        stuck.set()
        wait_until(lambda: details(client) == [None])
    assert 0 in done
    assert "is given up after 0.05 s" in caplog.text
    assert [job.payload for job in client.jobs.archived_jobs("mail")] == [1, 2]


def test_a_coroutine_is_cancelled(dsn: str, client: Client) -> None:
    cancelled: list[int] = []

    async def handle(number: int) -> None:
        try:
            await asyncio.sleep(2 * PATIENCE if number == 0 else 0)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    worker = AsyncWorker(dsn, concurrency=1, timeout=0.05, heartbeat=0.05)
    worker.handler("mail")(handle)
    client.enqueue_batch("mail", [0, 1])
    with working(worker):
        wait_until(lambda: client.jobs.archived_jobs("mail") and client.jobs.dead_letters("mail"))
        assert cancelled == [0]
        wait_until(lambda: details(client) == [None])


def test_a_coroutine_that_swallows_it_is_given_up(
    dsn: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgq._runtime._tasks.TIDY", 0.05)
    go = asyncio.Event()
    seen: list[int] = []

    async def handle(number: int) -> None:
        while number == 0 and not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                seen.append(number)

    async def free(number: int) -> None:
        go.set()

    worker = AsyncWorker(dsn, concurrency=1, heartbeat=0.05)
    worker.handler("mail", timeout=0.05)(handle)
    client.admin.create_queue("free")
    worker.handler("free")(free)
    client.enqueue_batch("mail", [0, 1])
    with working(worker):
        wait_until(lambda: client.jobs.archived_jobs("mail") and client.jobs.dead_letters("mail"))
        wait_until(lambda: details(client) == [{"abandoned": 1}])
        client.enqueue("free", 1)
        wait_until(lambda: details(client) == [None])
    assert seen == [0]


def test_what_was_given_up_can_notice(dsn: str, client: Client, kind: Kind) -> None:
    """`check` raises in it as it does after a lost lease, and nothing that it does counts."""
    noticed = threading.Event()

    def handle(number: int, job: Any) -> None:
        while True:
            try:
                job.check()
            except LeaseLost:
                noticed.set()
                raise
            noticed.wait(0.01)

    worker = kind(dsn, concurrency=1, timeout=0.05)
    worker.handler("mail")(handle)
    client.enqueue("mail", 0)
    with working(worker):
        assert noticed.wait(2 * PATIENCE)
        wait_until(lambda: client.jobs.dead_letters("mail"))


def test_a_batch_and_what_is_behind_it(
    dsn: str, client: Client, kind: Kind, stuck: threading.Event
) -> None:
    """All jobs of the call have failed; those that were only claimed have not."""
    done: list[int] = []

    def handle(numbers: list[int]) -> None:
        if 0 in numbers:
            stuck.wait(2 * PATIENCE)
        done.extend(numbers)

    worker = kind(dsn, concurrency=1, timeout=0.05)
    worker.handler("mail", batch=2)(handle)
    client.enqueue_batch("mail", [0, 1, 2, 3])
    with working(worker):
        wait_until(lambda: done == [2, 3])
        wait_until(lambda: len(client.jobs.dead_letters("mail")) == 2)


def test_the_job_is_tried_again(
    dsn: str, client: Client, kind: Kind, stuck: threading.Event, clock: Clock
) -> None:
    """After the backoff of its queue, without waiting for the end of its lease."""
    attempts: list[int] = []

    def handle(number: int, job: Any) -> None:
        attempts.append(job.attempt)
        if job.attempt == 1:
            stuck.wait(2 * PATIENCE)

    client.admin.alter_queue("mail", max_attempts=3)
    worker = kind(dsn, concurrency=1, timeout=0.05)
    worker.handler("mail", prefetch=2, lease=300)(handle)
    client.enqueue("mail", 0)
    with working(worker):
        wait_until(lambda: client.jobs.archived_jobs("mail"))
    assert attempts == [1, 2]


def test_one_thread_serves_many_calls(dsn: str, client: Client) -> None:
    """What a handler keeps for its thread, a connection say, is made once."""
    names: set[int] = set()
    worker = Worker(dsn, concurrency=1, timeout=PATIENCE)
    worker.handler("mail")(lambda number: names.add(threading.get_ident()))
    client.enqueue_batch("mail", [*range(20)])
    with working(worker):
        wait_until(lambda: len(client.jobs.archived_jobs("mail")) == 20)
    assert len(names) == 1


@pytest.mark.parametrize("error", [TimeoutError("of its own"), SystemExit(3), StopIteration(1)])
def test_what_a_handler_raises_within_its_time(
    dsn: str, client: Client, kind: Kind, as_handler: As, error: BaseException, caplog: Any
) -> None:
    def handle(number: int) -> None:
        raise error

    caplog.set_level(logging.WARNING)
    worker = kind(dsn, timeout=PATIENCE)
    worker.handler("mail")(as_handler(handle))
    client.enqueue("mail", 0)
    with working(worker):
        wait_until(lambda: client.jobs.dead_letters("mail"))
    assert "given up" not in caplog.text


@pytest.mark.parametrize("timeout", [0, -1])
def test_what_is_refused(kind: Kind, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout is"):
        kind("", timeout=timeout)
    with pytest.raises(ValueError, match="timeout is"):
        kind("").handler("mail", timeout=timeout)(lambda number: None)


PROGRAM = """
import threading
from pgq.worker import Handlers

handlers = Handlers()

@handlers.handler("mail")
def handle(number):
    print("begun", flush=True)
    threading.Event().wait(600)

@handlers.handler("free")
{how}def free(number):
    print("free", flush=True)
"""


@pytest.mark.parametrize("how", ["", "async "], ids=["threads", "tasks"])
def test_a_process_ends_without_it(dsn: str, client: Client, how: str, tmp_path: Path) -> None:
    client.admin.create_queue("free")
    client.enqueue("mail", 0)
    (tmp_path / "app_hangs.py").write_text(PROGRAM.format(how=how))
    command = [sys.executable, "-m", "pgq", "work", "app_hangs:handlers", "--database", dsn]
    process = subprocess.Popen(
        ["env", f"PYTHONPATH={tmp_path}", *command, "--timeout", "0.1", "--concurrency", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: client.jobs.dead_letters("mail"))
        process.terminate()
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert (process.returncode, out) == (0, "begun\n"), err
