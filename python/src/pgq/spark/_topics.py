"""Which topics a query reads, and where it stands in each of them.

``subscribe`` names them, ``subscribePattern`` describes them, so that more may come, and ``assign``
names their partitions. What holds for one topic is in ``_positions``; here it is done for each, and
what a batch may take is shared among all.

A stream of one topic that is named has the position of ``_positions`` in its checkpoint. Of several
it has the offsets of all, and ids by topic::

    {"readings": {"0": 15}, "alarms": {"0": 2}, "@id": {"readings": 3, "alarms": 8}}

Where a topic came later, the end of its first batch says where that began, in ``@from``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pgq.messages import OffsetRange
from pgq.spark._bounds import FROM, ID, SHARDS, Bound, taken_away
from pgq.spark._positions import (
    Checks,
    Kept,
    Log,
    Position,
    by_name,
    moved,
    prorate,
    ranges_between,
    waiting_in,
)

__all__ = ["Bounds", "Positions", "Range", "Topics", "advance", "beginning", "ranges"]

Positions = Mapping[str, Position]
"""Where a query stands, by topic."""

Range = tuple[str, OffsetRange]
"""What a task reads, and of which topic."""


@dataclass(frozen=True)
class Topics:
    """The topics that are read: named, or all that match a pattern; perhaps some partitions."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, frozenset[int]] = field(default_factory=dict)

    @property
    def only(self) -> str | None:
        """The topic, where one is named."""
        return self.names[0] if len(self.names) == 1 else None

    def matching(self, names: Iterable[str]) -> list[str]:
        """Those of the names that are read."""
        if self.pattern is None:
            return sorted(set(names) & set(self.names))
        return sorted(name for name in names if re.fullmatch(self.pattern, name))

    def narrowed(self, topic: str, log: Log) -> Log:
        """What a topic has in the partitions that are read."""
        wanted = self.assigned.get(topic)
        if wanted is None:
            return log
        missing = sorted(wanted - log.partitions.keys())
        if missing:
            raise ValueError(
                f"topic {topic!r} has the partitions {sorted(log.partitions)}, "
                f"'assign' has {missing}"
            )
        return replace(log, partitions={p: log.partitions[p] for p in sorted(wanted)})

    def as_json(self, positions: Positions) -> dict[str, Any]:
        """The form in which Spark keeps positions; equal ones are written in one way."""
        if self.only is not None and positions.keys() == {self.only}:
            return positions[self.only].as_json(self.only)
        names = sorted(positions)
        written: dict[str, Any] = {name: by_name(positions[name].offsets) for name in names}
        written[ID] = {name: positions[name].topic_id for name in names}
        began = {name: positions[name].began for name in names}
        found = {name: by_name(offsets) for name, offsets in began.items() if offsets is not None}
        return {**written, FROM: found} if found else written

    def from_json(self, found: Mapping[str, Any]) -> dict[str, Position]:
        """Read what :meth:`as_json` made, perhaps of one topic and in a run of long ago."""
        if SHARDS in found:
            raise taken_away(len(found[SHARDS]), 1)
        ids = found.get(ID)
        names = sorted(found.keys() - {ID, FROM})
        if not isinstance(ids, Mapping) and self.only is not None:
            return {self.only: Position.from_json(self.only, found)}
        others = sorted(set(names) - set(self.matching(names)))
        if others or ids is None:
            wanted = ", ".join(map(repr, self.names)) or repr(self.pattern)
            told = ", ".join(map(repr, others or names)) or "something else"
            raise ValueError(
                f"the checkpoint is not one of topic {wanted} but of {told}: a query that reads "
                "another topic needs a checkpoint of its own"
            )
        if not isinstance(ids, Mapping):
            return {name: Position.from_json(name, found) for name in names}
        began = found.get(FROM, {})
        return {
            name: Position.from_json(
                name,
                {
                    name: found[name],
                    ID: ids[name],
                    **({FROM: began[name]} if name in began else {}),
                },
            )
            for name in names
        }


@dataclass(frozen=True)
class Bounds:
    """Where to start, or what to stop before, in each topic."""

    of_all: Bound | None = None
    by_topic: Mapping[str, Bound] = field(default_factory=dict)
    name: str = ""
    """The option, for errors."""

    def of(self, topic: str) -> Bound:
        """The one for a topic."""
        found = self.by_topic.get(topic, self.of_all)
        if found is None:
            raise ValueError(
                f"{self.name!r} has nothing for topic {topic!r}: give it for each topic"
            )
        return found

    def all(self) -> list[Bound]:
        """All of them."""
        return [*self.by_topic.values(), *([] if self.of_all is None else [self.of_all])]


def ranges(
    start: Positions, end: Positions, logs: Mapping[str, Log], checks: Mapping[str, Checks]
) -> list[Range]:
    """What lies between two positions and is there."""
    found = []
    for topic, after in end.items():
        log = logs.get(topic, Log(None, {}))
        # A topic that came later begins where its first batch says.
        first = start.get(topic, Position(after.topic_id, after.began or {}))
        between = ranges_between(first, after, log, checks[topic])
        found += [(topic, part) for part in between]
    return found


def advance(
    start: Positions,
    logs: Mapping[str, Log],
    checks: Mapping[str, Checks],
    *,
    limit: int | None,
    target: Mapping[str, Log] | None = None,
) -> tuple[dict[str, Position], int]:
    """How far the next batch goes, and how many messages wait, were there no limit.

    As with one topic: ``limit`` messages at most, nothing that came after ``target``, and the very
    positions that were given where nothing is to be read.
    """
    begins: dict[str, dict[int, int]] = {}
    waiting: dict[tuple[str, int], int] = {}
    starts: dict[str, Position] = {}
    for topic in sorted(start.keys() | logs.keys()):
        log = logs.get(topic)
        if log is None:
            checks[topic].lost("it was dropped.")
            continue
        until = log if target is None else target.get(topic, Log(log.topic_id, {}))
        first = start.get(topic)
        if first is None:
            first = beginning(log)
        starts[topic], begins[topic], counts = waiting_in(first, log, checks[topic], until)
        waiting |= {(topic, partition): count for partition, count in counts.items()}
    taken = prorate(waiting, limit, turn=sum(sum(places.values()) for places in begins.values()))
    # one that was dropped is left out from here on
    found = {topic: position for topic, position in start.items() if topic in logs}
    for topic, first in starts.items():
        counts = {p: count for (name, p), count in taken.items() if name == topic and count}
        if counts:
            found[topic] = moved(first, begins[topic], counts)
        elif topic in start:
            found[topic] = first
    return found, sum(waiting.values())


def beginning(log: Log) -> Position:
    """Where a topic begins that came later, with that as the start of its first batch."""
    kept: Mapping[int, Kept] = log.partitions
    offsets = {partition: places.first for partition, places in kept.items()}
    return Position(log.topic_id, offsets, offsets)
