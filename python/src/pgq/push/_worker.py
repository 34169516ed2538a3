"""What one ``[[push]]`` does: claim partitions that have messages, and deliver them."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg

from pgq import AsyncClient
from pgq.errors import AlreadyExists, OffsetOutOfRange
from pgq.messages import LeasedMessage
from pgq.push._config import Push
from pgq.push._connections import Connections
from pgq.push._delivery import Delivery, Outcome
from pgq.push._figures import Figures
from pgq.push._http import Sender
from pgq.push._lease import DATABASE_AWAY, Lease
from pgq.push._logging import LOG, note

__all__ = ["PushError", "Worker"]

_LONGEST_PAUSE = 10.0


class PushError(Exception):
    """What the configuration names is not in the database."""


class Worker:
    """Runs one push until it is told to stop."""

    def __init__(
        self, push: Push, connections: Connections, *, stop: asyncio.Event, figures: Figures
    ) -> None:
        self._push = push
        self._connections = connections
        self._stop = stop
        self._figures = figures
        self._sender = Sender(push)
        self._running: dict[asyncio.Task[Outcome], Delivery] = {}
        self._freed = asyncio.Event()
        self._turn = 0
        self._failures = 0
        self._braked = False
        self._told = ""
        self._told_at = 0.0

    @property
    def running(self) -> int:
        """How many messages are on their way."""
        return sum(delivery.size for delivery in self._running.values())

    async def prepare(self) -> None:
        """Create the group, or give it the settings, and see that the partitions are there."""
        push = self._push
        settings: dict[str, Any] = {
            "out_of_range": push.out_of_range,
            "max_attempts": push.max_attempts,
            "dead_letter_topic": push.dead_letter_topic,
        }
        try:
            await self._connections.run(
                lambda c: c.admin.create_group(
                    push.topic, push.consumer_group, start=push.start, **settings
                )
            )
        except AlreadyExists:
            await self._connections.run(
                lambda c: c.admin.alter_group(push.topic, push.consumer_group, **settings)
            )
        if push.partitions is None:
            return
        topics = await self._connections.run(lambda c: c.admin.list_topics())
        count = {topic.topic: topic.partitions for topic in topics}.get(push.topic, 0)
        for partition in push.partitions:
            if partition >= count:
                raise PushError(
                    f'push "{push.name}": topic "{push.topic}" has no partition {partition}'
                )

    async def run(self) -> None:
        """Deliver until told to stop, and then until what is under way has ended."""
        try:
            while not self._stop.is_set():
                try:
                    claimed = await self._claim()
                except psycopg.Error as error:
                    await self._pause(self._note_failure(error))
                except (OSError, asyncio.TimeoutError) as error:
                    await self._pause(self._note_failure(error))
                else:
                    self._failures = 0
                    if self._braked:
                        self._braked = False
                        await self._pause(max(self._push.poll, self._push.backoff))
                    elif not claimed:
                        await self._pause(self._push.poll)
            while self._running:
                await asyncio.wait(self._running)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await self._sender.close()

    async def _claim(self) -> bool:
        """Claim one partition and begin to deliver it; False: there is none, or no room."""
        push = self._push
        if len(self._running) >= push.concurrency:
            return False
        for partition in self._candidates():
            asked_at = time.monotonic()
            messages = await asyncio.wait_for(
                self._connections.run(partial(self._poll, partition=partition)),
                timeout=max(push.lease, _LONGEST_PAUSE),
            )
            if messages:
                self._begin(messages, asked_at)
                return True
        return False

    async def _poll(self, client: AsyncClient, partition: int | None) -> list[LeasedMessage]:
        return await client.poll(
            self._push.topic,
            self._push.consumer_group,
            max_messages=self._push.max_messages,
            partition=partition,
            lease=timedelta(seconds=self._push.lease),
        )

    def _candidates(self) -> list[int | None]:
        """What to ask for: any partition, or each of those that are named, in turn."""
        if self._push.partitions is None:
            return [None]
        taken = {delivery.partition for delivery in self._running.values()}
        self._turn += 1
        count = len(self._push.partitions)
        ordered = [self._push.partitions[(self._turn + i) % count] for i in range(count)]
        return [partition for partition in ordered if partition not in taken]

    def _begin(self, messages: list[LeasedMessage], asked_at: float) -> None:
        first = messages[0]
        lease = Lease(self._connections, self._push, first.partition, first.lease_token, asked_at)
        delivery = Delivery(
            self._push, lease, self._sender, messages, stop=self._stop, figures=self._figures
        )
        task = asyncio.create_task(delivery.run())
        self._running[task] = delivery
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        delivery = self._running.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            LOG.error("delivery of push %s broke", self._push.name, exc_info=error)
            self._braked = True
        elif task.result() is Outcome.DONE:
            # there may be more of it at once
            self._freed.set()
        elif task.result() is Outcome.GIVEN_BACK:
            asyncio.get_running_loop().call_later(delivery.again_in, self._freed.set)
        else:
            # what failed at once would be claimed and fail again at once
            self._braked = True

    async def _pause(self, seconds: float) -> None:
        """Wait for a while, less when a delivery succeeds or the worker is told to stop."""
        waiting = [asyncio.create_task(event.wait()) for event in (self._stop, self._freed)]
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        self._freed.clear()

    def _note_failure(self, error: Exception) -> float:
        """Log that nothing could be claimed; returns how long to wait."""
        self._failures += 1
        reason = type(error).__name__
        if isinstance(error, psycopg.Error) and error.diag.message_primary:
            reason = error.diag.message_primary
        longest = min(0.25 * 2.0 ** min(self._failures - 1, 10), _LONGEST_PAUSE)
        if isinstance(error, OffsetOutOfRange):
            # of one partition; the next call may get another one
            longest = 0.25
        pause = longest * random.uniform(0.5, 1.0)
        now = time.monotonic()
        if reason != self._told or now > self._told_at + _LONGEST_PAUSE:
            self._told, self._told_at = reason, now
            away = isinstance(error, DATABASE_AWAY)
            note(
                logging.WARNING if away else logging.ERROR,
                "database away" if away else "claim failed",
                push=self._push.name,
                reason=reason,
                pause=round(pause, 3),
            )
        return pause
