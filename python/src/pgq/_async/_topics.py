"""Topics, publishing to them, and the consumer groups that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pgq._async._calling import Calling
from pgq.messages import (
    Group,
    GroupLag,
    PublishBatchResult,
    PublishResult,
    Topic,
    TopicStats,
)

__all__ = ["Topics"]


class Topics(Calling):
    """Topics, publishing and consumer groups."""

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

    async def topic_stats(self, topic: str | None = None) -> list[TopicStats]:
        """What the topics hold, a row per partition."""
        return await self._view(TopicStats, "topic_stats", topic=topic)

    async def publish(
        self,
        topic: str,
        payload: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        partition: int | None = None,
        idempotency_key: str | None = None,
        body: bytes | None = None,
    ) -> PublishResult:
        """Append one message and return where it stands.

        Messages of one `key` go to one partition and keep their order. Without a key, and without
        a named partition, any partition that is free takes it. The partition stays locked until
        the transaction ends, so publish late in a long one. In a deferred topic nothing is locked,
        and `log_offset` is None.

        With an `idempotency_key` that was given before, within the topic's window, nothing is
        written: the result says where the first message stands, and `duplicate` is True.
        """
        return await self._row(
            PublishResult,
            "publish",
            topic=topic,
            payload=payload,
            key=key,
            headers=headers,
            partition=partition,
            idempotency_key=idempotency_key,
            body=body,
        )

    async def publish_batch(
        self,
        topic: str,
        payloads: Sequence[Any] | None = None,
        *,
        keys: Sequence[str | None] | None = None,
        headers: Sequence[Mapping[str, Any] | None] | None = None,
        partition: int | None = None,
        idempotency_keys: Sequence[str | None] | None = None,
        bodies: Sequence[bytes] | None = None,
    ) -> list[PublishBatchResult]:
        """Append many messages; all are stored or none.

        Lists given beside each other have the same length. Returns the offsets in each partition
        written to: within it the messages stand in the order of the lists. Messages whose
        idempotency key was given before are not written; results with `duplicate` say where they
        stand.
        """
        return await self._rows(
            PublishBatchResult,
            "publish_batch",
            topic=topic,
            payloads=payloads,
            keys=keys,
            headers=headers,
            partition=partition,
            idempotency_keys=idempotency_keys,
            bodies=bodies,
        )

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

    async def group_lag(
        self, topic: str | None = None, consumer_group: str | None = None
    ) -> list[GroupLag]:
        """How far the groups are behind, a row per partition."""
        return await self._view(GroupLag, "group_lag", topic=topic, consumer_group=consumer_group)
