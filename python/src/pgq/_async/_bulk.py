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
        """Begin a write of many writers to a topic or a queue.

        Commit the transaction of this call before the writers start. Each of them passes the
        `write_id` to `write_chunk`, and `commit_write` ends the write. With `atomic` (the default)
        all messages are seen at once when the write is committed; without it each chunk is
        published as it comes.

        With `producer` and `seq` pgq knows the write when it is begun again. If it was committed
        before, `duplicate` is true. If it is still open, it starts again under a new id; writers
        that come with the old id are refused, and this does not wait for those that hang.
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
        lengths: Sequence[int],
        packed_payloads: bytes | None = None,
        *,
        keys: Sequence[str | None] | None = None,
        headers: Sequence[Mapping[str, Any] | None] | None = None,
        partition: int | None = None,
        delay: timedelta | None = None,
        priority: int | None = None,
        labels: Sequence[str | None] | None = None,
        last_chunk: bool | None = None,
        starts: Sequence[int] | None = None,
        packed_bodies: bytes | None = None,
    ) -> bool:
        """Add a chunk of messages to a bulk write. False: this chunk has been written before.

        `packed_payloads` (JSON texts) or `packed_bodies` (raw bytes) holds the contents one after
        the other, `lengths` how many bytes each one has. In an atomic write, an attempt to run a
        task writes all its chunks in one transaction, the last one with `last_chunk`; otherwise
        each chunk is published in the transaction of its call. `starts`, the place of the first
        byte of each content, from 1, saves time when a chunk goes to one partition.

        It waits while another open transaction has written the same chunk, or in an atomic write
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
            lengths=lengths,
            packed_payloads=packed_payloads,
            keys=keys,
            headers=headers,
            partition=partition,
            delay=delay,
            priority=priority,
            labels=labels,
            last_chunk=last_chunk,
            starts=starts,
            packed_bodies=packed_bodies,
        )

    async def commit_write(
        self,
        write_id: UUID,
        *,
        expected_messages: int | None = None,
        digest: str | None = None,
    ) -> BulkWriteState:
        """End a bulk write; an atomic one publishes all that was staged, at once.

        It waits for transactions that have written chunks and are still open, and counts these
        chunks if they commit. Repeating the call does no harm, unless it comes with another digest,
        a text that the writers make of all messages: that is refused. The transaction must be READ
        COMMITTED, or ActiveSqlTransaction is raised.

        Raises WriteLost when the write was started again, aborted or forgotten, or when a part of
        what was staged is missing, and psycopg's LockNotAvailable when it waited 60 s in vain:
        nothing has changed, call it again.
        """
        return await self._row(
            BulkWriteState,
            "commit_write",
            write_id=write_id,
            expected_messages=expected_messages,
            digest=digest,
        )

    async def abort_write(self, write_id: UUID) -> bool:
        """Give up a bulk write, and refuse writers that come later. False: it is not open."""
        return await self._value(bool, "abort_write", write_id=write_id)
