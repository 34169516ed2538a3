"""The model's topics: their partitions, what is published to them, and their groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.errors import DependentObjectsStillExist

from model.content import Clocked, Content, check_existing
from model.once import Noted, followers, must_be_found
from pgq import (
    OffsetRange,
    PublishBatchResult,
    PublishResult,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
)

__all__ = ["Group", "Partition", "Position", "Tips", "Topic", "Topics"]

Tips = Mapping[tuple[str, int], int]
"""The newest offset of each partition."""


@dataclass
class Position:
    """Where a group stands in a partition.

    Of a group with a ``max_attempts``: how many attempts there were here, with the one under way,
    how the last of them failed, up to where they went, and up to where messages are given out one
    by one since those before have failed together. Without a ``max_attempts``: what a nack said,
    up to the next attempt.
    """

    next_offset: int
    leased_until: datetime | None = None
    lease_token: UUID | None = None
    lease_last_offset: int | None = None
    attempt: int = 0
    last_error: str | None = None
    tried_offset: int = 0
    single_offset: int = 0

    def moved(self, next_offset: int) -> Position:
        """At another place, where attempts begin anew."""
        return Position(next_offset, single_offset=self.single_offset)

    def kept(self, until: datetime | None = None) -> Position:
        """Without the lease; nobody gets anything until then."""
        return replace(self, leased_until=until, lease_token=None, lease_last_offset=None)

    def is_leased(self, now: datetime) -> bool:
        return self.leased_until is not None and self.leased_until > now


@dataclass
class Partition:
    """All messages that ever got an offset; those below ``first_offset`` are gone. ``staged``: what
    was published to a deferred topic and has none yet."""

    contents: list[Content] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)
    first_offset: int = 1
    staged: list[Content] = field(default_factory=list)

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
    max_attempts: int | None = None
    dead_letter_topic: str | None = None


@dataclass
class Topic:
    """A topic; ``shortest`` is the shortest retention it ever had.

    ``noted``: its idempotency keys, with where their messages stand.
    """

    retention: timedelta | None
    shortest: timedelta | None
    logs: list[Partition]
    groups: dict[str, Group] = field(default_factory=dict)
    noted: dict[str, Noted] = field(default_factory=dict)
    deferred: bool = False
    idempotency_window: timedelta = timedelta(days=1)

    @property
    def partitions(self) -> int:
        return len(self.logs)


@dataclass
class Topics(Clocked):
    """``homes`` says to which partition a key belongs, by the number of partitions; ``tips``, what
    of deferred topics had offsets when the call ended, which may be long ago in an open
    transaction."""

    homes: dict[tuple[str, int], int] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    tips: Tips = field(default_factory=dict)

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
        deferred: bool | None = None,
        no_limit: Sequence[str] = (),
    ) -> None:
        if topic in self.topics:
            given = {"partitions": partitions, "retention": retention, "deferred": deferred}
            check_existing(self.topics[topic], given, no_limit)
        else:
            kept = timedelta(days=7) if retention is None else retention
            kept_for = None if "retention" in no_limit else kept
            empty = [Partition() for _ in range(8 if partitions is None else partitions)]
            self.topics[topic] = Topic(kept_for, kept_for, empty, deferred=bool(deferred))
        made = self.topics[topic]
        assert (got.partitions, got.retention) == (made.partitions, made.retention)
        assert got.deferred is made.deferred

    def alter_topic(
        self,
        got: Any,
        topic: str,
        *,
        partitions: int | None = None,
        retention: timedelta | None = None,
        idempotency_window: timedelta | None = None,
        no_limit: Sequence[str] = (),
    ) -> None:
        altered = self._topic(topic)
        if idempotency_window is not None:
            altered.idempotency_window = idempotency_window
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
        assert got.idempotency_window == altered.idempotency_window

    def drop_topic(self, got: Any, topic: str) -> None:
        self._topic(topic)
        groups = [group for known in self.topics.values() for group in known.groups.values()]
        if topic in [group.dead_letter_topic for group in groups]:
            raise DependentObjectsStillExist
        del self.topics[topic]

    # -- publishing ----------------------------------------------------------------------------

    def _append(self, topic: str, log: Partition, contents: Sequence[Content]) -> None:
        if self.topics[topic].deferred:
            log.staged.extend(contents)
            return
        time = max([self.now, *log.times[-1:]])
        log.contents.extend(contents)
        log.times.extend([time] * len(contents))
        self.deliver(topic, contents, time)

    def assign(self, tips: Tips) -> None:
        """What the database has given offsets to, in the order in which it was published."""
        for (name, number), tip in tips.items():
            topic = self.topics.get(name)
            if topic is None or not topic.deferred or number >= topic.partitions:
                continue
            log = topic.logs[number]
            more = max(tip - log.last_offset, 0)
            assert more <= len(log.staged)
            time = max([self.now, *log.times[-1:]])
            given = log.staged[:more]
            log.contents.extend(given)
            log.times.extend([time] * more)
            del log.staged[:more]
            self.deliver(name, given, time)

    def assign_offsets(
        self, got: list[OffsetRange], topic: str, *, partition: int | None, before: Tips
    ) -> None:
        found = self._topic(topic)
        if partition is not None and not 0 <= partition < found.partitions:
            raise UnknownPartition
        given = {each.partition: (each.first_offset, each.last_offset) for each in got}
        assert len(given) == len(got)
        for number, log in enumerate(found.logs):
            if partition in (None, number):
                assert not log.staged
                tip = before.get((topic, number), log.last_offset)
                expected = (tip + 1, log.last_offset) if tip < log.last_offset else None
                assert given.pop(number, None) == expected
        assert not given

    def deliver(self, topic: str, contents: Sequence[Content], published_at: datetime) -> None:
        """What a publish does beside: see `Subscriptions`."""

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
        note = found.noted.get(idempotency_key or "")
        if must_be_found(note, self.now):
            assert note is not None
            assert got == note.place
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
        self._append(topic, log, [content])
        offset = None if found.deferred else log.last_offset
        assert got == PublishResult(got.partition, offset, duplicate=False)
        if idempotency_key is not None:
            self._note_message(found, idempotency_key, got)

    def _note_message(self, topic: Topic, idempotency_key: str, place: PublishResult) -> None:
        place, window = replace(place, duplicate=True), topic.idempotency_window
        topic.noted[idempotency_key] = Noted.new(self.now, place, window)

    def publish_batch(
        self,
        got: list[PublishBatchResult],
        topic: str,
        contents: Sequence[Content],
        *,
        partition: int | None,
        idempotency_keys: Sequence[str | None] | None = None,
    ) -> None:
        found = self._topic(topic)
        count = found.partitions
        if idempotency_keys is not None:
            self._publish_once(got, topic, contents, idempotency_keys, partition)
            return
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
            there = [c for c, home in zip(contents, homes, strict=True) if home == number]
            self._append(topic, log, there)
            ends = (None, None) if found.deferred else (first, log.last_offset)
            expected.append(PublishBatchResult(number, *ends, duplicate=False))
        assert got == expected, f"{got} instead of {expected}"

    def _publish_once(
        self,
        got: list[PublishBatchResult],
        topic: str,
        contents: Sequence[Content],
        idempotency_keys: Sequence[str | None],
        partition: int | None,
    ) -> None:
        found = self._topic(topic)
        count = found.partitions
        leaders = followers(found.noted, idempotency_keys, self.now)
        new = [place for place, leader in enumerate(leaders) if place == leader]
        if new and partition is not None and not 0 <= partition < count:
            raise UnknownPartition
        # those without a key follow the first that has one, wherever it stands
        other = next((self.homes[c.key, count] for c in contents if c.key is not None), None)
        free = [row.partition for row in got if not row.duplicate]
        homes: dict[int, int] = {}
        for place in new:
            key = contents[place].key
            home = other if key is None else self.homes[key, count]
            home = home if partition is None else partition
            homes[place] = free[0] if home is None else home
        stands: dict[int, PublishResult] = {}
        for number in sorted(set(homes.values())):
            log = found.logs[number]
            there = [place for place in new if homes[place] == number]
            first = log.last_offset + 1
            self._append(topic, log, [contents[place] for place in there])
            for offset, place in enumerate(there, first):
                known = None if found.deferred else offset
                stands[place] = PublishResult(number, known, duplicate=False)
        for place, leader in enumerate(leaders):
            key_of = idempotency_keys[place]
            if isinstance(leader, Noted):
                stands[place] = leader.place
            elif leader != place:
                stands[place] = replace(stands[leader], duplicate=True)
            elif key_of is not None:
                self._note_message(found, key_of, stands[place])
        assert got == runs_of(stands.values())

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


def runs_of(places: Iterable[PublishResult]) -> list[PublishBatchResult]:
    """A row for each run of offsets, as publish_batch answers."""
    rows: list[PublishBatchResult] = []
    order = sorted(set(places), key=lambda p: (p.partition, p.duplicate, p.log_offset or 0))
    for place in order:
        last = rows[-1] if rows else None
        if (
            last is not None
            and last.last_offset is not None
            and (last.partition, last.duplicate) == (place.partition, place.duplicate)
            and last.last_offset + 1 == place.log_offset
        ):
            rows[-1] = replace(last, last_offset=place.log_offset)
        else:
            ends = (place.log_offset, place.log_offset)
            rows.append(PublishBatchResult(place.partition, *ends, duplicate=place.duplicate))
    return sorted(rows, key=lambda r: (r.partition, r.first_offset or 0, r.duplicate))
