"""Topics, archives and dead letters become DataFrames, read through Spark's JDBC source."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pgq.errors import OffsetOutOfRange, UnknownQueue
from pgq.spark._connection import Arguments, Location, call, quoted

__all__ = ["OffsetRange", "Offsets", "frame_of", "kafka_columns", "plan", "view"]

Offsets = str | Mapping[int, int]
"""``earliest``, ``latest``, the JSON of Spark's Kafka source, or an offset for each partition."""

RANGE_SIZE = 250_000
"""How many messages a task reads at most unless the caller wants more tasks."""

FETCH_SIZE = 10_000

_EARLIEST, _LATEST = -2, -1


@dataclass(frozen=True)
class OffsetRange:
    """Consecutive messages of one partition, both ends included."""

    partition: int
    first_offset: int
    last_offset: int

    def __len__(self) -> int:
        return self.last_offset - self.first_offset + 1

    def split(self, size: int) -> list[OffsetRange]:
        """Ranges of nearly one length, of at most ``size`` messages."""
        parts = -(-len(self) // size)
        bounds = [self.first_offset + len(self) * part // parts for part in range(parts + 1)]
        return [OffsetRange(self.partition, first, after - 1) for first, after in pairwise(bounds)]


def plan(
    spark: SparkSession,
    location: Location,
    topic: str,
    *,
    starting_offsets: Offsets,
    ending_offsets: Offsets,
    starting_timestamp: datetime | None,
    ending_timestamp: datetime | None,
) -> list[OffsetRange]:
    """What there is to read, a range for each partition that has something.

    Ends are excluded, as with Kafka, where they are given by the caller.
    """

    @cache
    def listed(timestamp: datetime | None) -> list[Any]:
        arguments: Arguments = {
            "topic": ("text", topic),
            "published_at": ("timestamptz", timestamp),
        }
        return call(spark, location, "list_offsets", arguments)

    starts = _bounds(topic, listed, starting_offsets, starting_timestamp)
    ends = _bounds(topic, listed, ending_offsets, ending_timestamp)
    for row in listed(ending_timestamp):
        if ends[row["partition"]] > row["last_offset"] + 1:
            raise OffsetOutOfRange(
                f"the end {ends[row['partition']]} of partition {row['partition']} of topic "
                f"{topic!r} is out of range: the next offset is {row['last_offset'] + 1}"
            )
    return [
        OffsetRange(partition, start, ends[partition] - 1)
        for partition, start in starts.items()
        # a partition that was added in between is for the next read
        if start < ends.get(partition, 0)
    ]


def _bounds(
    topic: str,
    listed: Callable[[datetime | None], list[Any]],
    offsets: Offsets,
    timestamp: datetime | None,
) -> dict[int, int]:
    """For each partition the offset to start from, or to stop before."""
    if timestamp is not None and timestamp.tzinfo is None:
        raise ValueError("a timestamp needs a time zone: it would mean another time elsewhere")
    rows = listed(timestamp)
    earliest = {row["partition"]: row["first_offset"] for row in rows}
    latest = {row["partition"]: row["last_offset"] + 1 for row in rows}
    if timestamp is not None:
        return {row["partition"]: row["log_offset"] for row in rows}
    if offsets == "earliest":
        return earliest
    if offsets == "latest":
        return latest
    given = _given(topic, offsets)
    if given.keys() != earliest.keys():
        raise ValueError(
            f"topic {topic!r} has the partitions {sorted(earliest)}; "
            f"offsets were given for {sorted(given)}"
        )
    named = {_EARLIEST: earliest, _LATEST: latest}
    for partition, offset in given.items():
        if offset not in named and offset < 1:
            raise ValueError(f"offset {offset} of partition {partition}: offsets begin at 1")
    return {
        partition: named[offset][partition] if offset in named else offset
        for partition, offset in sorted(given.items())
    }


def _given(topic: str, offsets: Offsets) -> dict[int, int]:
    if isinstance(offsets, Mapping):
        return dict(offsets)
    try:
        return {int(name): int(value) for name, value in json.loads(offsets)[topic].items()}
    except (ValueError, KeyError, AttributeError, TypeError):
        raise ValueError(
            "offsets are 'earliest', 'latest', an offset for each partition, or JSON of the form "
            f'{{"{topic}": {{"0": 1}}}}'
        ) from None


def frame_of(
    spark: SparkSession,
    location: Location,
    topic: str,
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    fail_on_data_loss: bool = True,
) -> DataFrame:
    """A DataFrame of these messages, read by a task for each part of a range."""
    ranges = list(ranges)
    total = sum(len(part) for part in ranges)
    size = RANGE_SIZE
    if min_partitions is not None:
        if min_partitions < 1:
            raise ValueError("min_partitions must be at least 1")
        if min_partitions > len(ranges):
            size = max(1, min(size, total // min_partitions))
    predicates = [
        _predicate(topic, part, fail_on_data_loss) for whole in ranges for part in whole.split(size)
    ]
    rows = spark.read.jdbc(
        location.url,
        """(
            select
                m.key,
                coalesce(m.body, convert_to(m.payload::text, 'UTF8')) as value,
                m.partition,
                m.log_offset as "offset",
                m.published_at as "timestamp",
                case
                    when m.headers is not null then (
                        select coalesce(json_object_agg(h.key, h.value), '{}')
                        from jsonb_each_text(m.headers) as h
                    )
                end::text as headers,
                m.partition_id
            from pgq.messages as m
        ) as messages""",
        predicates=predicates or ["false"],
        properties={**location.options(), "fetchsize": str(FETCH_SIZE)},
    )
    return kafka_columns(rows, topic)


def kafka_columns(rows: DataFrame, topic: str) -> DataFrame:
    """The columns of Spark's Kafka source from those of a query."""
    return rows.select(
        F.col("key").cast("binary").alias("key"),
        "value",
        F.lit(topic).alias("topic"),
        "partition",
        "offset",
        "timestamp",
        # most messages have none, and parsing a null costs as much as parsing an object
        F.expr(
            "case when headers is not null then"
            " transform(map_entries(from_json(headers, 'map<string,string>')),"
            " e -> struct(e.key as key, cast(e.value as binary) as value)) end"
        ).alias("headers"),
    )


def _predicate(topic: str, part: OffsetRange, fail_on_data_loss: bool) -> str:
    # An empty range is there whatever retention has removed.
    checked = part if fail_on_data_loss else OffsetRange(part.partition, 1, 0)
    return (
        # as a subquery it is called once, else for every row that a scan compares with it
        f"partition_id = (select pgq.check_range({quoted(topic)}, {checked.partition},"
        f" {checked.first_offset}, {checked.last_offset}))"
        f' and "offset" between {part.first_offset} and {part.last_offset}'
    )


def view(
    spark: SparkSession, location: Location, name: str, queue: str, num_partitions: int
) -> DataFrame:
    """The rows of a queue in one of the views on jobs."""
    if num_partitions < 1:
        raise ValueError("num_partitions must be at least 1")
    queues = {row["queue"] for row in call(spark, location, "list_queues", {})}
    if queue not in queues:
        raise UnknownQueue(f'unknown queue "{queue}"')
    return spark.read.jdbc(
        location.url,
        f"(select * from pgq.{name} where queue = {quoted(queue)}) as jobs",
        predicates=[f"mod(job_id, {num_partitions}) = {part}" for part in range(num_partitions)],
        properties={**location.options(), "fetchsize": str(FETCH_SIZE)},
    )
