"""The model's topics: their partitions, what is published to them, and their groups."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from model.content import Clocked, Content, check_existing
from pgq import PublishBatchResult, PublishResult, UnknownGroup, UnknownPartition, UnknownTopic

__all__ = ["Group", "Partition", "Position", "Topic", "Topics"]


@dataclass
class Position:
    """Where a group stands in a partition."""

    next_offset: int
    leased_until: datetime | None = None
    lease_token: UUID | None = None
    lease_last_offset: int | None = None


@dataclass
class Partition:
    """All messages ever published to it; those below ``first_offset`` are gone."""

    contents: list[Content] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)
    first_offset: int = 1

    @property
    def last_offset(self) -> int:
        return len(self.contents)

    def offset_at(self, time: datetime) -> int:
        available = range(self.first_offset, self.last_offset + 1)
        return next((n for n in available if self.times[n - 1] >= time), self.last_offset + 1)


@dataclass
class Group:
    """A consumer group and its position in each partition."""

    out_of_range: str
    positions: list[Position]


@dataclass
class Topic:
    """A topic; ``shortest`` is the shortest retention it ever had.

    ``noted``: when an idempotency key was given last, and with which message.
    """

    retention: timedelta | None
    shortest: timedelta | None
    logs: list[Partition]
    groups: dict[str, Group] = field(default_factory=dict)
    noted: dict[str, tuple[datetime, PublishResult]] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        return len(self.logs)


@dataclass
class Topics(Clocked):
    """``homes`` says to which partition a key belongs, by the number of partitions."""

    homes: dict[tuple[str, int], int] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)

    def _topic(self, topic: str) -> Topic:
        if topic not in self.topics:
            raise UnknownTopic
        return self.topics[topic]

    def _group(self, topic: str, consumer_group: str, partition: int | None) -> Group:
        found = self._topic(topic)
        if consumer_group not in found.groups:
            raise UnknownGroup
        if partition is not None and not 0 <= partition < found.partitions:
            raise UnknownPartition
        return found.groups[consumer_group]

    # -- settings ------------------------------------------------------------------------------

    def create_topic(
        self,
        got: Any,
        topic: str,
        *,
        partitions: int | None = None,
        retention: timedelta | None = None,
        no_limit: Sequence[str] = (),
    ) -> None:
        if topic in self.topics:
            given = {"partitions": partitions, "retention": retention}
            check_existing(self.topics[topic], given, no_limit)
        else:
            kept = timedelta(days=7) if retention is None else retention
            kept_for = None if "retention" in no_limit else kept
            empty = [Partition() for _ in range(8 if partitions is None else partitions)]
            self.topics[topic] = Topic(kept_for, kept_for, empty)
        made = self.topics[topic]
        assert (got.partitions, got.retention) == (made.partitions, made.retention)

    def alter_topic(
        self,
        got: Any,
        topic: str,
        *,
        partitions: int | None = None,
        retention: timedelta | None = None,
        no_limit: Sequence[str] = (),
    ) -> None:
        altered = self._topic(topic)
        for _ in range(altered.partitions, partitions or 0):
            altered.logs.append(Partition())
            for group in altered.groups.values():
                group.positions.append(Position(1))
        if "retention" in no_limit:
            altered.retention = None
        elif retention is not None:
            altered.retention = retention
            altered.shortest = min(altered.shortest or retention, retention)
        assert (got.partitions, got.retention) == (altered.partitions, altered.retention)

    def drop_topic(self, got: Any, topic: str) -> None:
        self._topic(topic)
        del self.topics[topic]

    def create_group(
        self,
        got: Any,
        topic: str,
        consumer_group: str,
        *,
        start: str | None = None,
        out_of_range: str | None = None,
    ) -> None:
        found = self._topic(topic)
        if consumer_group in found.groups:
            check_existing(found.groups[consumer_group], {"out_of_range": out_of_range}, ())
        else:
            positions = [
                Position(log.last_offset + 1 if start == "latest" else log.first_offset)
                for log in found.logs
            ]
            found.groups[consumer_group] = Group(out_of_range or "error", positions)
        assert got.out_of_range == found.groups[consumer_group].out_of_range

    def alter_group(
        self, got: Any, topic: str, consumer_group: str, *, out_of_range: str | None
    ) -> None:
        altered = self._group(topic, consumer_group, None)
        altered.out_of_range = out_of_range or altered.out_of_range
        assert got.out_of_range == altered.out_of_range

    def drop_group(self, got: Any, topic: str, consumer_group: str) -> None:
        self._group(topic, consumer_group, None)
        del self.topics[topic].groups[consumer_group]

    # -- publishing ----------------------------------------------------------------------------

    def _append(self, log: Partition, contents: Sequence[Content]) -> None:
        time = max([self.now, *log.times[-1:]])
        log.contents.extend(contents)
        log.times.extend([time] * len(contents))

    def publish(
        self,
        got: PublishResult,
        topic: str,
        content: Content,
        *,
        partition: int | None,
        idempotency_key: str | None = None,
        held: Collection[int] = (),
    ) -> None:
        found = self._topic(topic)
        noted_at, place = found.noted.get(idempotency_key or "", (None, None))
        if noted_at is not None and noted_at + timedelta(days=1) > self.now:
            assert got == place
            return
        if partition is not None and not 0 <= partition < found.partitions:
            raise UnknownPartition
        if partition is not None:
            assert got.partition == partition
        elif content.key is not None:
            assert got.partition == self.homes[content.key, found.partitions]
        else:
            assert got.partition not in held
        log = found.logs[got.partition]
        self._append(log, [content])
        assert got == PublishResult(got.partition, log.last_offset, duplicate=False)
        if idempotency_key is not None:
            found.noted[idempotency_key] = (self.now, replace(got, duplicate=True))

    def publish_batch(
        self,
        got: list[PublishBatchResult],
        topic: str,
        contents: Sequence[Content],
        *,
        partition: int | None,
    ) -> None:
        found = self._topic(topic)
        count = found.partitions
        if partition is not None and contents and not 0 <= partition < count:
            raise UnknownPartition
        if not contents:
            assert got == []
            return
        keyed = [self.homes[c.key, count] for c in contents if c.key is not None]
        if partition is not None:
            homes = [partition] * len(contents)
        elif keyed:
            # those without a key follow the first that has one
            homes = [keyed[0] if c.key is None else self.homes[c.key, count] for c in contents]
        else:
            homes = [got[0].partition] * len(contents)
        expected = []
        for number in sorted(set(homes)):
            log = found.logs[number]
            first = log.last_offset + 1
            self._append(
                log, [c for c, home in zip(contents, homes, strict=True) if home == number]
            )
            expected.append(PublishBatchResult(number, first, log.last_offset, duplicate=False))
        assert got == expected, f"{got} instead of {expected}"

    # -- retention -----------------------------------------------------------------------------

    def forget(self, topic: str, partition: int, first_offset: int) -> None:
        """Retention has removed the messages below an offset: they must have been old enough."""
        found = self.topics[topic]
        log = found.logs[partition]
        assert log.first_offset <= first_offset <= log.last_offset + 1
        for offset in range(log.first_offset, first_offset):
            assert found.shortest is not None
            assert log.times[offset - 1] + found.shortest <= self.now
        log.first_offset = first_offset
