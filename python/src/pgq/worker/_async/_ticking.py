"""Writing the ticks of schedules, beside the jobs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import psycopg

from pgq._async import AsyncClient
from pgq._runtime._async._due import seconds_until
from pgq._runtime._async._pool import connect
from pgq._runtime._heartbeats import missing
from pgq._runtime._times import Backoff
from pgq.messages import ScheduleRun
from pgq.worker._async._supervisor import Supervisor
from pgq.worker._reports import logger

__all__ = ["Ticking"]

EVERY = 1.0
"""Seconds between two calls of `run_schedules` at least."""
SELDOM = 120.0
"""Seconds at most: nothing notifies when a schedule is created or changed."""
MOST = 100
"""Ticks of one call: what it has found, others leave alone until it has committed."""
LONGEST = "30s"
"""A call that waits so long, for somebody who publishes to the same place, is given up."""


class Ticking:
    """Calls `run_schedules` when it has something to write, on a connection of its own."""

    def __init__(
        self,
        supervisor: Supervisor,
        conninfo: str,
        options: Mapping[str, Any],
        poll: float | None,
    ) -> None:
        self._supervisor = supervisor
        self._conninfo = conninfo
        self._options = options
        self._wakeup = supervisor.new_wakeup()
        self._longest = max(EVERY, min(poll or EVERY, SELDOM))
        self._asks = self._longest > EVERY
        self._backoff = Backoff(EVERY, 10.0)

    async def run(self) -> None:
        """Write what is due; an error is logged, and it is tried again."""
        while not self._supervisor.state.stopping:
            try:
                connection = await connect(self._conninfo, self._options, "pgq worker: schedules")
                try:
                    await self._tick(AsyncClient(connection))
                finally:
                    await connection.close()
            except Exception as error:
                wait = self._backoff.next()
                known = isinstance(error, psycopg.Error)
                logger.error(
                    "schedules do not run, again in %.1f s: %s", wait, error, exc_info=not known
                )
                await self._pause(wait)

    async def _tick(self, client: AsyncClient) -> None:
        while not self._supervisor.state.stopping:
            left = await self._left(client)
            if left > 0:
                await self._pause(left)
                continue
            runs = await client.retry(_run)
            self._backoff.reset()
            for run in runs:
                if run.error is not None:
                    logger.warning("schedule %s: %s", run.schedule, run.error)
            if len(runs) < MOST:
                await self._pause(EVERY)

    async def _left(self, client: AsyncClient) -> float:
        """Seconds until a tick is due, `poll` at most. With a short one it is not worth asking."""
        if not self._asks:
            return 0.0
        try:
            left = await seconds_until(client, "pgq.next_run()", [])
        except psycopg.Error as error:
            if not missing(error):
                raise
            self._asks = False
            return 0.0
        return self._longest if left is None else min(left, self._longest)

    async def _pause(self, wait: float) -> None:
        """Woken when the worker stops, and now and then for nothing."""
        end = time.monotonic() + wait
        while not self._supervisor.state.stopping and (left := end - time.monotonic()) > 0:
            await self._wakeup.wait(left)


async def _run(client: AsyncClient) -> list[ScheduleRun]:
    await client.connection.execute(f"set local statement_timeout = '{LONGEST}'".encode())
    return await client.schedules.run_schedules(MOST)
