"""Topics, archives and dead letters become DataFrames, read through Spark's JDBC source."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pgq.errors import UnknownQueue
from pgq.messages import OffsetRange
from pgq.spark._bounds import Bound
from pgq.spark._connection import Arguments, Location, call, quoted
from pgq.spark._positions import Checks, Kept, Log, plan, split

__all__ = ["frame_of", "kafka_columns", "ranges_of", "view"]

FETCH_SIZE = 10_000


def ranges_of(
    spark: SparkSession,
    location: Location,
    topic: str,
    start: Bound,
    end: Bound,
    *,
    fail_on_data_loss: bool,
) -> list[OffsetRange]:
    """What there is to read between two bounds, a range for each partition that has something."""

    def log_at(published_at: datetime | None) -> Log:
        arguments: Arguments = {
            "topic": ("text", topic),
            "published_at": ("timestamptz", published_at),
        }
        rows = call(spark, location, "list_offsets", arguments)
        return Log(
            topic_id,
            {
                row["partition"]: Kept(
                    row["first_offset"], row["last_offset"] + 1, row["log_offset"]
                )
                for row in rows
            },
        )

    # offsets from a stream's checkpoint come with it
    topic_id = None
    if start.topic_id is not None or end.topic_id is not None:
        nothing: Arguments = {
            "topic": ("text", topic),
            "partition": ("integer", 0),
            "first_offset": ("bigint", 1),
            "last_offset": ("bigint", 0),
        }
        (topic_id,) = call(spark, location, "check_range", nothing)
    return plan(start, end, log_at, Checks(topic, fail_on_data_loss))


def frame_of(
    spark: SparkSession,
    location: Location,
    topic: str,
    ranges: Sequence[OffsetRange],
    *,
    min_partitions: int | None = None,
    fail_on_data_loss: bool = True,
) -> DataFrame:
    """A DataFrame of these messages, read by a task for each part of a range."""
    if min_partitions is not None and min_partitions < 1:
        raise ValueError("min_partitions must be at least 1")
    predicates = [
        _predicate(topic, part, fail_on_data_loss) for part in split(ranges, min_partitions)
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
    spark: SparkSession, location: Location, name: str, queue: str, num_partitions: int | None
) -> DataFrame:
    """The rows of a queue in one of the views on jobs."""
    parts = 1 if num_partitions is None else num_partitions
    if parts < 1:
        raise ValueError("num_partitions must be at least 1")
    queues = {row["queue"] for row in call(spark, location, "list_queues", {})}
    if queue not in queues:
        raise UnknownQueue(f'unknown queue "{queue}"')
    return spark.read.jdbc(
        location.url,
        f"(select * from pgq.{name} where queue = {quoted(queue)}) as jobs",
        predicates=[f"mod(job_id, {parts}) = {part}" for part in range(parts)],
        properties={**location.options(), "fetchsize": str(FETCH_SIZE)},
    )
