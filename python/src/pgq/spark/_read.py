"""Topics, archives and dead letters become DataFrames, read through Spark's JDBC source."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pgq.errors import OffsetOutOfRange, UnknownQueue
from pgq.messages import OffsetRange
from pgq.spark._bounds import Bound, Moment
from pgq.spark._connection import Arguments, Location, call, quoted
from pgq.spark._fetch import CALL_ROWS
from pgq.spark._positions import Checks, Kept, Log, pack, plan, sample, task_size

__all__ = ["frame_of", "frames_of", "ranges_of", "view", "with_payload"]

FETCH_SIZE = 10_000

FETCH_ROWS = 16
"""How many rows of up to 1000 messages a task takes from the database at a time."""


def ranges_of(
    spark: SparkSession,
    location: Location,
    topic: str,
    start: Bound,
    end: Bound,
    *,
    fail_on_data_loss: bool,
    shard: int | None = None,
) -> tuple[list[OffsetRange], int]:
    """What there is to read between two bounds, a range for each partition that has something.

    And the id of the topic, which tells it from a later one of the same name.
    """

    def log_at(published_at: Moment | None) -> Log:
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

    # Asked first: if another topic takes the name meanwhile, the tasks find that out.
    nothing: Arguments = {
        "topic": ("text", topic),
        "partition": ("integer", 0),
        "first_offset": ("bigint", 1),
        "last_offset": ("bigint", 0),
    }
    (topic_id,) = call(spark, location, "check_range", nothing)
    return plan(start, end, log_at, Checks(topic, fail_on_data_loss, shard)), topic_id


def frame_of(
    spark: SparkSession,
    location: Location,
    topic: str,
    ranges: Sequence[OffsetRange],
    *,
    topic_id: int | None = None,
    min_partitions: int | None = None,
    fail_on_data_loss: bool = True,
) -> DataFrame:
    """A DataFrame of these messages, read by few tasks.

    ``topic_id`` is that of the topic when the ranges were planned: where another one has its name
    when they are read, the tasks fail.
    """
    [frame] = frames_of(
        spark,
        topic,
        [(location, ranges, topic_id)],
        min_partitions=min_partitions,
        fail_on_data_loss=fail_on_data_loss,
    )
    return frame


def frames_of(
    spark: SparkSession,
    topic: str,
    planned: Sequence[tuple[Location, Sequence[OffsetRange], int | None]],
    *,
    min_partitions: int | None,
    fail_on_data_loss: bool,
) -> list[DataFrame]:
    """The same of several databases, a DataFrame for each, with tasks of one size."""
    if min_partitions is not None and min_partitions < 1:
        raise ValueError("min_partitions must be at least 1")
    found = [(location, part) for location, ranges, _ in planned for part in ranges]
    average = None
    if sampled := sample(found):
        average = _average(spark, topic, *sampled)
    size = task_size(sum(len(part) for _, part in found), min_partitions, average)
    frames = []
    for location, ranges, topic_id in planned:
        tasks = pack([(None, part) for part in ranges], size)
        rows = spark.read.jdbc(
            location.url,
            _query(topic, tasks, topic_id, fail_on_data_loss),
            predicates=[f"task = {number}" for number in range(len(tasks))] or ["false"],
            properties={**location.options(), "fetchsize": str(FETCH_ROWS)},
        )
        frames.append(_unpacked(rows))
    return frames


def _average(
    spark: SparkSession, topic: str, location: Location, part: OffsetRange
) -> float | None:
    """How many bytes a message of a range has; None where they are gone."""
    arguments: Arguments = {
        "topic": ("text", topic),
        "partition": ("integer", part.partition),
        "first_offset": ("bigint", part.first_offset),
        "last_offset": ("bigint", part.last_offset),
    }
    try:
        rows = call(spark, location, "fetch_packed", arguments)
    except Exception as error:
        # with Spark Connect the error is only a text
        if not isinstance(error, OffsetOutOfRange) and OffsetOutOfRange.sqlstate not in str(error):
            raise
        return None
    # in JSON as \x and two digits for each byte
    return statistics.mean(len(content) / 2 - 1 for row in rows for content in row["contents"])


def _query(
    topic: str,
    tasks: Sequence[Sequence[tuple[None, OffsetRange]]],
    topic_id: int | None,
    fail_on_data_loss: bool,
) -> str:
    """The messages in rows of many, with the number of the task that reads them."""
    places = ", ".join(
        f"({number}, {part.partition}, {part.first_offset}::bigint, {part.last_offset}::bigint)"
        for number, task in enumerate(tasks)
        for _, part in task
    )
    first, kept = "t.first_offset", ""
    if not fail_on_data_loss:
        first = "greatest(t.first_offset, o.first_offset)"
        kept = f"inner join pgq.list_offsets({quoted(topic)}) as o on o.partition = t.partition"
    return f"""(
        select t.task, {quoted(topic)} as topic, t.partition, p.*
        from (values {places or "(0, 0, 1::bigint, 0::bigint)"})
            as t (task, partition, first_offset, last_offset)
        {kept}
        cross join lateral generate_series({first}, t.last_offset, {CALL_ROWS}) as c (first_offset)
        cross join lateral pgq.fetch_packed(
            topic => {quoted(topic)},
            partition => t.partition,
            first_offset => c.first_offset,
            last_offset => least(c.first_offset + {CALL_ROWS - 1}, t.last_offset),
            first_partition_id => {"null" if topic_id is None else topic_id}
        ) as p
    ) as messages"""


def _unpacked(rows: DataFrame) -> DataFrame:
    """A row for each message, with the columns of Spark's Kafka source.

    The messages are cut out before they become rows: an element of an array that stands beside
    them would be copied into each row with the whole array wherever Spark does not compile it.
    """
    return rows.selectExpr(
        "topic",
        "partition",
        "first_offset",
        """posexplode(
            arrays_zip(
                contents,
                published_micros,
                coalesce(keys, array_repeat(cast(null as binary), messages)),
                coalesce(headers, array_repeat(cast(null as string), messages))
            )
        ) as (place, message)""",
    ).selectExpr(
        "message.`2` as key",
        "message.contents as value",
        "topic",
        "partition",
        "first_offset + place as offset",
        "timestamp_micros(message.published_micros) as timestamp",
        # by a variant, since Spark compiles no query that has from_json or transform in it
        """cast(
            cast(parse_json(message.`3`) as array<struct<key: string, value: string>>)
            as array<struct<key: string, value: binary>>
        ) as headers""",
    )


def with_payload(frame: DataFrame, schema: str | StructType) -> DataFrame:
    """With the JSON of ``value`` as a column ``payload``."""
    text = F.col("value").cast("string")
    return frame.withColumn(
        "payload", F.try_parse_json(text) if schema == "variant" else F.from_json(text, schema)
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
