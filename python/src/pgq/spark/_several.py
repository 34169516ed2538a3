"""DataFrames of a topic or a queue that is spread over several databases.

Each database is an ordinary one with pgq, and knows nothing of the others. What is one here is the
DataFrame: read as a union, and written row by row to the database of its key.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pgq.spark._bounds import Bound, Where
from pgq.spark._commit import abort_tasks, commit_tasks
from pgq.spark._connection import Location, call, is_classic
from pgq.spark._read import frames_of, ranges_of
from pgq.spark._redaction import hide_credentials
from pgq.spark._refusals import RowRefused, checker
from pgq.spark._send import State, send
from pgq.spark._spread import check_distinct
from pgq.spark._staged import Staged
from pgq.spark._write import Target, WriteOptions, WriteResult, interval, normalised
from pgq.spark._write_options import WriterOptions

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Bounds", "read_all", "union", "write_all"]

Bounds = Where | Sequence[Where]
"""A bound for all databases, or one for each."""

Batches = Iterator["pyarrow.RecordBatch"]


# ---------------------------------------------------------------------------- reading


def read_all(
    spark: SparkSession,
    locations: Sequence[Location],
    topic: str,
    start: Bounds,
    end: Bounds,
    *,
    min_partitions: int | None,
    fail_on_data_loss: bool,
) -> DataFrame:
    """The messages of a topic in all databases, with the number of each as the column shard."""
    starts, ends = _each("start", start, locations), _each("end", end, locations)
    created = []
    for location in locations:
        topics = call(spark, location, "list_topics", {})
        created.append(next((row["created_at"] for row in topics if row["topic"] == topic), None))
    check_distinct(created)
    found = [
        ranges_of(
            spark,
            location,
            topic,
            Bound.start("start", topic, starts[shard]).of_batch("start"),
            Bound.end("end", topic, ends[shard]),
            fail_on_data_loss=fail_on_data_loss,
            shard=shard,
        )
        for shard, location in enumerate(locations)
    ]
    planned = [
        (location, ranges, topic_id)
        for location, (ranges, topic_id) in zip(locations, found, strict=True)
    ]
    return union(
        frames_of(
            spark,
            topic,
            planned,
            min_partitions=min_partitions,
            fail_on_data_loss=fail_on_data_loss,
        )
    )


def _each(name: str, bounds: Bounds, locations: Sequence[Location]) -> Sequence[Where]:
    if isinstance(bounds, (list, tuple)):
        if len(bounds) != len(locations):
            raise ValueError(
                f"{name!r} has {len(bounds)} bounds for {len(locations)} databases: give one "
                "for all, or a list with one for each"
            )
        return bounds
    if isinstance(bounds, (str, datetime)) and not str(bounds).lstrip().startswith("{"):
        return [bounds] * len(locations)
    raise ValueError(
        f"{name!r} has offsets, which are other ones in each database: "
        "give a list with a bound for each"
    )


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows, with the number of the database as the column shard."""
    numbered = [frame.withColumn("shard", F.lit(shard)) for shard, frame in enumerate(frames)]
    return reduce(DataFrame.unionByName, numbered)


# ---------------------------------------------------------------------------- writing


