"""What has to be done every minute: cleanup, and the ticks of schedules."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import psycopg
from psycopg.errors import InsufficientPrivilege, ReadOnlySqlTransaction

from pgq._async import AsyncClient
from pgq._runtime._async._due import seconds_until
from pgq._runtime._async._pool import connect
from pgq._runtime._async._rights import explained, lacking
from pgq._runtime._errors import Logger
from pgq._runtime._heartbeats import missing
from pgq._runtime._rights import HOUSEKEEPING
from pgq._runtime._state import State
from pgq._runtime._tasks import Wakeup
from pgq._runtime._times import Backoff
from pgq.messages import ScheduleRun

__all__ = ["Housekeeping"]

EVERY = 60.0
"""Seconds between two calls of cleanup. A new or changed schedule is seen as late as that: nothing
notifies of it."""
SELDOM = 120.0
"""The same of a worker with a `poll` that is as long."""
SOON = 1.0
"""Seconds between two calls of `run_schedules` at least."""
MOST = 100
"""Ticks of one call: what it has found, others leave alone until it has committed."""
LONGEST = "30s"
"""A call that waits so long, for a session that publishes to the same place, is given up."""


class Housekeeping:
    """Does it on a connection of its own until the state says to stop; any number may at once."""

    def __init__(
        self,
        conninfo: str,
        options: Mapping[str, Any],
        name: str,
        state: State,
        wakeup: Wakeup,
        logger: Logger,
        poll: float | None = None,
    ) -> None:
        self._connected = False
        self._is_new = True
        self._refused: set[str] = set()
        """The parts that failed for want of a right."""
        self._conninfo = conninfo
        self._options = options
        self._name = name
        self._state = state
        self._wakeup = wakeup
        self._logger = logger
        self._longest = max(EVERY, min(poll or EVERY, SELDOM))
        self._asks = True
        parts = ("connection", "schedules", "cleanup")
        self._due = dict.fromkeys(parts, 0.0)
        self._said = dict.fromkeys(parts, "")
        self._backoffs = {part: Backoff(1.0, EVERY) for part in parts}

    @property
    def ready(self) -> bool:
        """Whether it has a connection and its rights."""
        return self._connected and not self._refused

    async def run(self) -> None:
        """Do what is due; an error is logged, and it is tried again."""
        while not self._state.stopping:
            await self._attempt("connection", self._keep_connected)
            await self._pause("connection")

    async def _keep_connected(self) -> float:
        connection = await connect(self._conninfo, self._options, self._name)
        try:
            await self._keep(AsyncClient(connection))
        finally:
            self._connected = False
            await connection.close()
        return 0.0

    async def _keep(self, client: AsyncClient) -> None:
        """One part that fails, for want of a right, say, does not hold up the other."""
        parts = {"schedules": lambda: self._tick(client), "cleanup": lambda: self._clean(client)}
        self._connected = self._is_new = True
        while not self._state.stopping:
            for part, call in parts.items():
                if self._due[part] <= time.monotonic():
                    await self._attempt(part, call, client)
            self._said["connection"] = ""
            self._backoffs["connection"].reset()
            await self._pause(*parts)

    async def _attempt(
        self, part: str, call: Callable[[], Awaitable[float]], client: AsyncClient | None = None
    ) -> None:
        try:
            wait = await call()
            if part in self._refused:
                self._refused.discard(part)
                self._asks = True  # it may have got the right to that, too
            self._backoffs[part].reset()
            self._said[part] = ""
        except Exception as error:
            lost = client is not None and client.connection.closed
            if lost or (client is not None and isinstance(error, ReadOnlySqlTransaction)):
                raise
            wait = self._backoffs[part].next()
            text = str(error).strip()
            if client is not None:
                if isinstance(error, InsufficientPrivilege):
                    self._refused.add(part)
                text = await explained(client.connection, error, HOUSEKEEPING)
            self._logger.log(
                logging.DEBUG if text == self._said[part] else logging.ERROR,
                "housekeeping: %s failed, again in %.1f s: %s",
                part,
                wait,
                text,
                exc_info=not isinstance(error, psycopg.Error),
            )
            self._said[part] = text
        self._due[part] = time.monotonic() + wait

    async def _tick(self, client: AsyncClient) -> float:
        """Write the ticks that are due; returns the seconds until there may be more."""
        left = await self._left(client)
        if left > 0:
            # known before a tick is due, from the start of a connection and until it is granted
            if self._is_new or "schedules" in self._refused:
                if (await lacking(client.connection, ["run_schedules"])).functions:
                    raise InsufficientPrivilege("permission denied for function run_schedules")
                self._is_new = False
            return left
        runs = await client.retry(_run)
        for run in runs:
            if run.error is not None:
                self._logger.warning("schedule %s: %s", run.schedule, run.error)
        if len(runs) == MOST:
            return 0.0
        return SOON if self._asks else self._longest

    async def _left(self, client: AsyncClient) -> float:
        """Seconds until a tick is due; a role may have the right to write them alone."""
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

    async def _clean(self, client: AsyncClient) -> float:
        actions = await client.admin.cleanup()
        failed = [action for action in actions if action.action == "failed"]
        for action in failed:
            self._logger.warning("housekeeping: cleanup failed: %s", action)
        more = any(action.action == "more" for action in actions)
        # not all of many workers at once
        return 0.0 if more else self._longest * random.uniform(0.9, 1.0)

    async def _pause(self, *parts: str) -> None:
        """Woken when it is to stop, and now and then for nothing."""
        until = min(self._due[part] for part in parts)
        while not self._state.stopping and (left := until - time.monotonic()) > 0:
            await self._wakeup.wait(left)


async def _run(client: AsyncClient) -> list[ScheduleRun]:
    await client.connection.execute(f"set local statement_timeout = '{LONGEST}'".encode())
    return await client.schedules.run_schedules(MOST)
