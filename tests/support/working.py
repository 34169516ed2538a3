"""Workers in tests: both kinds, in a thread each."""

from __future__ import annotations

import asyncio
import inspect
import threading
import typing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest

from pgq import Client, LeaseLost
from pgq.consumer import AsyncConsumer, Consumer
from pgq.worker import AsyncWorker, Worker
from support.waiting import PATIENCE, aside, wait_until

__all__ = [
    "Gate",
    "Started",
    "emptied",
    "handler_for",
    "kill_backends",
    "looks",
    "role_for",
    "states",
    "unreachable",
    "working",
]


class Started:
    """A worker that runs in a thread."""

    def __init__(self, worker: Worker | AsyncWorker | Consumer | AsyncConsumer) -> None:
        self.worker = worker
        self._loop: asyncio.AbstractEventLoop | None = None
        self.ended: Future[Any] = aside(self._run)

    def _run(self) -> None:
        if isinstance(self.worker, (Worker, Consumer)):
            self.worker.run()
            return

        async def run() -> None:
            self._loop = asyncio.get_running_loop()
            await self.worker.run()  # type: ignore[misc]

        asyncio.run(run())

    def stop(self) -> None:
        """Tell it to stop; twice: to stop at once."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self.worker.stop)
        else:
            self.worker.stop()

    def join(self) -> None:
        """Wait for its end."""
        self.ended.result(2 * PATIENCE)


class Gate:
    """Handlers of both kinds that wait until they are let go."""

    def __init__(self, kind: type) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.stopped: list[int] = []
        self.open = threading.Event()
        self.handler: Callable[..., Any] = self.thread if kind is Worker else self.task

    def thread(self, payload: int, job: Any) -> None:
        self.begun.append(payload)
        while not self.open.wait(0.01):
            try:
                job.check()
            except LeaseLost:
                self.stopped.append(payload)
                raise
        self.ended.append(payload)

    async def task(self, payload: int, job: Any) -> None:
        self.begun.append(payload)
        try:
            while not self.open.is_set():
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.stopped.append(payload)
            raise
        self.ended.append(payload)


def states(client: Client) -> tuple[int, int]:
    """How many jobs are ready, and how many are leased."""
    [stats] = client.monitor.queue_stats("mail")
    return stats.ready, stats.leased


@contextmanager
def working(worker: Worker | AsyncWorker | Consumer | AsyncConsumer) -> Iterator[Started]:
    """Run a worker during the block, and stop it behind it."""
    started = Started(worker)
    try:
        wait_until(lambda: worker.running or started.ended.done(), 2 * PATIENCE, "for the worker")
        yield started
        started.stop()
        started.join()
    finally:
        if not started.ended.done():
            started.stop()
            started.stop()
            started.ended.exception(PATIENCE)


def kill_backends(observer: psycopg.Connection[Any], name: str) -> int:
    """End the server processes of the connections with that name."""
    [(count,)] = observer.execute(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where application_name like %s and datname = current_database()",
        [name],
    ).fetchall()
    return int(count)


@contextmanager
def role_for(client: Client, name: str, functions: Iterable[str]) -> Iterator[None]:
    """A role that may call these functions, and no others."""
    try:
        client.connection.execute(f"create role {name}".encode())
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    called = ", ".join(f"pgq.{function}" for function in functions)
    client.connection.execute(f"grant usage on schema pgq to {name}".encode())
    client.connection.execute(f"grant execute on function {called} to {name}".encode())
    yield
    client.connection.execute(f"drop owned by {name}".encode())
    client.connection.execute(f"drop role {name}".encode())


def looks(client: Client, name: str) -> Callable[[], int]:
    """How often a slot on connections of that name has asked for its rights since."""
    seen: set[Any] = set()
    asked = (
        "select query_start from pg_stat_activity where application_name = %s"
        " and datname = current_database() and query like '%%has_schema_privilege%%'"
    )

    def count() -> int:
        seen.update(client.connection.execute(asked, [name]).fetchall())
        return len(seen)

    return count


@contextmanager
def unreachable(observer: psycopg.Connection[Any], dsn: str, name: str) -> Iterator[None]:
    """Nobody can connect to the observer's database; connections of that name are ended."""
    alter = f'alter database "{observer.info.dbname}" allow_connections '.encode()
    with psycopg.connect(dsn, dbname="postgres", autocommit=True) as other:
        other.execute(alter + b"false")
        try:
            kill_backends(observer, name)
            yield
        finally:
            other.execute(alter + b"true")


def emptied(dsn: str) -> str:
    """The same connection string, with nothing left in the database."""
    with psycopg.connect(dsn) as connection:
        client = Client(connection)
        # a topic that gets the dead letters of a group cannot be dropped
        for group in client.admin.list_groups():
            client.admin.drop_group(group.topic, group.consumer_group)
        for topic in client.admin.list_topics():
            client.admin.drop_topic(topic.topic)
        for schedule in client.schedules.list_schedules():
            client.schedules.drop_schedule(schedule.schedule)
        for queue in client.admin.list_queues():
            client.admin.drop_queue(queue.queue)
        connection.execute("delete from pgq.worker")
    return dsn


def handler_for(kind: type, function: Callable[..., Any]) -> Callable[..., Any]:
    """A handler of a plain function: for tasks, one that is a coroutine function."""
    if kind in (Worker, Consumer):
        return function

    async def handler(*arguments: Any) -> Any:
        await asyncio.sleep(0)
        return function(*arguments)

    handler.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    if getattr(function, "__annotations__", None):
        handler.__annotations__ = typing.get_type_hints(function)
    return handler
