"""What lies between two bounds in a topic as it is: batches and streams are planned here.

Nothing here asks the database: a :class:`Log` says what the topic has at one moment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pgq.errors import OffsetOutOfRange
from pgq.messages import OffsetRange
from pgq.spark._bounds import EARLIEST, FROM, ID, LATEST, Bound, Moment

__all__ = [
    "Checks",
    "Kept",
    "Log",
    "Position",
    "advance",
    "by_name",
    "moved",
    "pack",
    "plan",
    "prorate",
    "ranges_between",
    "resolve",
    "sample",
    "task_size",
    "waiting_in",
]

TASK_MESSAGES, TASK_BYTES = 250_000, 128 << 20
"""What a task reads at most unless the caller wants more tasks; of bytes about."""

_UNASKED, _SAMPLE = 1000, 10

Place = TypeVar("Place")

_log = logging.getLogger("pgq.spark")


@dataclass(frozen=True)
class Kept:
    """What a partition has: from ``first`` up to, and without, ``after``."""

    first: int
    after: int
    at: int | None = None
    """The first offset published at the time that was asked for, or later."""


@dataclass(frozen=True)
class Log:
    """What a topic has at one moment, by partition."""

    topic_id: int | None
    """The id of its first partition, which tells it from a later topic of the same name."""
    partitions: Mapping[int, Kept]


@dataclass(frozen=True)
class Position:
    """The next offset to read in each partition; one that is not named begins at 1."""

    topic_id: int | None
    offsets: Mapping[int, int]
    began: Mapping[int, int] | None = None
    """Where the first batch of a stream began, of which this is the start or the end."""

    def __getitem__(self, partition: int) -> int:
        return self.offsets.get(partition, 1)

    @property
    def is_initial(self) -> bool:
        """Whether this is the start of the first batch."""
        return self.began == self.offsets

    def as_json(self, topic: str) -> dict[str, Any]:
        """The form in which Spark keeps it; equal positions are written in one way."""
        written = {topic: by_name(self.offsets), ID: self.topic_id}
        return written if self.began is None else {**written, FROM: by_name(self.began)}

    @classmethod
    def from_json(cls, topic: str, found: Mapping[str, Any]) -> Position:
        """Read what :meth:`as_json` made, perhaps in a run of long ago."""
        if topic not in found or ID not in found:
            others = ", ".join(repr(name) for name in found if name not in (ID, FROM))
            raise ValueError(
                f"the checkpoint is not one of topic {topic!r} but of {others or 'something else'}:"
                " a query that reads another topic needs a checkpoint of its own"
            )
        began = found.get(FROM)
        return cls(
            int(found[ID]), _by_number(found[topic]), None if began is None else _by_number(began)
        )


def by_name(offsets: Mapping[int, int]) -> dict[str, int]:
    """Offsets as the JSON of Kafka's source has them."""
    return {str(partition): offsets[partition] for partition in sorted(offsets)}


def _by_number(offsets: Mapping[str, Any]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in offsets.items()}


# ---------------------------------------------------------------------------- what is missing


@dataclass(frozen=True)
class Checks:
    """What to say, or to raise, when a topic does not have what a position asks for."""

    topic: str
    fail_on_data_loss: bool
    shard: int | None = None
    """The database, where there are several."""

    @property
    def place(self) -> str:
        """The topic, and where it is."""
        where = "" if self.shard is None else f" of shard {self.shard}"
        return f"topic {self.topic!r}{where}"

    def lost(self, problem: str) -> None:
        """Messages are missing: fail, or tell and go on."""
        text = f"{self.place}, {problem}"
        if self.fail_on_data_loss:
            raise OffsetOutOfRange(
                f"{text} Set failOnDataLoss (in Python fail_on_data_loss) to false to go on with "
                "what is there; a stream can also start over with another checkpoint."
            )
        _log.warning("%s", text)

    def removed(self, partition: int, first: int, after: int) -> None:
        """Retention was faster."""
        self.lost(
            f"partition {partition}: offsets {first} to {after - 1} are not there any more, "
            "retention has removed them before they were read."
        )

    def ahead(self, partition: int, wanted: int, kept: Kept) -> None:
        """The topic ends before."""
        self.lost(
            f"partition {partition}: reading has come to offset {wanted}, but the topic ends at "
            f"{kept.after - 1}. The database was set back to an earlier state, or it is a standby "
            "that lags behind the server that was read before."
        )

    def renewed(self) -> None:
        """Another topic has the name now."""
        self.lost("it was dropped and created again since the offsets were noted.")


