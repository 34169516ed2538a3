"""Writes of many writers at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from pgq._async._calling import Calling
from pgq.messages import BulkWriteState

__all__ = ["BulkWrites"]


class BulkWrites(Calling):
    """Writes of many writers at once."""

    async def begin_write(
        self,
        *,
        topic: str | None = None,
        queue: str | None = None,
        producer: str | None = None,
        seq: int | None = None,
        atomic: bool | None = None,
        timeout: timedelta | None = None,
    ) -> BulkWriteState:
        """Begin a write of many writers to a topic or a queue; commit before they begin.

        Each passes the `write_id` to `write_chunk`, and `commit_write` ends it. With `producer` and
        `seq` a repeated write is recognised: when it was committed before, `repeated` says so.
        When it is still open it is started again under a new id; writers that come with the old one
        are refused, and those that hang are not waited for.
        """
        return await self._row(
            BulkWriteState,
            "begin_write",
            topic=topic,
            queue=queue,
            producer=producer,
            seq=seq,
            atomic=atomic,
            timeout=timeout,
        )

    async def write_chunk(
        self,
        write_id: UUID,
        task: int,
        task_attempt: str,
        chunk: int,
        packed: bytes,
        lengths: Sequence[int],
        *,
        keys: Sequence[str | None] | None = None,
        headers: Sequence[Mapping[str, Any] | None] | None = None,
        labels: Sequence[str | None] | None = None,
        partition: int | None = None,
        priority: int | None = None,
        delay: timedelta | None = None,
        is_json: bool | None = None,
        last: bool | None = None,
        starts: Sequence[int] | None = None,
    ) -> bool:
        """Add a chunk of messages to a bulk write. False: it has been written already.

        `packed` holds the contents one behind the other, `lengths` how many bytes each one has. In
        an atomic write all chunks of an attempt to run a task are written in one transaction, the
        last one with `last`; otherwise each chunk is published in the transaction of its call.
        `starts`, where each content begins from 1, saves time where a chunk goes to one partition.

        It waits while another transaction is open that wrote the same chunk, or in an atomic write
        the same task.

        Raises WriteLost when the write is not open any more, and psycopg's LockNotAvailable when it
        waited 60 s in vain: roll back and call it again.
        """
        return await self._value(
            bool,
            "write_chunk",
            write_id=write_id,
            task=task,
            task_attempt=task_attempt,
            chunk=chunk,
            packed=packed,
            lengths=lengths,
            keys=keys,
            headers=headers,
            labels=labels,
            partition=partition,
            priority=priority,
            delay=delay,
            is_json=is_json,
            last=last,
            starts=starts,
        )

    async def commit_write(
        self, write_id: UUID, *, expected_messages: int | None = None
    ) -> BulkWriteState:
        """End a bulk write; what was staged for an atomic one is published, all at once.

        It waits for chunks whose transactions are open, and counts them. Repeating the call is
        harmless. The transaction must be READ COMMITTED, or ActiveSqlTransaction is raised.

        Raises WriteLost when the write was started again, aborted or forgotten, or when a part of
        what was staged is not there any more, and psycopg's LockNotAvailable when it waited 60 s in
        vain: nothing has changed, call it again.
        """
        return await self._row(
            BulkWriteState,
            "commit_write",
            write_id=write_id,
            expected_messages=expected_messages,
        )

    async def abort_write(self, write_id: UUID) -> bool:
        """Give up a bulk write, and refuse writers that come later. False: it is not open."""
        return await self._value(bool, "abort_write", write_id=write_id)
