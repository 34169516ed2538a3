"""The model's groups: their settings, how often they have failed, and where dead letters go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg.errors import InvalidParameterValue

from model.content import Content, check_existing, ends_at
from model.queues import LAST_LEASE_RAN_OUT
from model.topics import Group, Position, Topics
from pgq import OffsetOutOfRange

__all__ = ["Groups", "Shown"]

Letter = tuple[str, int, int | None, Content]
"""The topic, the partition, the offset, if it has one, and the content."""


@dataclass(frozen=True)
class Shown:
    """What only the database can tell: of several partitions that have failed, which were looked
    at (committed offset, attempt and last error of each), and which dead letters are where."""

    positions: Mapping[tuple[str, str, int], tuple[int, int, str | None]] = field(
        default_factory=dict
    )
    letters: Sequence[Letter] = ()


@dataclass
class Groups(Topics):
    """Settings and failures. ``shown`` is what the database showed after the call."""

    shown: Shown = Shown()

    # -- settings ------------------------------------------------------------------------------

    def create_group(
        self,
        got: Any,
        topic: str,
        consumer_group: str,
        *,
        start: str | None = None,
        out_of_range: str | None = None,
        max_attempts: int | None = None,
        dead_letter_topic: str | None = None,
    ) -> None:
        self._check_letters(topic, max_attempts, dead_letter_topic)
        if topic in self.topics and dead_letter_topic is not None:
            self._topic(dead_letter_topic)
        known = self.topics[topic].groups if topic in self.topics else {}
        if consumer_group in known:
            given = {
                "out_of_range": out_of_range,
                "max_attempts": max_attempts,
                "dead_letter_topic": dead_letter_topic,
            }
            check_existing(known[consumer_group], given, ())
        else:
            self._check_both(max_attempts, dead_letter_topic)
            positions = [
                Position(log.last_offset + 1 if start == "latest" else log.first_offset)
                for log in self._topic(topic).logs
            ]
            known[consumer_group] = Group(
                out_of_range or "error", positions, max_attempts, dead_letter_topic
            )
        self._check_group(got, known[consumer_group])

    def alter_group(
        self,
        got: Any,
        topic: str,
        consumer_group: str,
        *,
        out_of_range: str | None,
        max_attempts: int | None = None,
        dead_letter_topic: str | None = None,
        no_limit: Sequence[str] | None = None,
    ) -> None:
        self._check_letters(topic, max_attempts, dead_letter_topic)
        lifted = bool(no_limit)
        if not set(no_limit or ()) <= {"max_attempts"}:
            raise InvalidParameterValue
        if lifted and (max_attempts is not None or dead_letter_topic is not None):
            raise InvalidParameterValue
        if dead_letter_topic is not None:
            self._topic(dead_letter_topic)
        altered = self._group(topic, consumer_group, None)
        most = None if lifted else max_attempts or altered.max_attempts
        letters_to = None if lifted else dead_letter_topic or altered.dead_letter_topic
        self._check_both(most, letters_to)
        altered.out_of_range = out_of_range or altered.out_of_range
        altered.max_attempts, altered.dead_letter_topic = most, letters_to
        if lifted:
            # attempts are forgotten
            altered.positions = [
                replace(each, attempt=0, last_error=None, tried_offset=0, single_offset=0)
                for each in altered.positions
            ]
        self._check_group(got, altered)

    def drop_group(self, got: Any, topic: str, consumer_group: str) -> None:
        self._group(topic, consumer_group, None)
        del self.topics[topic].groups[consumer_group]

    @staticmethod
    def _check_letters(topic: str, max_attempts: int | None, dead_letter_topic: str | None) -> None:
        if (max_attempts is not None and max_attempts < 1) or dead_letter_topic == topic:
            raise InvalidParameterValue

    @staticmethod
    def _check_both(max_attempts: int | None, dead_letter_topic: str | None) -> None:
        if (max_attempts is None) is not (dead_letter_topic is None):
            raise InvalidParameterValue

    @staticmethod
    def _check_group(got: Any, known: Group) -> None:
        found = (got.out_of_range, got.max_attempts, got.dead_letter_topic)
        assert found == (known.out_of_range, known.max_attempts, known.dead_letter_topic)

    # -- failures ------------------------------------------------------------------------------

    def nack_offsets(
        self,
        got: bool,
        topic: str,
        consumer_group: str,
        partition: int,
        *,
        lease_token: UUID | None = None,
        first_offset: int | None = None,
        last_offset: int | None = None,
        delay: timedelta | None,
        error: str | None,
    ) -> None:
        if (lease_token is None) is (first_offset is None):
            raise InvalidParameterValue
        if (first_offset is None) is not (last_offset is None):
            raise InvalidParameterValue
        if first_offset is not None and last_offset is not None and first_offset > last_offset:
            raise InvalidParameterValue
        group = self._group(topic, consumer_group, partition)
        position = group.positions[partition]
        log = self.topics[topic].logs[partition]
        if last_offset is not None and last_offset > log.last_offset:
            raise OffsetOutOfRange
        if lease_token is not None:
            held = lease_token == position.lease_token
        else:
            leased = position.lease_token is not None and position.is_leased(self.now)
            held = first_offset == position.next_offset and not leased
        assert got is held
        if not held:
            return
        until = ends_at(self.now, delay)
        if group.max_attempts is None:
            group.positions[partition] = Position(position.next_offset, until, last_error=error)
            return
        # poll has counted, unless the group had no limit then
        attempt = max(position.attempt, 1) if lease_token is not None else position.attempt + 1
        failed = replace(
            position.kept(until),
            attempt=attempt,
            last_error=position.last_error if error is None else error,
            tried_offset=max(
                position.tried_offset, last_offset or 0, position.lease_last_offset or 0
            ),
        )
        group.positions[partition] = failed
        letters = []
        # what retention has removed is nobody's dead letter
        if attempt >= group.max_attempts and failed.next_offset >= log.first_offset:
            letters = self._give_up(topic, consumer_group, partition)
        self._settle(group, letters)

    def is_exhausted(self, group: Group, position: Position) -> bool:
        return group.max_attempts is not None and position.attempt >= group.max_attempts

    def lose_leases(self, group: Group, partition: int) -> Position:
        """Whoever had it said nothing, so that was a failure; how the partition stands then."""
        position = group.positions[partition]
        if group.max_attempts is None or position.lease_token is None:
            return position
        error = position.last_error
        if error is None or not error.endswith(LAST_LEASE_RAN_OUT):
            error = "\n".join([*([] if error is None else [error]), LAST_LEASE_RAN_OUT])
        return replace(
            position,
            attempt=max(position.attempt, 1),
            last_error=error,
            tried_offset=max(position.tried_offset, position.lease_last_offset or 0),
        )

    def exhausted(self, topic: str, consumer_group: str) -> int:
        """In how many partitions a group has failed as often as it may."""
        known = self.topics[topic].groups if topic in self.topics else {}
        group = known.get(consumer_group, Group("error", []))
        return sum(
            self.is_exhausted(group, self.lose_leases(group, number))
            for number in range(len(group.positions))
        )

    def emptied(self, topic: str, consumer_group: str) -> bool:
        """Whether retention has left a group nothing in a partition where it had not come to."""
        known = self.topics[topic].groups if topic in self.topics else {}
        group = known.get(consumer_group, Group("error", []))
        logs = self.topics[topic].logs if group.positions else []
        return any(
            position.next_offset < log.first_offset > log.last_offset
            for position, log in zip(group.positions, logs, strict=True)
        )

    def was_looked_at(self, topic: str, consumer_group: str, partition: int) -> bool:
        """Whether a call has come across a partition in which a group had failed."""
        position = self.topics[topic].groups[consumer_group].positions[partition]
        found = self.shown.positions[topic, consumer_group, partition]
        return found != (position.next_offset - 1, position.attempt, position.last_error)

    def _give_up(self, topic: str, consumer_group: str, partition: int) -> list[Content]:
        """Of several messages each gets attempts of its own; a single one is a dead letter."""
        group = self.topics[topic].groups[consumer_group]
        position = group.positions[partition]
        log = self.topics[topic].logs[partition]
        poison = position.next_offset
        if position.tried_offset > poison > position.single_offset:
            group.positions[partition] = replace(
                position, attempt=0, tried_offset=0, single_offset=position.tried_offset
            )
            return []
        group.positions[partition] = position.moved(poison + 1)
        content = log.contents[poison - 1]
        origin = {
            "pgq_topic": topic,
            "pgq_partition": partition,
            "pgq_offset": poison,
            "pgq_group": consumer_group,
            "pgq_attempts": position.attempt,
            "pgq_error": position.last_error,
            "pgq_published_at": log.times[poison - 1].isoformat(),
        }
        return [replace(content, headers={**(content.headers or {}), **origin})]

    def _settle(self, group: Group, letters: Sequence[Content]) -> None:
        """They are in the dead-letter topic, and nothing else is; of those without a key the
        database says in which partition."""
        added = []
        for name, number, log_offset, content in self.shown.letters:
            if log_offset is None or log_offset > self.topics[name].logs[number].last_offset:
                added.append((name, number, content))
        for name, topic in self.topics.items():
            for number, log in enumerate(topic.logs):
                for content in log.staged:
                    if (name, number, content) in added:
                        added.remove((name, number, content))
        rest = [content for *_, content in added]
        for letter in letters:
            assert letter in rest, f"{letter} is not there"
            rest.remove(letter)
        assert not rest, f"{rest} should not be there"
        for name, number, content in added:
            assert name == group.dead_letter_topic
            if content.key is not None:
                assert number == self.homes[content.key, self.topics[name].partitions]
            self._append(name, self.topics[name].logs[number], [content])
