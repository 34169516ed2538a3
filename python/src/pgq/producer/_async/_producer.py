"""Many callers, few transactions."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, TypeVar
from uuid import uuid4

from pgq._durations import moment, seconds
from pgq._encoding import Encoder, Encoding, encode
from pgq._runtime._tasks import Future, Running, Wakeup, answer, new_future, spawn
from pgq.messages import EnqueueResult
from pgq.producer._async._sender import Sender
from pgq.producer._entries import Entry, Full, Published

__all__ = ["AsyncProducer"]

P = TypeVar("P", bound="AsyncProducer")


class AsyncProducer:
    """Gathers what many callers publish to a topic, or enqueue in a queue, into batches.

    It waits `linger` seconds (5 ms) behind the first message for more, or until there are
    `max_batch` (1000), and writes them all in one call. A caller's answer comes when the batch has
    committed. While one is written the next is gathered, and they are written one after the other,
    so the messages of a caller keep their order.

    Name a topic or a queue. conninfo: where the database is, by default where libpq's own settings
    say; `connect` has further options of psycopg's connect. The one connection is made at the
    first message.

    A message that the database refuses fails alone; the others of its batch are written. When the
    connection is lost before the answer, nobody knows whether the batch has committed: its callers
    get `OutcomeUnknown`. With ``idempotent=True`` each message gets an idempotency key, so the
    batch is written again until there is an answer, and nothing is written twice. A
    batch that could not be written for want of a connection within `timeout` (30 s), counted from
    its youngest message, fails with the error of that, a `psycopg.OperationalError`.

    `encoder` makes JSON of payloads and headers, as that of a client does.

    Not more than `max_pending` (100,000) wait at a time; the next one is refused with `Full`.
    """

    def __init__(
        self,
        topic: str | None = None,
        *,
        queue: str | None = None,
        conninfo: str = "",
        linger: timedelta | float = 0.005,
        max_batch: int = 1000,
        max_pending: int = 100_000,
        idempotent: bool = False,
        timeout: timedelta | float = 30.0,
        connect: Mapping[str, Any] | None = None,
        encoder: Encoder = encode,
    ) -> None:
        if (topic is None) == (queue is None):
            raise ValueError("topic, queue: exactly one is needed")
        if not 1 <= max_batch <= max_pending:
            raise ValueError("max_batch must be at least 1, and at most max_pending")
        self._encoding = Encoding(encoder)
        self._topic = topic
        self._queue = queue
        self._linger = seconds("linger", linger, zero=True)
        self._max_batch = max_batch
        self._max_pending = max_pending
        self._idempotent = idempotent
        self._sender = Sender(
            topic, queue, conninfo, dict(connect or {}), seconds("timeout", timeout)
        )
        self._name = str(uuid4())
        self._numbers = itertools.count()
        self._entries: list[Entry] = []
        self._lock = threading.Lock()
        self._wakeup = Wakeup()
        self._hurry = 0
        self._closing = False
        self._running: Running | None = None

    async def __aenter__(self: P) -> P:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def publish(
        self,
        payload: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        body: bytes | None = None,
    ) -> Future[Published]:
        """Publish to the topic; returns a future of a `Published`: the message is written."""
        if self._topic is None:
            raise ValueError("this producer has a queue: enqueue")
        return self._add(payload, body, headers, idempotency_key, key=key)

    def enqueue(
        self,
        payload: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        delay: timedelta | float | None = None,
        run_at: datetime | None = None,
        priority: int | None = None,
        label: str | None = None,
        idempotency_key: str | None = None,
        unique_key: str | None = None,
        max_attempts: int | None = None,
        body: bytes | None = None,
    ) -> Future[EnqueueResult]:
        """Enqueue in the queue; returns a future of its `EnqueueResult`, as of `Client.enqueue`.

        Jobs whose `delay`, `run_at`, `priority` and `max_attempts` differ go in batches of their
        own.
        """
        if self._queue is None:
            raise ValueError("this producer has a topic: publish")
        options = {
            "delay": delay,
            "run_at": moment("run_at", run_at),
            "priority": priority,
            "max_attempts": max_attempts,
        }
        given = tuple((name, value) for name, value in options.items() if value is not None)
        return self._add(
            payload,
            body,
            headers,
            idempotency_key,
            key=key,
            label=label,
            unique_key=unique_key,
            options=given,
        )

    async def flush(self) -> None:
        """Write what waits, without lingering; returns when all of it was answered."""
        marker = Entry(new_future(), time.monotonic(), marker=True)
        with self._lock:
            closing, running = self._closing, self._running
            if not closing and running is not None:
                self._hurry += 1
                self._entries.append(marker)
        if closing:
            await self.close()
        elif running is not None:
            self._wakeup.wake()
            await answer(marker.future)

    async def close(self) -> None:
        """Write what waits, and end."""
        with self._lock:
            self._closing = True
            running = self._running
        self._wakeup.wake()
        if running is not None:
            await running.join()

    # ------------------------------------------------------------------------ gathering

    def _add(
        self,
        payload: Any,
        body: bytes | None,
        headers: Mapping[str, Any] | None,
        idempotency_key: str | None,
        **fields: Any,
    ) -> Future[Any]:
        if (payload is None) == (body is None):
            raise ValueError("payload, body: exactly one is needed")
        value = self._encoding.jsonb("payload", payload)
        more = self._encoding.jsonb("headers", headers)
        future: Future[Any] = new_future()
        entry = Entry(future, time.monotonic(), value, body, headers=more, **fields)
        entry.idempotency_key = idempotency_key
        with self._lock:
            if self._closing:
                raise ValueError("the producer is closed")
            if len(self._entries) >= self._max_pending:
                raise Full(f"{len(self._entries)} wait to be written")
            if self._idempotent and idempotency_key is None:
                entry.idempotency_key = f"{self._name}-{next(self._numbers)}"
                entry.generated = True
            self._entries.append(entry)
            size = len(self._entries)
            if self._running is None:
                self._running = spawn(self._run, name="pgq-producer")
        if size == 1 or size == self._max_batch:
            self._wakeup.wake()
        return future

    async def _run(self) -> None:
        try:
            while True:
                batch = await self._gather()
                if not batch:
                    return
                try:
                    await self._sender.send(batch)
                except Exception as error:  # of a value that cannot be compared, say
                    self._sender.fail(batch, error)
        except BaseException as error:
            with self._lock:
                self._closing = True
            self._sender.fail(self._entries, error)
            raise
        finally:
            await self._sender.close()

    async def _gather(self) -> list[Entry]:
        """The next batch; an empty list: there will be none."""
        while True:
            with self._lock:
                if self._entries:
                    break
                if self._closing:
                    return []
            await self._wakeup.wait()
        end = self._entries[0].at + self._linger
        while len(self._entries) < self._max_batch and not self._closing and not self._hurry:
            left = end - time.monotonic()
            if left <= 0:
                break
            await self._wakeup.wait(left)
        with self._lock:
            batch = self._entries[: self._max_batch]
            del self._entries[: self._max_batch]
            self._hurry -= sum(entry.marker for entry in batch)
        return batch
