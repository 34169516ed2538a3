"""The model's consumers: what the members of a group get, and where the group stands."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from model.content import Content
from model.groups import Groups
from model.topics import Group, Partition, Position
from pgq import (
    LeasedMessage,
    LeaseLost,
    Message,
    OffsetOutOfRange,
    OffsetRange,
    SeekResult,
    UnknownPartition,
)

__all__ = ["Members"]

MESSAGES = 100
"""How many a call gives unless it says otherwise."""
LEASE = timedelta(seconds=30)


def _check_message(message: Message | LeasedMessage, number: int, log: Partition) -> None:
    offset = message.log_offset
    assert message.partition == number
    assert log.first_offset <= offset <= log.last_offset
    assert Content.of(message) == log.contents[offset - 1]
    assert message.published_at == log.times[offset - 1]


@dataclass
class Members(Groups):
    """Consuming."""

    def _claim(
        self,
        got: OffsetRange | type[Exception] | None,
        topic: str,
        consumer_group: str,
        max_messages: int | None,
        partition: int | None,
        held: Collection[int],
    ) -> tuple[Group, OffsetRange] | None:
        """The group and the range that it takes; None: nothing to read."""
        group = self._group(topic, consumer_group, partition)
        logs = self.topics[topic].logs

        def free(number: int) -> bool:
            position = group.positions[number]
            unread = logs[number].last_offset >= position.next_offset
            return unread and not position.is_leased(self.now)

        # of several that have something to read, pgq may take any
        among = range(len(logs)) if partition is None else [partition]
        candidates = [n for n in among if n not in held and free(n)]
        gone = [n for n in candidates if group.positions[n].next_offset < logs[n].first_offset]
        if group.out_of_range == "error":
            candidates = [n for n in candidates if n not in gone]
        else:
            empty = [n for n in gone if logs[n].first_offset > logs[n].last_offset]
            # nothing is left in it: pgq may note that when it comes across, see `skipped`
            candidates = [n for n in candidates if n not in empty]
            gone = []
            for number in empty if partition is not None else ():
                group.positions[number] = group.positions[number].moved(logs[number].first_offset)

        failed = {
            number: position
            for number in candidates
            for position in [self.lose_leases(group, number)]
            if position.next_offset >= logs[number].first_offset
            if self.is_exhausted(group, position)
        }
        # what has failed alone may be the last message
        last = [n for n in failed if failed[n].next_offset == logs[n].last_offset]
        giving = [n for n in candidates if n not in last]
        if gone and (got is OffsetOutOfRange or not giving):
            raise OffsetOutOfRange
        letters = []
        for number, position in failed.items():
            named = got is None or (isinstance(got, OffsetRange) and got.partition == number)
            if named or self.was_looked_at(topic, consumer_group, number):
                group.positions[number] = position.kept()
                letters += self._give_up(topic, consumer_group, number)
        self._settle(group, letters)
        if not giving:
            assert got is None, f"{got} instead of nothing"
            if not held and not any(group.positions[n].is_leased(self.now) for n in among):
                assert not any(logs[n].staged for n in among)
            return None

        assert isinstance(got, OffsetRange), f"{got} instead of one of {giving}"
        assert got.partition in giving
        log = logs[got.partition]
        position = self.lose_leases(group, got.partition)
        first = max(position.next_offset, log.first_offset)
        if first > position.next_offset:
            position = position.moved(first)
        group.positions[got.partition] = position
        most = MESSAGES if max_messages is None else max_messages
        newest = self.tips.get((topic, got.partition), log.last_offset)
        end = min(first + most - 1, newest)
        if first <= position.single_offset:
            end = first
        elif position.attempt > 0:
            # what has failed comes again as it was
            end = min(end, position.tried_offset)
        expected = OffsetRange(got.partition, first, end)
        assert got == expected, f"{got} instead of {expected}"
        return group, expected

    def skipped(self, topic: str, consumer_group: str, partition: int, committed: int) -> None:
        """A group that may skip has moved on in a partition of which nothing is left."""
        group = self.topics[topic].groups[consumer_group]
        log = self.topics[topic].logs[partition]
        if group.out_of_range == "skip" and log.first_offset > log.last_offset == committed:
            group.positions[partition] = group.positions[partition].moved(log.first_offset)

    def claim_offsets(
        self,
        got: OffsetRange | None,
        topic: str,
        consumer_group: str,
        *,
        max_messages: int | None,
        partition: int | None,
        held: Collection[int] = (),
    ) -> None:
        claimed = self._claim(got, topic, consumer_group, max_messages, partition, held)
        if claimed is not None:
            group, taken = claimed
            position = group.positions[taken.partition]
            group.positions[taken.partition] = position.moved(taken.last_offset + 1)

    def consume(self, got: Any, topic: str, consumer_group: str, **options: Any) -> None:
        taken = self._taken(got, topic)
        self.claim_offsets(taken, topic, consumer_group, **options)

    def _taken(self, got: Any, topic: str) -> Any:
        """The range of the messages returned, which must be in order and without a gap."""
        if not isinstance(got, list) or not got:
            return got or None
        offsets = [message.log_offset for message in got]
        assert offsets == list(range(offsets[0], offsets[0] + len(got)))
        for message in got:
            _check_message(message, got[0].partition, self.topics[topic].logs[got[0].partition])
        return OffsetRange(got[0].partition, offsets[0], offsets[-1])

    def fetch_range(
        self,
        got: list[Message],
        topic: str,
        partition: int,
        first_offset: int,
        last_offset: int,
    ) -> None:
        found = self._topic(topic)
        if not 0 <= partition < found.partitions:
            raise UnknownPartition
        log = found.logs[partition]
        if first_offset > last_offset:
            assert got == []
            return
        if first_offset < log.first_offset or last_offset > log.last_offset:
            raise OffsetOutOfRange
        assert self._taken(got, topic) == OffsetRange(partition, first_offset, last_offset)

    def fetch(
        self,
        got: list[Message],
        topic: str,
        consumer_group: str,
        *,
        max_messages: int | None,
        partition: int | None,
    ) -> None:
        group = self._group(topic, consumer_group, partition)
        most = MESSAGES if max_messages is None else max_messages
        expected: list[tuple[int, int]] = []
        for number, log in enumerate(self.topics[topic].logs):
            if partition not in (None, number) or len(expected) == most:
                continue
            first = group.positions[number].next_offset
            if first < log.first_offset:
                if group.out_of_range == "error":
                    raise OffsetOutOfRange
                first = log.first_offset
            expected += [(number, n) for n in range(first, log.last_offset + 1)]
            expected = expected[:most]
        assert [(m.partition, m.log_offset) for m in got] == expected
        for message in got:
            _check_message(message, message.partition, self.topics[topic].logs[message.partition])

    # -- leases --------------------------------------------------------------------------------

    def poll(
        self,
        got: Any,
        topic: str,
        consumer_group: str,
        *,
        max_messages: int | None,
        lease: timedelta | None,
        partition: int | None,
        held: Collection[int] = (),
    ) -> None:
        taken = self._taken(got, topic)
        claimed = self._claim(taken, topic, consumer_group, max_messages, partition, held)
        if claimed is not None:
            (token,) = {message.lease_token for message in got}
            group, leased = claimed
            until = self.now + (LEASE if lease is None else lease)
            assert {message.leased_until for message in got} == {until}
            position = replace(
                group.positions[leased.partition],
                leased_until=until,
                lease_token=token,
                lease_last_offset=leased.last_offset,
            )
            counted = group.max_attempts is not None
            if counted:
                position.attempt += 1
                position.tried_offset = max(position.tried_offset, leased.last_offset)
            else:
                position.last_error = None
            assert {m.attempt for m in got} == {position.attempt if counted else None}
            group.positions[leased.partition] = position

    def extend_poll(
        self,
        got: bool,
        topic: str,
        consumer_group: str,
        partition: int,
        lease_token: UUID,
        *,
        lease: timedelta | None,
    ) -> None:
        position = self._group(topic, consumer_group, partition).positions[partition]
        until = position.leased_until
        held = position.lease_token == lease_token and until is not None and until > self.now
        assert got is held
        if held and until is not None:
            position.leased_until = max(until, self.now + (LEASE if lease is None else lease))

    def release_poll(
        self, got: bool, topic: str, consumer_group: str, partition: int, lease_token: UUID
    ) -> None:
        positions = self._group(topic, consumer_group, partition).positions
        assert got is (positions[partition].lease_token == lease_token)
        if got:
            # this attempt does not count
            position = positions[partition]
            position = replace(position.kept(), attempt=max(position.attempt - 1, 0))
            positions[partition] = replace(
                position, tried_offset=position.tried_offset if position.attempt else 0
            )

    # -- positions -----------------------------------------------------------------------------

    def commit_offset(
        self,
        got: int,
        topic: str,
        consumer_group: str,
        partition: int,
        committed_offset: int,
        *,
        lease_token: UUID | None,
    ) -> None:
        group = self._group(topic, consumer_group, partition)
        positions, position = group.positions, group.positions[partition]
        if committed_offset < position.next_offset:
            assert got == position.next_offset - 1
            return
        leased = position.leased_until is not None and position.leased_until > self.now
        if lease_token != position.lease_token and (lease_token is not None or leased):
            raise LeaseLost
        if committed_offset > self.topics[topic].logs[partition].last_offset:
            raise OffsetOutOfRange
        assert got == committed_offset
        if lease_token is not None and committed_offset < (position.lease_last_offset or 0):
            # the rest of the batch has its first attempt
            counted = group.max_attempts is not None
            position.next_offset = committed_offset + 1
            position.attempt, position.last_error = 1 if counted else 0, None
        else:
            positions[partition] = position.moved(committed_offset + 1)

    def seek(
        self,
        got: list[SeekResult],
        topic: str,
        consumer_group: str,
        *,
        partition: int | None,
        log_offset: int | None = None,
        published_at: datetime | None = None,
        start: str | None = None,
    ) -> None:
        group = self._group(topic, consumer_group, partition)
        expected = []
        for number, log in enumerate(self.topics[topic].logs):
            if partition not in (None, number):
                continue
            if log_offset is not None:
                target = log_offset
            elif published_at is not None:
                target = log.offset_at(published_at)
            else:
                target = log.first_offset if start == "earliest" else log.last_offset + 1
            if not log.first_offset <= target <= log.last_offset + 1:
                raise OffsetOutOfRange
            expected.append(SeekResult(number, target))
        assert got == expected, f"{got} instead of {expected}"
        for place in expected:
            group.positions[place.partition] = Position(place.position)
