"""Reading a topic, with a consumer group or without one."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from pgq._async._calling import Calling
from pgq.messages import (
    LeasedMessage,
    Message,
    OffsetRange,
    PackedMessages,
    PartitionOffsets,
    SeekResult,
)

__all__ = ["Consuming"]


class Consuming(Calling):
    """Reading a topic."""

    async def consume(
        self,
        topic: str,
        consumer_group: str,
        *,
        max_messages: int | None = None,
        partition: int | None = None,
        max_bytes: int | None = None,
    ) -> list[Message]:
        """Take the next messages of one partition for this transaction.

        An empty list: nothing to read for this member now. The group's position moves with the
        commit of the transaction. Until then no other member gets messages of that partition, and a
        rollback gives them back: what the caller writes in the same transaction happens exactly
        once for each message.

        Several messages have at most `max_bytes` of content together (64 MiB); where this has left
        some out, they have `cut_short`.

        Raises OffsetOutOfRange when retention has removed the next message.
        """
        return await self._rows(
            Message,
            "consume",
            topic=topic,
            consumer_group=consumer_group,
            max_messages=max_messages,
            partition=partition,
            max_bytes=max_bytes,
        )

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

    async def fetch(
        self,
        topic: str,
        consumer_group: str,
        *,
        max_messages: int | None = None,
        partition: int | None = None,
        max_bytes: int | None = None,
    ) -> list[Message]:
        """Look at the group's next messages and move nothing; `commit_offset` moves the position.

        Raises OffsetOutOfRange when retention has removed the next message.
        """
        return await self._rows(
            Message,
            "fetch",
            topic=topic,
            consumer_group=consumer_group,
            max_messages=max_messages,
            partition=partition,
            max_bytes=max_bytes,
        )

    async def commit_offset(
        self,
        topic: str,
        consumer_group: str,
        partition: int,
        committed_offset: int,
        *,
        lease_token: UUID | None = None,
    ) -> int:
        """Note that all messages up to this offset are processed; returns the committed offset.

        That is the last offset that the group has processed, 0 before the first; the group goes on
        at the next one. A lower offset changes nothing. After `poll` pass its lease token;
        the lease ends with the last message that it gave.

        Raises OffsetOutOfRange above the newest message, and LeaseLost when the token is stale or
        the partition is leased by another member.
        """
        return await self._value(
            int,
            "commit_offset",
            topic=topic,
            consumer_group=consumer_group,
            partition=partition,
            committed_offset=committed_offset,
            lease_token=lease_token,
        )

    async def poll(
        self,
        topic: str,
        consumer_group: str,
        *,
        max_messages: int | None = None,
        partition: int | None = None,
        lease: timedelta | None = None,
        max_bytes: int | None = None,
    ) -> list[LeasedMessage]:
        """Lease the next messages of one partition.

        An empty list: nothing to read for this member now. The lease lasts 30 seconds unless
        `lease` says otherwise. Commit, so that it counts, and work. `commit_offset` with the lease
        token finishes the messages; when the lease ends before, another member gets them again.
        While a partition is leased no other member gets anything of it, so its messages stay in
        order.

        Raises OffsetOutOfRange when retention has removed the next message.
        """
        return await self._rows(
            LeasedMessage,
            "poll",
            topic=topic,
            consumer_group=consumer_group,
            max_messages=max_messages,
            partition=partition,
            lease=lease,
            max_bytes=max_bytes,
        )

    async def extend_poll(
        self,
        topic: str,
        consumer_group: str,
        partition: int,
        lease_token: UUID,
        *,
        lease: timedelta | None = None,
    ) -> bool:
        """Let the lease last for `lease` (30 seconds) from now; it is never shortened.

        False: that lease has ended, stop working on its messages.
        """
        return await self._value(
            bool,
            "extend_poll",
            topic=topic,
            consumer_group=consumer_group,
            partition=partition,
            lease_token=lease_token,
            lease=lease,
        )

    async def release_poll(
        self, topic: str, consumer_group: str, partition: int, lease_token: UUID
    ) -> bool:
        """Give a lease back unfinished: the messages are there for any member at once.

        This attempt does not count; `nack_offsets` is for what could not be processed. False: it
        was lost before.
        """
        return await self._value(
            bool,
            "release_poll",
            topic=topic,
            consumer_group=consumer_group,
            partition=partition,
            lease_token=lease_token,
        )

    async def nack_offsets(
        self,
        topic: str,
        consumer_group: str,
        partition: int,
        *,
        lease_token: UUID | None = None,
        first_offset: int | None = None,
        last_offset: int | None = None,
        delay: timedelta | None = None,
        error: str | None = None,
    ) -> bool:
        """Give messages back that could not be processed, to come again at once or after `delay`.

        In a group with `max_attempts` this counts; `create_group` says what for. What `poll` gave
        is named by its `lease_token`; commit first what came before the message that failed. What
        `consume` gave is named by its first and last offset: roll back, then call this in a
        transaction of its own.

        False: the caller does not hold them any more.
        """
        return await self._value(
            bool,
            "nack_offsets",
            topic=topic,
            consumer_group=consumer_group,
            partition=partition,
            lease_token=lease_token,
            first_offset=first_offset,
            last_offset=last_offset,
            delay=delay,
            error=self._storable(error),
        )

    async def seek(
        self,
        topic: str,
        consumer_group: str,
        *,
        partition: int | None = None,
        log_offset: int | None = None,
        published_at: datetime | None = None,
        start: str | None = None,
    ) -> list[SeekResult]:
        """Move a group, in one partition or in all: back to read again, or ahead to skip.

        Give one of `log_offset` (with a partition), `published_at` (the first message published
        then or later is next) and `start`, 'earliest' or 'latest'. Returns the offset read next in
        each partition. Leases on them are lost.

        Raises OffsetOutOfRange for an offset outside the log.
        """
        return await self._rows(
            SeekResult,
            "seek",
            topic=topic,
            consumer_group=consumer_group,
            partition=partition,
            log_offset=log_offset,
            published_at=published_at,
            start=start,
        )
