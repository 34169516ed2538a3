"""A stream from a topic that is spread over several databases: a position in each of them.

The checkpoint has the positions of all, in the order of the URLs, and what tells the databases
apart::

    {"@shards": [{"readings": {"0": 15}, "@id": 3}, {"readings": {"0": 7}, "@id": 3}],
     "@created": ["2026-01-31 08:15:00.123456", "2026-01-31 08:15:02.654321"]}

A database that is added at the end of the URLs is read from its beginning. So one URL may become
several: the position of a single database is that of the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pgq.messages import OffsetRange
from pgq.spark._bounds import CREATED, ID, SHARDS, taken_away
from pgq.spark._fetch import Database, read_ranges
from pgq.spark._options import Options
from pgq.spark._positions import pack, prorate, sample, task_size
from pgq.spark._topics import Range

if TYPE_CHECKING:
    import pyarrow

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    HAS_LIMITS = False
else:
    HAS_LIMITS = True

__all__ = [
    "HAS_LIMITS",
    "Plan",
    "check_distinct",
    "default_limit",
    "max_rows",
    "read_task",
    "spread_reader",
    "tasks_of",
]

NOTHING: dict[str, Any] = {ID: {}}
"""The position in a database that nothing was read of: its topics begin where they begin."""


@dataclass(frozen=True)
class Plan:
    """What is read of a database."""

    database: Database
    ranges: Sequence[Range]
    ids: Mapping[str, int | None]
    """Those of the topics: where another one has the name by then, the task fails."""


Task = list[tuple[int, str, list[OffsetRange], "int | None"]]
"""Ranges by database and topic, with the topic's id."""


def tasks_of(plans: Sequence[Plan], options: Options) -> list[InputPartition]:
    """Tasks that have much the same to do: small ranges go together, a large one is divided."""
    found = [
        ((shard, topic), part) for shard, plan in enumerate(plans) for topic, part in plan.ranges
    ]
    average = None
    if sampled := sample(found):
        (shard, topic), part = sampled
        average = plans[shard].database.average(topic, part)
    size = task_size(sum(len(part) for _, part in found), options.min_partitions, average)
    tasks = []
    for parts in pack(found, size):
        task: Task = []
        for (shard, topic), places in groupby(parts, key=lambda place: place[0]):
            ranges = [part for _, part in places]
            task.append((shard, topic, ranges, plans[shard].ids[topic]))
        tasks.append(InputPartition(task))
    return tasks


def read_task(shards: Sequence[Options], task: Task) -> Iterator[pyarrow.RecordBatch]:
    """All messages of a task."""
    for shard, topic, ranges, topic_id in task:
        yield from read_ranges(shards[shard], topic, ranges, topic_id)


def check_distinct(created: Sequence[str | None]) -> None:
    """Refuse one database under two URLs: its messages would be read twice."""
    for shard, moment in enumerate(created):
        if moment is not None and moment in created[:shard]:
            raise ValueError(
                f"'url' has one database twice, as the shards {created.index(moment)} and {shard}: "
                "its messages would be read twice"
            )


class _SpreadReader(DataSourceStreamReader):
    """What a stream from several databases does the same in all versions of Spark."""

    def __init__(self, readers: Sequence[Any], shards: Sequence[Options]) -> None:
        self._readers = readers
        self._shards = shards
        self._created: list[str | None] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._form([reader.initialOffset() for reader in self._readers])

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        # of a batch that was planned before a database was added, nothing is in that
        places = zip(self._readers, self._parts(start), self._parts(end), strict=True)
        plans = [reader.planned(first, after) for reader, first, after in places]
        return tasks_of(plans, self._shards[0])

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return read_task(self._shards, partition.value)

    def stop(self) -> None:
        for reader in self._readers:
            reader.stop()

    def _form(self, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {SHARDS: list(parts), CREATED: self._identities()}

    def _parts(self, form: dict[str, Any]) -> list[dict[str, Any]]:
        """The position in each database, of a form that was perhaps made when there were fewer."""
        parts = form.get(SHARDS, [form])
        if len(parts) > len(self._readers):
            raise taken_away(len(parts), len(self._readers))
        self._check_order(form.get(CREATED, []))
        return [*parts, *[NOTHING] * (len(self._readers) - len(parts))]

    def _check_order(self, noted: Sequence[str | None]) -> None:
        now = self._identities()
        for shard, moment in enumerate(noted):
            if moment is not None and moment in now and now.index(moment) != shard:
                raise ValueError(
                    f"'url' has another order than the checkpoint: shard {shard} of then is "
                    f"shard {now.index(moment)} now. Add databases at the end"
                )

    def _identities(self) -> list[str | None]:
        if self._created is None:
            self._created = [reader.created() for reader in self._readers]
            check_distinct(self._created)
        return self._created


class _PlainSpreadReader(_SpreadReader):
    """For Spark before 4.2, which does not say where a batch starts: it goes to the end."""

    _seen: dict[str, Any] | None = None

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        parts = [reader.latestOffset() for reader in self._readers]
        if self._seen is not None and self._parts(self._seen) == parts:
            return self._seen
        return self._form(parts)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._seen = end
        return super().partitions(start, end)


if HAS_LIMITS:

    class _LimitedSpreadReader(_SpreadReader, SupportsTriggerAvailableNow):
        """For Spark from 4.2 on: batches of a limited size, and an end for AvailableNow."""

        _turn = 0

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            return default_limit(self._shards[0])

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            for reader in self._readers:
                reader.prepareForTriggerAvailableNow()

        def latestOffset(  # noqa: N802
            self, start: dict[str, Any], limit: ReadLimit
        ) -> dict[str, Any]:
            parts = self._parts(start)
            found = [
                reader.next(part, None) for reader, part in zip(self._readers, parts, strict=True)
            ]
            waiting = {shard: count for shard, (_, count) in enumerate(found)}
            total, most = sum(waiting.values()), max_rows(limit)
            if self._readers[0].waits_for_more(total):
                return start
            ends = [end for end, _ in found]
            if most is not None and total > most:
                self._turn += 1
                shares = prorate(waiting, most, turn=self._turn)
                ends = [
                    reader.next(part, shares[shard])[0]
                    for shard, (reader, part) in enumerate(zip(self._readers, parts, strict=True))
                ]
            return start if ends == parts else self._form(ends)

        def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
            return self._form([reader.reportLatestOffset() for reader in self._readers])


def spread_reader(readers: Sequence[Any], shards: Sequence[Options]) -> DataSourceStreamReader:
    """The reader for the Spark that is there."""
    if HAS_LIMITS:
        return _LimitedSpreadReader(readers, shards)
    return _PlainSpreadReader(readers, shards)


def default_limit(options: Options) -> ReadLimit:
    """What Spark is told of maxOffsetsPerTrigger."""
    limit = options.max_offsets
    return ReadAllAvailable() if limit is None else ReadMaxRows(limit)


def max_rows(limit: ReadLimit) -> int | None:
    """How many messages a batch has at most."""
    most: int | None = limit.max_rows if isinstance(limit, ReadMaxRows) else None
    return most