# ---------------------------------------------------------------------------- bounds


def resolve(bound: Bound, log: Log, checks: Checks) -> Position:
    """A position in the topic as it is; for a time, the log must have been asked about it."""
    if bound.earliest:
        return Position(log.topic_id, {p: kept.first for p, kept in log.partitions.items()})
    if bound.times is not None:
        _check_partitions(bound.times, log, checks, "times")
    if bound.moment is not None:
        return Position(log.topic_id, {p: kept.at or 1 for p, kept in log.partitions.items()})
    if bound.offsets is None:
        return Position(log.topic_id, {p: kept.after for p, kept in log.partitions.items()})
    if bound.topic_id not in (None, log.topic_id):
        checks.renewed()
    _check_partitions(bound.offsets, log, checks, "offsets")
    return Position(
        log.topic_id,
        {p: _resolve_one(p, bound.offsets[p], kept, checks) for p, kept in log.partitions.items()},
    )


def _check_partitions(given: Mapping[int, Any], log: Log, checks: Checks, what: str) -> None:
    if given.keys() != log.partitions.keys():
        raise ValueError(
            f"{checks.place} has the partitions {sorted(log.partitions)}, "
            f"{what} were given for {sorted(given)}: give one for each"
            + (", -2 for the earliest, -1 for the latest" if what == "offsets" else "")
        )


def _resolve_one(partition: int, offset: int, kept: Kept, checks: Checks) -> int:
    if offset == EARLIEST:
        return kept.first
    if offset == LATEST:
        return kept.after
    if offset < kept.first:
        # what was lost is told where it is read; as an end it only means that nothing is
        return offset
    if offset > kept.after:
        checks.lost(
            f"partition {partition}: offset {offset} was asked for, "
            f"but the topic ends at {kept.after - 1}."
        )
    return min(offset, kept.after)


# ---------------------------------------------------------------------------- batches


def plan(
    start: Bound, end: Bound, log_at: Callable[[Moment | None], Log], checks: Checks
) -> list[OffsetRange]:
    """What a batch reads: a range for each partition that has something between two bounds.

    ``log_at`` asks what the topic has, with the first offset published at a time, or later.
    """
    log = log_at(start.moment)
    first = resolve(start, log, checks)
    if end.moment is not None:
        log = log_at(end.moment)
    after = resolve(end, log, checks)
    # An end before the start is no error here: there is nothing in between. A partition that was
    # added since the start was resolved is for the next read.
    ends = {p: max(first[p], offset) for p, offset in after.offsets.items() if p in first.offsets}
    return ranges_between(first, Position(after.topic_id, ends), log, checks)


def ranges_between(start: Position, end: Position, log: Log, checks: Checks) -> list[OffsetRange]:
    """What lies between two positions and is there."""
    if start.is_initial and end.began is not None:
        # The start was asked for again, but the batch may have been planned in an earlier run.
        start = Position(end.topic_id, end.began)
    if end.topic_id != log.topic_id:
        checks.renewed()
        return []
    if start.topic_id != end.topic_id:
        start = Position(end.topic_id, {})
    found = []
    for partition, after in sorted(end.offsets.items()):
        first = start[partition]
        if after < first:
            raise OffsetOutOfRange(
                f"{checks.place}, partition {partition}: a batch from offset {first} back "
                f"to {after} would read messages twice. The topic was set back to an earlier "
                "state: start over with another checkpoint."
            )
        kept = log.partitions.get(partition, Kept(1, 1))
        if first < after and first < kept.first:
            checks.removed(partition, first, min(after, kept.first))
        if first < after and after > kept.after:
            checks.ahead(partition, after, kept)
        first, after = max(first, kept.first), min(after, kept.after)
        if first < after:
            found.append(OffsetRange(partition, first, after - 1))
    return found


