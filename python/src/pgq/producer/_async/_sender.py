"""Writes batches, and tells those who wait what became of their part."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.errors import ReadOnlySqlTransaction

from pgq._async import AsyncClient
from pgq._runtime._async._pool import connect
from pgq._runtime._errors import Logger, guarded
from pgq._runtime._tasks import InvalidStateError, Wakeup
from pgq._runtime._times import Backoff
from pgq.errors import RETRYABLE
from pgq.messages import PublishBatchResult
from pgq.producer._entries import (
    Entry,
    OutcomeUnknown,
    Place,
    Published,
    columns,
    in_order,
    is_data,
    runs,
)

__all__ = ["Sender"]

logger = Logger("pgq.producer")

_COMMON = {
    "payload": "payloads",
    "body": "bodies",
    "key": "keys",
    "headers": "headers",
    "idempotency_key": "idempotency_keys",
}
_OF_JOBS = {**_COMMON, "label": "labels", "unique_key": "unique_keys"}


class Sender:
    """The connection of a producer."""

    def __init__(
        self,
        topic: str | None,
        queue: str | None,
        conninfo: str,
        options: Mapping[str, Any],
        timeout: float,
    ) -> None:
        self._topic = topic
        self._queue = queue
        self._conninfo = conninfo
        self._options = options
        self._timeout = timeout
        self._client: AsyncClient | None = None
        self._pause = Wakeup()

    async def send(self, entries: Sequence[Entry]) -> None:
        """Write entries in their order, and answer each."""
        for run in runs(entries):
            if run[0].marker:
                self._answer(run, [None] * len(run))
            else:
                await self._write(run)

    async def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.connection.close()

    def fail(self, entries: Sequence[Entry], error: BaseException) -> None:
        """Tell those who wait that it did not work."""
        for entry in entries:
            _tell(entry.future.set_exception, error)

    def _answer(self, entries: Sequence[Entry], results: Sequence[Any]) -> None:
        for entry, result in zip(entries, results):
            _tell(entry.future.set_result, result)

    async def _write(self, entries: Sequence[Entry]) -> None:
        """Write entries in one call, and the halves of them where one is refused."""
        end = entries[-1].at + self._timeout
        backoff = Backoff(0.02, 2.0)
        repeatable = entries[0].idempotency_key is not None
        unknown = False
        while True:
            sent = False
            try:
                client = await self._connected()
                sent = True
                results = await self._call(client, entries, end)
            except RETRYABLE as error:
                failed: Exception = error
            except Exception as error:
                if is_data(error) and len(entries) > 1:
                    half = len(entries) // 2
                    await self._write(entries[:half])
                    await self._write(entries[half:])
                    return
                failed = error
                refused = isinstance(error, ReadOnlySqlTransaction)  # nothing was written
                away = isinstance(error, psycopg.OperationalError) and self._is_broken()
                if away or refused:
                    await self.close()
                    unknown = unknown or (sent and not refused)
                if not refused and (not away or (sent and not repeatable)):
                    self.fail(entries, _unknown(error) if unknown else error)
                    return
            else:
                self._answer(entries, results)
                return
            if time.monotonic() >= end:
                self.fail(entries, _unknown(failed) if unknown else failed)
                return
            await self._pause.wait(backoff.next())

    async def _connected(self) -> AsyncClient:
        if self._client is None or self._client.connection.closed:
            self._client = AsyncClient(await connect(self._conninfo, self._options, "pgq producer"))
        return self._client

    def _is_broken(self) -> bool:
        return self._client is None or self._client.connection.closed

    async def _call(
        self, client: AsyncClient, entries: Sequence[Entry], end: float
    ) -> Sequence[Any]:
        if self._queue is not None:
            return await client.enqueue_batch(self._queue, **columns(entries, _OF_JOBS))
        assert self._topic is not None
        ranges = await client.publish_batch(self._topic, **columns(entries, _COMMON))
        return await self._ask(entries, ranges, end)

    async def _ask(
        self, entries: Sequence[Entry], ranges: Sequence[PublishBatchResult], end: float
    ) -> Sequence[Any]:
        """Where written messages stand; by another connection, if this one is lost."""
        backoff = Backoff(0.02, 2.0)
        while True:
            try:
                return await self._places(await self._connected(), entries, ranges)
            except psycopg.Error as error:
                if isinstance(error, ReadOnlySqlTransaction):
                    await self.close()
                again = isinstance(error, RETRYABLE) or self._is_broken()
                if not again or time.monotonic() >= end:
                    return [Published()] * len(entries)
            await self._pause.wait(backoff.next())

    async def _places(
        self, client: AsyncClient, entries: Sequence[Entry], ranges: Sequence[PublishBatchResult]
    ) -> Sequence[Any]:
        assert self._topic is not None
        duplicates = any(found.duplicate for found in ranges) and not entries[0].generated
        if duplicates:
            return await self._ask_again(client, entries, ranges)
        places: dict[int, list[Place]] = {}
        if len({found.partition for found in ranges}) > 1:
            for found in ranges:
                places.setdefault(found.partition, []).extend(
                    await client._rows(
                        Place,
                        "fetch_range",
                        topic=self._topic,
                        partition=found.partition,
                        first_offset=found.first_offset,
                        last_offset=found.last_offset,
                    )
                )
        return in_order(entries, ranges, places)

    async def _ask_again(
        self, client: AsyncClient, entries: Sequence[Entry], ranges: Sequence[PublishBatchResult]
    ) -> Sequence[Any]:
        """Where messages stand some of which had been published before: each key knows it."""
        assert self._topic is not None
        fresh = [found for found in ranges if not found.duplicate]
        seen: set[tuple[int, int | None]] = set()
        results = []
        for entry in entries:
            place = await client.publish(
                self._topic,
                entry.payload,
                key=entry.key,
                idempotency_key=entry.idempotency_key,
                body=entry.body,
            )
            where = (place.partition, place.log_offset)
            new = where not in seen and any(
                found.partition == place.partition
                and found.first_offset is not None
                and found.last_offset is not None
                and place.log_offset is not None
                and found.first_offset <= place.log_offset <= found.last_offset
                for found in fresh
            )
            seen.add(where)
            results.append(Published(*where, not new))
        return results


def _tell(tell: Callable[[Any], None], answer: Any) -> None:
    """A future may run a callback of the caller's in this thread."""

    def unless_gone() -> None:
        with suppress(InvalidStateError):  # who waited has gone
            tell(answer)

    guarded(logger, "a callback of a future", unless_gone)


def _unknown(error: BaseException) -> OutcomeUnknown:
    unknown = OutcomeUnknown(f"the connection was lost before the answer: {str(error).strip()}")
    unknown.__cause__ = error
    return unknown
