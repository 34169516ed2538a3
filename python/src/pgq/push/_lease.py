"""A partition that this worker has for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import NoReturn, TypeVar
from uuid import UUID

import psycopg

from pgq import AsyncClient
from pgq.errors import LeaseLost
from pgq.push._config import Push
from pgq.push._connections import Connections

__all__ = ["DATABASE_AWAY", "Lease"]

DATABASE_AWAY = (psycopg.OperationalError, psycopg.InterfaceError, OSError, asyncio.TimeoutError)
"""What a call raises when the database cannot be reached; LeaseLost is one of the first, too."""

T = TypeVar("T")

_PAUSE = 0.25


class Lease:
    """The lease of one partition; every method raises LeaseLost once it is gone."""

    def __init__(
        self, connections: Connections, push: Push, partition: int, token: UUID, asked_at: float
    ) -> None:
        self._connections = connections
        self._push = push
        self.partition = partition
        self._token = token
        self._until = asked_at + push.lease
        """By the clock of this process. It is not after the time that the database noted."""
        self.committing = False
        """Whether it is said how it ended: the database then knows whether the lease counts."""
        self._lost = False

    @property
    def fresh(self) -> bool:
        """Whether it was asked for or renewed so lately that nobody need ask again."""
        return time.monotonic() < self._until - self._push.lease * 2 / 3

    async def keep(self) -> NoReturn:
        """Renew the lease for ever; ends by LeaseLost."""
        while True:
            await asyncio.sleep(self._push.lease / 3)
            while not await self._kept():
                await asyncio.sleep(min(_PAUSE, self._push.lease / 10))

    async def ensure(self) -> None:
        """Ask the database that the lease is still there, or trust the clock if it cannot say."""
        if self._lost:
            raise LeaseLost("the lease was lost before")
        await self._renewed()

    async def _kept(self) -> bool:
        try:
            return await self._renewed()
        except Exception:
            self._lost = True
            raise

    async def _renewed(self) -> bool:
        """False: the database did not answer, and the lease still has time."""
        asked_at = time.monotonic()
        length = self._push.lease
        try:
            kept = await asyncio.wait_for(
                self._connections.run(self._extend),
                timeout=max(self._until - asked_at, length / 3),
            )
        except DATABASE_AWAY:
            if time.monotonic() < self._until or self.committing:
                return False
            raise LeaseLost("the database could not be asked until the lease ended") from None
        if not kept and not self.committing:
            raise LeaseLost("another worker has it, the group was moved, or it ran out")
        if kept:
            self._until = asked_at + length
        return True

    async def _extend(self, client: AsyncClient) -> bool:
        push = self._push
        return await client.extend_poll(
            push.topic,
            push.consumer_group,
            self.partition,
            self._token,
            lease=timedelta(seconds=push.lease),
        )

    async def commit(self, committed_offset: int) -> None:
        """Note that all up to this offset was accepted."""

        async def commit(client: AsyncClient) -> None:
            await client.commit_offset(
                self._push.topic,
                self._push.consumer_group,
                self.partition,
                committed_offset,
                lease_token=self._token,
            )

        await self._insist(commit)

    async def give_back(self, delay: float, error: str) -> bool:
        """Note that the messages failed; the group gets them again after so many seconds.

        False: the group counts no attempts. Then nobody would know when to give up, nor how long
        to wait, and the partition stays with this worker.
        """
        push = self._push

        async def give_back(client: AsyncClient) -> bool:
            groups = {
                group.consumer_group: group for group in await client.admin.list_groups(push.topic)
            }
            if push.consumer_group in groups and groups[push.consumer_group].max_attempts is None:
                return False
            if not await client.nack_offsets(
                push.topic,
                push.consumer_group,
                self.partition,
                lease_token=self._token,
                delay=timedelta(seconds=delay),
                error=error,
            ):
                raise LeaseLost("the partition is not leased to this worker any more")
            return True

        # it may wait long for the topic of the dead letters
        async with self._connections.one_by_one:
            return await self._insist(give_back)

    async def _insist(self, function: Callable[[AsyncClient], Awaitable[T]]) -> T:
        """Say how it ended, however long the database is away.

        A lease that has run out meanwhile still counts if nobody else took the partition.
        """
        self.committing = True
        try:
            while True:
                try:
                    return await self._connections.run(function)
                except LeaseLost:
                    raise
                except DATABASE_AWAY:
                    await asyncio.sleep(_PAUSE)
        finally:
            self.committing = False

    async def release(self) -> None:
        """Give the partition back, if the database answers soon; else the lease runs out."""
        push = self._push
        try:
            await asyncio.wait_for(
                self._connections.run(
                    lambda client: client.release_poll(
                        push.topic, push.consumer_group, self.partition, self._token
                    )
                ),
                timeout=5.0,
            )
        except (*DATABASE_AWAY, psycopg.Error):
            pass
