"""A push worker as a whole: its pushes, and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
from typing import Any

import psycopg

from pgq.push._beating import beating
from pgq.push._config import Config
from pgq.push._connections import Connections
from pgq.push._figures import Figures, NoFigures
from pgq.push._lease import DATABASE_AWAY
from pgq.push._logging import note
from pgq.push._worker import Worker

__all__ = ["PushWorker", "run"]

_LONGEST_PAUSE = 10.0
_CANCEL_AGAIN = 5.0
"""Seconds after which a task that was cancelled, and has not ended, is cancelled once more."""


class PushWorker:
    """Delivers what a configuration says; any number of them, anywhere, share the partitions."""

    def __init__(
        self, config: Config, *, database: str | None = None, figures: Figures | None = None
    ) -> None:
        self._config = config
        self._database = database if database is not None else config.database or ""
        self._figures = NoFigures() if figures is None else figures
        self._stop = asyncio.Event()
        self._now = asyncio.Event()

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Begin nothing more and end what is under way; called again, end it at once."""
        if self._stop.is_set():
            self._now.set()
        self._stop.set()

    async def run(self) -> None:
        """Deliver until `stop` is called.

        A database that is away is waited for. PushError, or an error of psycopg, when the database
        is there at the start, and what the configuration names is not.
        """
        connections = Connections(self._database)
        try:
            workers = [
                Worker(push, connections, stop=self._stop, figures=self._figures)
                for push in self._config.pushes
            ]
            await self._prepare(workers)
            note(logging.INFO, "started", pushes=[push.name for push in self._config.pushes])
            topics = [push.topic for push in self._config.pushes]
            async with beating(
                connections,
                topics,
                lambda: sum(worker.running for worker in workers),
                self._config.heartbeat,
            ):
                await self._deliver(workers)
            note(logging.INFO, "stopped")
        finally:
            await connections.close()

    async def _prepare(self, workers: list[Worker]) -> None:
        failures = 0
        for worker in workers:
            while not self._stop.is_set():
                try:
                    await worker.prepare()
                    break
                except DATABASE_AWAY as error:
                    pause = min(0.25 * 2.0 ** min(failures, 10), _LONGEST_PAUSE)
                    failures += 1
                    reason = type(error).__name__
                    if isinstance(error, psycopg.Error):
                        reason = str(error).strip().partition("\n")[0]
                    note(logging.WARNING, "database away", reason=reason, pause=pause)
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(
                            self._stop.wait(), timeout=pause * random.uniform(0.5, 1.0)
                        )

    async def _deliver(self, workers: list[Worker]) -> None:
        tasks = {asyncio.create_task(worker.run()) for worker in workers}
        stopping = asyncio.create_task(self._stop.wait())
        try:
            while not stopping.done() and tasks:
                done, _ = await asyncio.wait(
                    {*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done - {stopping}:
                    task.result()  # it ends before the stop by a mistake of this program alone
            now = asyncio.create_task(self._now.wait())
            left = asyncio.create_task(asyncio.wait(tasks))
            ends: set[asyncio.Task[Any]] = {now, left}
            await asyncio.wait(
                ends,
                timeout=self._config.grace,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in ends:
                task.cancel()
        finally:
            stopping.cancel()
            # Before Python 3.12 asyncio.wait_for loses a cancellation that comes with its result.
            left_over = tasks
            while left_over:
                for task in left_over:
                    task.cancel()
                _, left_over = await asyncio.wait(left_over, timeout=_CANCEL_AGAIN)
            await asyncio.gather(*tasks, return_exceptions=True)


def run(config: Config, *, database: str | None = None, figures: Figures | None = None) -> None:
    """Run a push worker until SIGTERM or SIGINT; a second one ends the requests under way."""

    async def work() -> None:
        worker = PushWorker(config, database=database, figures=figures)
        loop = asyncio.get_running_loop()

        def stop(number: signal.Signals) -> None:
            if worker.stopping:
                # a third one ends the process as if nobody had asked for the signal
                loop.remove_signal_handler(number)
            worker.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, number)
        await worker.run()

    asyncio.run(work())
