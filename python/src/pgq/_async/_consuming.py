"""Reading a topic."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from pgq._async._calling import Calling
from pgq.messages import LeasedMessage, Message

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
        lease: timedelta | float | None = None,
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
        lease: timedelta | float | None = None,
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
        delay: timedelta | float | None = None,
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

    async def next_poll(self, topic: str, consumer_group: str) -> datetime | None:
        """When a poll of the group may next find messages, if nothing is published until then.

        A time in the past: an open transaction holds messages back, look again after a while. None:
        the group has read everything.
        """
        due_at: datetime | None = await self._value(
            datetime, "next_poll", topic=topic, consumer_group=consumer_group
        )
        return due_at