def sample(found: Sequence[tuple[Place, OffsetRange]]) -> tuple[Place, OffsetRange] | None:
    """Messages that tell how large others are; None where one task can take all in any case."""
    if sum(len(part) for _, part in found) <= _UNASKED:
        return None
    place, longest = max(found, key=lambda one: len(one[1]))
    first = max(longest.first_offset, longest.last_offset - _SAMPLE + 1)
    return place, replace(longest, first_offset=first)


def task_size(messages: int, min_partitions: int | None, average: float | None = None) -> int:
    """How many messages a task reads at most, ``average`` bytes each where that is known."""
    size = TASK_MESSAGES
    if average:
        size = min(size, int(TASK_BYTES / average))
    if min_partitions is not None:
        size = min(size, messages // min_partitions)
    return max(1, size)


def pack(
    found: Sequence[tuple[Place, OffsetRange]], size: int
) -> list[list[tuple[Place, OffsetRange]]]:
    """Tasks of nearly one length, of at most ``size`` messages: of ranges, and of parts of them."""
    total = sum(len(whole) for _, whole in found)
    count = -(-total // size)
    tasks: list[list[tuple[Place, OffsetRange]]] = [[] for _ in range(count)]
    begin = 0
    for place, whole in found:
        first = whole.first_offset
        while first <= whole.last_offset:
            task = ((begin + 1) * count - 1) // total
            length = min(whole.last_offset - first + 1, total * (task + 1) // count - begin)
            part = OffsetRange(whole.partition, first, first + length - 1)
            tasks[task].append((place, part))
            first, begin = first + length, begin + length
    return tasks


# ---------------------------------------------------------------------------- streams


def advance(
    start: Position, log: Log, checks: Checks, *, limit: int | None, target: Log | None = None
) -> Position:
    """How far the next batch goes: ``start`` itself when there is nothing to read.

    ``limit`` messages at most, from each partition in proportion to what waits there; nothing that
    came after ``target``.
    """
    first, begins, waiting = waiting_in(start, log, checks, log if target is None else target)
    taken = prorate(waiting, limit, turn=sum(begins.values()))
    counts = {p: count for p, count in taken.items() if count}
    return moved(first, begins, counts) if counts else first


def waiting_in(
    start: Position, log: Log, checks: Checks, until: Log
) -> tuple[Position, dict[int, int], dict[int, int]]:
    """The start in the topic as it is; where to begin in each partition, and what waits there."""
    if start.topic_id != log.topic_id:
        checks.renewed()
        start = Position(log.topic_id, {})
    if until.topic_id != log.topic_id:
        return start, {}, {}
    begins = {}
    waiting = {}
    for partition, kept in log.partitions.items():
        position = start[partition]
        if position < kept.first:
            checks.removed(partition, position, kept.first)
        elif position > kept.after:
            checks.ahead(partition, position, kept)
        # Where the topic has fallen back behind the position, nothing is read a second time.
        begins[partition] = max(position, kept.first)
        end = until.partitions[partition].after if partition in until.partitions else 0
        waiting[partition] = max(0, end - begins[partition])
    return start, begins, waiting


def moved(start: Position, begins: Mapping[int, int], counts: Mapping[int, int]) -> Position:
    """The position behind so many messages more in each partition."""
    ends = {p: begins[p] + count for p, count in counts.items()}
    began = start.offsets if start.is_initial else None
    return Position(start.topic_id, {**start.offsets, **ends}, began)


Part = TypeVar("Part", int, tuple[str, int])
"""A partition, or one of a topic."""


def prorate(waiting: Mapping[Part, int], limit: int | None, *, turn: int) -> dict[Part, int]:
    """Share ``limit`` among partitions, in proportion to what waits in each.

    What rounding leaves goes to those that got least; among equals ``turn`` decides, which differs
    from batch to batch, so that no partition waits for ever.
    """
    total = sum(waiting.values())
    if limit is None or total <= limit:
        return dict(waiting)
    shares = {partition: limit * count // total for partition, count in waiting.items()}
    left = limit - sum(shares.values())
    order = sorted(partition for partition, count in waiting.items() if count > shares[partition])
    turned = order[turn % len(order) :] + order[: turn % len(order)]
    for partition in sorted(turned, key=lambda partition: shares[partition])[:left]:
        shares[partition] += 1
    return shares
