"""The connection beside the work: it extends leases, hears what has come, and sends heartbeats."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Protocol

import psycopg
from psycopg.errors import InsufficientPrivilege, ReadOnlySqlTransaction

from pgq._async import AsyncClient
from pgq._runtime._async._pool import connect, is_pooled
from pgq._runtime._async._rights import explained
from pgq._runtime._errors import Logger
from pgq._runtime._heartbeats import Heartbeats, missing
from pgq._runtime._rights import MissingRights
from pgq._runtime._tasks import Wakeup, notices, spawn
from pgq._runtime._times import LOOK_FOR, Backoff

__all__ = ["Keeper", "Kept"]

LOOK_AGAIN = 30.0
"""Seconds after which settings are read again; longer while there is nothing to do."""


class Kept(Protocol):
    """Whoever has leases that are to be kept."""

    missing: Mapping[str, str]
    """What is not there: settings are read often then."""

    def tick(self) -> float:
        """Seconds between two calls of `renew`."""

    async def refresh(self, client: AsyncClient) -> list[str]:
        """Read settings, at each connect and now and then; returns the channels to hear."""

    async def renew(self, client: AsyncClient, now: float) -> None:
        """Extend the leases that are due."""

    async def check_rights(self, client: AsyncClient) -> None:
        """Raise MissingRights when the role has lost rights that all the work needs."""

    def expire(self, now: float) -> None:
        """Give up the leases that have run out: the server could not be reached."""

    def idle(self) -> bool:
        """Whether there is nothing that is worked on."""

    def hears(self, channels: Collection[str]) -> None:
        """These channels are listened to."""

    def heard(self, channel: str, name: str) -> None:
        """Something has come."""

    def connected(self) -> None:
        """What has come while there was no connection was not heard."""

    def disconnected(self) -> None:
        """What comes is not heard until the next `connected`."""


class Keeper:
    """Runs until `stop`, on a connection of its own, and makes a new one when it is lost."""

    def __init__(
        self,
        kept: Kept,
        conninfo: str,
        options: Mapping[str, Any],
        name: str,
        heartbeats: Heartbeats,
        logger: Logger,
        calm: float = 0.0,
    ) -> None:
        """`calm`: seconds between two statements of a kind while there is nothing to do."""
        self._kept = kept
        self._heartbeats = heartbeats
        self._conninfo = conninfo
        self._options = options
        self._name = name
        self._logger = logger
        self._calm = calm
        self._idle = False
        self.connected = False
        """Whether it has a connection, on which the settings were read."""
        self._wakeup = Wakeup()
        self._watch_wakeup = Wakeup()
        self._stopped = False
        self._backoff = Backoff(0.1, 5.0)
        self._said = ""

    def stop(self) -> None:
        """Let `run` return."""
        self._stopped = True
        self._wakeup.wake()
        self._watch_wakeup.wake()

    def begun(self) -> None:
        """There is something to do: a pause that was longer for want of it ends."""
        if self._idle:
            self._idle = False
            self._wakeup.wake()

    async def run(self) -> None:
        """Keep the leases."""
        watching = spawn(self._watch, name="pgq-expiry")
        try:
            await self._keep_connected()
        finally:
            self.stop()
            self._wakeup.close()
            await watching.join(5.0)

    async def _watch(self) -> None:
        """Beside the calls: one of them may get no answer until long after a lease has run out."""
        while not self._stopped:
            self._kept.expire(time.monotonic())
            await self._watch_wakeup.wait(self._kept.tick())

    async def _keep_connected(self) -> None:
        while not self._stopped:
            try:
                connection = await connect(self._conninfo, self._options, self._name)
                client = AsyncClient(connection)
                try:
                    await self._keep(client)
                except InsufficientPrivilege:
                    await self._kept.check_rights(client)
                    raise
                finally:
                    self.connected = False
                    self._kept.disconnected()
                    await connection.close()
            except (psycopg.Error, UnicodeError) as error:
                wait = self._backoff.next()
                text = str(error).strip()
                said = text == self._said or isinstance(error, MissingRights)
                self._logger.log(
                    logging.DEBUG if said else logging.WARNING,
                    "heartbeats interrupted, again in %.1f s: %s",
                    wait,
                    text,
                )
                self._said = text
                await self._wakeup.wait(wait)

    async def _keep(self, client: AsyncClient) -> None:
        hearing: set[str] | None = None
        # there LISTEN would be that of a session which serves others a moment later
        pooled = await is_pooled(client.connection)
        if pooled:
            self._logger.info("through a pooler there are no notices: looks for itself")
        read_at = -LOOK_AGAIN
        while not self._stopped:
            now = time.monotonic()
            self._idle = self._kept.idle()
            calm = max(LOOK_AGAIN, self._calm if self._idle else 0.0)
            if now - read_at >= (LOOK_FOR if self._kept.missing else calm):
                read_at = now
                channels = {*await self._kept.refresh(client)}
                if pooled:
                    channels = set()
                before = hearing or set()
                for channel in channels - before:
                    await client.connection.execute(f"listen {channel}".encode())
                missed = hearing is None or not channels <= before
                hearing = before | channels
                self._kept.hears(hearing)
                if missed:
                    self._kept.connected()
            self.connected = True
            await self._kept.renew(client, now)
            await self._beat(client, now)
            self._backoff.reset()
            self._said = ""
            most = min(self._kept.tick(), LOOK_FOR if self._kept.missing else math.inf)
            wait = self._heartbeats.wait(time.monotonic(), most, idle=self._idle)
            for notice in await notices(client.connection, self._wakeup, wait):
                self._kept.heard(notice.channel, notice.payload)
        await self._leave(client)

    async def _beat(self, client: AsyncClient, now: float) -> None:
        """Tell that this process is alive. Leases come first, and do not depend on it."""
        if not self._heartbeats.due(now, idle=self._idle):
            return
        try:
            await client.heartbeat(self._heartbeats.name, **self._heartbeats.said())
            self._heartbeats.taken()
        except Exception as error:  # such as a name that the connection's encoding lacks
            if client.connection.closed or isinstance(error, ReadOnlySqlTransaction):
                self._heartbeats.again()
                raise
            if missing(error):
                await self._kept.check_rights(client)
                level = logging.DEBUG if self._heartbeats.refused(now) else logging.WARNING
                why = await explained(client.connection, error, ["heartbeat"])
                self._logger.log(
                    level, "sends no heartbeats, so list_workers will not show it: %s", why
                )
            else:
                self._logger.info("a heartbeat was not taken: %s", error)

    async def _leave(self, client: AsyncClient) -> None:
        """Whoever ends in order is not listed any more."""
        if self._heartbeats.on:
            with suppress(Exception):
                await client.monitor.delete_worker(self._heartbeats.name)
