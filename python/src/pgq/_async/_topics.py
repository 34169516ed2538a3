"""Topics and consumer groups, and their settings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pgq._async._calling import Calling
from pgq.messages import Group, SeekResult, Topic

__all__ = ["Topics"]


class Topics(Calling):
    """Topics and consumer groups, and their settings."""

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int | None = None,
        retention: timedelta | None = None,
        max_bytes: int | None = None,
        notify: bool | None = None,
        idempotency_window: timedelta | None = None,
        max_message_bytes: int | None = None,
        no_limit: Sequence[str] | None = None,
        deferred: bool | None = None,
        restricted: bool | None = None,
    ) -> Topic:
        """Create a topic, or return the one of that name if it has the settings that are given.

        It has so many `partitions` (8), each of which takes one publishing transaction at a time. A
        message is kept for `retention` at least (7 days), but the oldest ones go earlier when the
        younger ones have `max_bytes` (no limit). With `notify` (off) each publish wakes
        those who `wait`. An idempotency key stands for its message as long as `idempotency_window`
        (1 day). `no_limit` names what shall have no limit: 'retention', 'max_bytes'. With
        `deferred` (off) a publish locks nothing, and a message gets its offset when somebody
        consumes, or calls `assign_offsets`. With `restricted` (off) only the caller, and roles that
        get access by `grant_access`, may use it.

        Raises AlreadyExists when there is one with other settings than those given; what is not
        given is not compared, so it can be called at each start of a program.
        """
        return await self._row(
            Topic,
            "create_topic",
            topic=topic,
            partitions=partitions,
            retention=retention,
            max_bytes=max_bytes,
            notify=notify,
            idempotency_window=idempotency_window,
            max_message_bytes=max_message_bytes,
            no_limit=no_limit,
            deferred=deferred,
            restricted=restricted,
        )

    async def alter_topic(
        self,
        topic: str,
        *,
        partitions: int | None = None,
        retention: timedelta | None = None,
        max_bytes: int | None = None,
        notify: bool | None = None,
        idempotency_window: timedelta | None = None,
        max_message_bytes: int | None = None,
        no_limit: Sequence[str] | None = None,
        restricted: bool | None = None,
        end_dependents: bool | None = None,
    ) -> Topic:
        """Change the settings that are given, and lift those limits that `no_limit` names.

        Those can be 'retention' and 'max_bytes'. The number of partitions can only grow, and then
        most keys move to another partition: their order holds before and after, not across.
        `restricted` closes it to roles without access, or opens it and removes its grants;
        `end_dependents` as in `grant_access`.
        """
        return await self._row(
            Topic,
            "alter_topic",
            topic=topic,
            partitions=partitions,
            retention=retention,
            max_bytes=max_bytes,
            notify=notify,
            idempotency_window=idempotency_window,
            max_message_bytes=max_message_bytes,
            no_limit=no_limit,
            restricted=restricted,
            end_dependents=end_dependents,
        )

    async def drop_topic(self, topic: str) -> None:
        """Drop a topic with its messages and its groups."""
        await self._value(object, "drop_topic", topic=topic)

    async def list_topics(self) -> list[Topic]:
        """All topics, by name."""
        return await self._rows(Topic, "list_topics")

    async def create_group(
        self,
        topic: str,
        consumer_group: str,
        *,
        start: str | None = None,
        out_of_range: str | None = None,
        max_attempts: int | None = None,
        dead_letter_topic: str | None = None,
    ) -> Group:
        """Create a consumer group, or return the one of that name if the given settings agree.

        It begins at `start`, 'earliest' (by default) or 'latest'; one that is there stays where it
        is. When retention has removed messages that the group had not read yet, reading raises
        OffsetOutOfRange if `out_of_range` is 'error' (by default), or goes on at the oldest message
        that is left if it is 'skip'.

        A batch that failed `max_attempts` times (no limit), by `nack_offsets` or because its lease
        ran out, is given out message by message, and a message that failed so often alone is
        published to the `dead_letter_topic`, with headers that say where it comes from and why.
        The group goes on behind it. These two need each other.

        Raises AlreadyExists when there is one with other settings than those given.
        """
        return await self._row(
            Group,
            "create_group",
            topic=topic,
            consumer_group=consumer_group,
            start=start,
            out_of_range=out_of_range,
            max_attempts=max_attempts,
            dead_letter_topic=dead_letter_topic,
        )

    async def alter_group(
        self,
        topic: str,
        consumer_group: str,
        *,
        out_of_range: str | None = None,
        max_attempts: int | None = None,
        dead_letter_topic: str | None = None,
        no_limit: Sequence[str] | None = None,
    ) -> Group:
        """Change the settings that are given; `create_group` says what they mean.

        ``no_limit=["max_attempts"]`` lifts that limit, and the `dead_letter_topic` with it. It
        waits for open transactions that consume for the group.
        """
        return await self._row(
            Group,
            "alter_group",
            topic=topic,
            consumer_group=consumer_group,
            out_of_range=out_of_range,
            max_attempts=max_attempts,
            dead_letter_topic=dead_letter_topic,
            no_limit=no_limit,
        )

    async def drop_group(self, topic: str, consumer_group: str) -> None:
        """Drop a consumer group with its positions."""
        await self._value(object, "drop_group", topic=topic, consumer_group=consumer_group)

    async def list_groups(self, topic: str | None = None) -> list[Group]:
        """The groups of a topic, or of all."""
        return await self._rows(Group, "list_groups", topic=topic)

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