def write_all(
    frame: DataFrame, locations: Sequence[Location], target: Target, options: WriteOptions
) -> WriteResult:
    """Write each row to the database of its key; all of them, or with an error none or a part."""
    if not options.atomic:
        raise ValueError("a write to several databases is atomic: leave out atomic=False")
    if (target.producer is None) != (target.seq is None):
        raise ValueError("producer and seq name a write together: give both, or neither")
    rows, packed_contents = normalised(frame, queue=target.queue is not None, others=("shard",))
    spark = frame.sparkSession
    hide_credentials(spark)
    writer = WriterOptions(
        conninfos=tuple(location.conninfo() for location in locations),
        is_spread=True,
        topic=target.topic,
        queue=target.queue,
        producer=target.producer,
        seq=target.seq,
        delay=interval(options.delay),
        priority=options.priority,
        timeout=interval(options.timeout),
        chunk_rows=options.chunk_rows,
        chunk_bytes=options.chunk_bytes,
        check_repeated=options.check_repeated,
        retry=locations[0].retry,
    )
    told = _told(rows.mapInArrow(_staging(writer, packed_contents), "told binary"))
    staged = [answer for answer in told if isinstance(answer, Staged)]
    refused = sorted(answer for answer in told if isinstance(answer, str))
    count = sum(part.rows for task in staged for part in task.parts)
    try:
        if refused:
            raise RowRefused(refused[0])
        if options.expected_messages not in (None, count):
            raise ValueError(
                f"expected_messages is {options.expected_messages}, but there are {count}"
            )
        outcomes: list[State] = _on_driver(spark, _committing(writer, staged))
    except BaseException:
        # where it is committed nothing is removed; whatever is not removed now, cleanup removes
        with suppress(Exception):
            _on_driver(spark, _aborting(writer, staged))
        raise
    return _result(outcomes, staged)


def _result(outcomes: Sequence[State], staged: Sequence[Staged]) -> WriteResult:
    counts = [0] * len(outcomes)
    for task in staged:
        for part in task.parts:
            counts[part.shard] += part.rows
    return WriteResult(
        write_id=None,
        messages=sum(counts),
        committed_at=max(state.committed_at for state in outcomes if state.committed_at),
        duplicate=all(state.duplicate for state in outcomes),
        shards=tuple(counts),
    )


class _Rows:
    """Rows as :func:`~pgq.spark._write.normalised` leaves them, for the one target."""

    def __init__(self, target: str, packed_contents: str) -> None:
        self._target = target
        self.json_column = "payload" if packed_contents == "packed_payloads" else None
        self._check = checker(self.json_column)

    def checked(self, batch: pyarrow.RecordBatch) -> tuple[pyarrow.RecordBatch, dict[int, str]]:
        import pyarrow as pa

        content = pa.field("content", pa.binary())
        rows = batch.set_column(0, content, batch.column(0).cast(pa.binary()))
        return rows, self._check(rows)

    def by_topic(self, rows: pyarrow.RecordBatch) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
        yield self._target, rows


def _staging(options: WriterOptions, packed_contents: str) -> Callable[[Batches], Batches]:
    """The function for mapInArrow: rows in, and what the task has staged in one row out."""
    target = options.topic or options.queue
    assert target is not None
    attempt = options.attempt(time.time_ns())

    def stage(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task = context.partitionId()
        try:
            parts = send(batches, _Rows(target, packed_contents), options, task, attempt)
        except RowRefused as refused:
            for _ in batches:
                pass
            yield _answer(str(refused))
        else:
            yield _answer(Staged(task, tuple(parts), None))

    return stage


def _answer(what: object) -> pyarrow.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"told": pa.array([pickle.dumps(what)], pa.binary())})


def _told(frame: DataFrame) -> list[Any]:
    return [pickle.loads(row["told"]) for row in frame.collect()]


# ---------------------------------------------------------------------------- the driver

Act = Callable[[], object]


def _committing(options: WriterOptions, staged: Sequence[Staged]) -> Act:
    return lambda: commit_tasks(options, options.producer, options.seq, staged)


def _aborting(options: WriterOptions, staged: Sequence[Staged]) -> Act:
    return lambda: abort_tasks(options, staged)


def _on_driver(spark: SparkSession, act: Act) -> Any:
    """Do something by the driver; a client of Spark Connect leaves it to a task.

    The client need not reach the databases. A task may be run again, as the act may.
    """
    if is_classic(spark):
        return act()

    def run(batches: Batches) -> Batches:
        for _ in batches:
            yield _answer(act())

    (answer,) = _told(spark.range(1).coalesce(1).mapInArrow(run, "told binary"))
    return answer
