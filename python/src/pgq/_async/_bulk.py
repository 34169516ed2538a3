"""The group `bulk`: many writers or readers that share their work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pgq._async._calling import Calling
from pgq.messages import BulkWriteState, Message, OffsetRange, PackedMessages, PartitionOffsets

__all__ = ["Bulk"]


class Bulk(Calling):
    """Bulk writes of many writers, and reading by ranges of offsets, as Spark does it."""

    async def begin_write(
        self,
        *,
        topic: str | None = None,
        queue: str | None = None,
        producer: str | None = None,
        seq: int | None = None,
        atomic: bool | None = None,
        timeout: timedelta | float | None = None,
        owner: str | None = None,
    ) -> BulkWriteState:
        """Begin a write of many writers to a topic or a queue.

        Commit the transaction of this call before the writers start. Each of them passes the
        `write_id` to `write_chunk`, and `commit_write` ends the write. With `atomic` (the default)
        all messages are seen at once when the write is committed; without it each chunk is
        published as it comes.

        With `producer` and `seq` pgq knows the write when it is begun again. If it was committed
        before, `duplicate` is true. If it is still open, it starts again under a new id; writers
        that come with the old id are refused, and this does not wait for those that hang.

        An `owner` takes the place of the producer where each task of a job begins an unnamed write
        of its own: `seq` is then the attempt to run the job, see `abort_write`.
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
            owner=owner,
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
        delay: timedelta | float | None = None,
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

    async def abort_write(
        self, write_id: UUID | None = None, *, seq: int | None = None, owner: str | None = None
    ) -> bool:
        """Give up a bulk write, and refuse writers that come later. False: it is not open.

        With `owner` and `seq` instead, all open writes of earlier attempts of this owner.
        """
        return await self._value(bool, "abort_write", write_id=write_id, seq=seq, owner=owner)

    async def claim_offsets(
        self,
        topic: str,
        consumer_group: str,
        *,
        max_messages: int | None = None,
        partition: int | None = None,
    ) -> OffsetRange | None:
        """Take messages as `consume` does, and return where they stand.

        None: nothing to read for this member now. Read them with `fetch_range`.

        Raises OffsetOutOfRange when retention has removed the next message.
        """
        return await self._row_or_none(
            OffsetRange,
            "claim_offsets",
            topic=topic,
            consumer_group=consumer_group,
            max_messages=max_messages,
            partition=partition,
        )

    async def fetch_range(
        self, topic: str, partition: int, first_offset: int, last_offset: int
    ) -> list[Message]:
        """Read the messages of a range, both ends included, without any group.

        Raises OffsetOutOfRange when the range is not there (any more) as a whole.
        """
        return await self._rows(
            Message,
            "fetch_range",
            topic=topic,
            partition=partition,
            first_offset=first_offset,
            last_offset=last_offset,
        )

    async def fetch_packed(
        self,
        topic: str,
        partition: int,
        first_offset: int,
        last_offset: int,
        *,
        first_partition_id: int | None = None,
    ) -> list[PackedMessages]:
        """Read the messages of a range as `fetch_range` does, a thousand in an answer.

        `first_partition_id` is what `check_range` said of partition 0: when another topic has the
        name by now, UnknownPartition is raised.
        """
        return await self._rows(
            PackedMessages,
            "fetch_packed",
            topic=topic,
            partition=partition,
            first_offset=first_offset,
            last_offset=last_offset,
            first_partition_id=first_partition_id,
        )

    async def list_offsets(
        self, topic: str, *, published_at: datetime | None = None
    ) -> list[PartitionOffsets]:
        """The offsets that each partition has, and the first published at a time or later.

        What is published later gets higher offsets, so ranges planned from here stay as they are.
        """
        return await self._rows(
            PartitionOffsets, "list_offsets", topic=topic, published_at=published_at
        )

    async def watermark(self, topic: str) -> datetime:
        """A time before which nothing more will be published to a topic.

        So a window by `published_at` that ends there, or earlier, loses no message of a transaction
        that is still open.
        """
        return await self._value(datetime, "watermark", topic=topic)

    async def assign_offsets(self, topic: str, partition: int | None = None) -> list[OffsetRange]:
        """Give offsets to what a deferred topic has that was committed and has none; return them.

        Those who consume do it themselves, and others see it when their transaction ends. So call
        this before a long one, and before `fetch`, `fetch_range` and `list_offsets`.
        """
        return await self._rows(OffsetRange, "assign_offsets", topic=topic, partition=partition)

    async def check_range(
        self, topic: str, partition: int, first_offset: int, last_offset: int
    ) -> int:
        """The partition_id of a partition in the view pgq.messages, if all of the range is there.

        Raises OffsetOutOfRange when the range is not there (any more) as a whole.
        """
        return await self._value(
            int,
            "check_range",
            topic=topic,
            partition=partition,
            first_offset=first_offset,
            last_offset=last_offset,
        )
