"""What runs transactions of its own: retries and long polls."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from pgq._async._calling import Calling
from pgq._durations import duration, seconds
from pgq.errors import RETRYABLE

__all__ = ["Transactions"]

C = TypeVar("C", bound="Transactions")
T = TypeVar("T")


class Transactions(Calling):
    """Retries and long polls."""

    async def retry(
        self: C,
        function: Callable[[C], Awaitable[T]],
        *,
        attempts: int | None = None,
        backoff: timedelta | float | None = None,
    ) -> T:
        """Run `function` in a transaction, and again when it fails because of others beside it.

        Those failures are serialization failures (40001) and deadlocks (40P01). `function` gets
        this client and must leave the transaction alone: it commits when `function` returns and
        rolls back when it raises. There are so many `attempts` (5) at most. Between them there is a
        random pause, `backoff` (20 ms) at most after the first, doubling from there. The last
        failure is raised as it is.

        The connection must not be in a transaction: ProgrammingError.
        """
        most = 5 if attempts is None else attempts
        longest = 0.02 if backoff is None else seconds("backoff", backoff, zero=True)
        if most < 1:
            raise ValueError(f"attempts is {attempts}, must be at least 1")
        self._require_idle("retry")
        attempt = 1
        while True:
            try:
                async with self._connection.transaction():
                    return await function(self)
            except RETRYABLE:
                if attempt >= most:
                    raise
            await asyncio.sleep(pause(attempt, longest))
            attempt += 1

    async def wait(
        self: C,
        function: Callable[[C], Awaitable[T]],
        *,
        topic: str | None = None,
        queue: str | None = None,
        timeout: timedelta | float | None = None,
        interval: timedelta | float | None = None,
    ) -> T:
        """Run `function` until it returns something, or `timeout` (30 s) has passed: a long poll.

        `function` gets this client, and each try is a transaction of its own. What it returned
        last is the result, so nothing (an empty list, None, False) means that the time is up::

            jobs = await client.wait(lambda c: c.claim_job("mail"), queue="mail")

        The next try comes after `interval` (1 s), or as soon as something is published to `topic`
        or enqueued in `queue`, if those were created with ``notify=True``; jobs that become due
        later send no notice. No transaction is open in between. Behind a transaction pool name
        neither, because it cannot LISTEN. The connection's own LISTEN on the same channel ends with
        this call.

        The connection must not be in a transaction: ProgrammingError.
        """
        whole = 30.0 if timeout is None else duration("timeout", timeout).total_seconds()
        step = 1.0 if interval is None else seconds("interval", interval)
        self._require_idle("wait")
        bells = set()
        if topic is not None:
            bells.add(("pgq_topic", topic))
        if queue is not None:
            bells.add(("pgq_queue", queue))
        channels = sorted({channel for channel, _ in bells})
        deadline = time.monotonic() + whole
        try:
            # Listening begins before the first try, or what comes in between would go unheard.
            await self._run(*(f"listen {channel}".encode() for channel in channels))
            while True:
                async with self._connection.transaction():
                    result = await function(self)
                left = deadline - time.monotonic()
                if result or left <= 0:
                    return result
                await self._pause_until_rung(bells, min(left, step))
        finally:
            if not self._connection.closed:
                await self._run(*(f"unlisten {channel}".encode() for channel in channels))

    async def _pause_until_rung(self, bells: set[tuple[str, str]], seconds: float) -> None:
        if not bells:
            await asyncio.sleep(seconds)
            return
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            async for notice in self._connection.notifies(timeout=left, stop_after=1):
                if (notice.channel, notice.payload) in bells:
                    end = 0.0

    async def _run(self, *statements: bytes) -> None:
        if statements:
            async with self._connection.transaction():
                for statement in statements:
                    await self._connection.execute(statement)

    def _require_idle(self, what: str) -> None:
        if self._connection.info.transaction_status != TransactionStatus.IDLE:
            raise psycopg.ProgrammingError(
                f"{what} runs transactions of its own: the connection must not be in one"
            )


def pause(attempt: int, backoff: float) -> float:
    """Seconds to wait after the failed attempt of that number: doubling, at random from half of it.

    The longest wait is 64 times the first.
    """
    longest = backoff * 2.0 ** min(attempt - 1, 6)
    return longest * random.uniform(0.5, 1.0)
