"""Workers in tests: both kinds, in a thread each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from pgq.consumer import AsyncConsumer, Consumer
from pgq.worker import AsyncWorker, Worker
from support.waiting import PATIENCE, aside, wait_until

__all__ = ["Started", "kill_backends", "working"]


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


def threads(prefix: str) -> list[str]:
    """The names of the threads that run."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(prefix)]
