"""The Spark data source ``pgq``: a topic as a DataFrame or a stream, with Kafka's option names.

Python workers have no JVM, so this reads by psycopg, not by JDBC; the database sees calls of
list_offsets, check_range and fetch_range, and nothing is written to it. Where a stream stands is
known to its checkpoint alone. It is written as Kafka's source writes it, the next offset of each
partition, with the id of the topic's first partition beside it, which tells a topic from a later
one of the same name::

    {"readings": {"0": 15, "1": 9}, "@id": 3}

Spark keeps where each batch ends, but not where the first one began. So the end of that one says it
too, as ``"@from": {"0": 12, "1": 9}``; else a first batch that is repeated after a crash would
begin at whatever is the latest offset by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from pgq.messages import OffsetRange
from pgq.spark._bounds import Bound, refused
from pgq.spark._fetch import SCHEMA, Database, read_range
from pgq.spark._options import Options, parse_options
from pgq.spark._positions import (
    Checks,
    Log,
    Position,
    advance,
    plan,
    ranges_between,
    resolve,
    split,
)

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

__all__ = ["PgqDataSource"]


class _BatchReader(DataSourceReader):
    """Reads what lies between two positions when the query is planned."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        checks = Checks(options.topic, options.fail_on_data_loss)
        database = Database(options)
        try:
            ranges = plan(
                options.start or Bound(earliest=True), options.end or Bound(), database.log, checks
            )
        finally:
            database.close()
        return _tasks(ranges, options)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        # Spark makes one task, without a range, where there is nothing to read.
        if partition.value is None:
            return iter(())
        return read_range(self._options, partition.value)


def _tasks(ranges: Sequence[OffsetRange], options: Options) -> list[InputPartition]:
    return [InputPartition(part) for part in split(ranges, options.min_partitions)]


class _StreamReader(DataSourceStreamReader):
    """What a stream does the same in all versions of Spark."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._checks = Checks(options.topic, options.fail_on_data_loss)
        self._database = Database(options)
        self._initial: Position | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._begin().as_json(self._options.topic)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, after = self._position(start), self._position(end)
        ranges = ranges_between(first, after, self._database.log(), self._checks)
        return _tasks(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return read_range(self._options, partition.value)

    def stop(self) -> None:
        self._database.close()

    def _position(self, offset: Mapping[str, Any]) -> Position:
        return Position.from_json(self._options.topic, offset)

    def _begin(self) -> Position:
        """Where the first batch begins; Spark asks more than once, and gets one answer."""
        if self._initial is None:
            start = self._options.start or Bound()
            found = resolve(start, self._database.log(start.time), self._checks)
            self._initial = Position(found.topic_id, found.offsets, found.offsets)
        return self._initial

    def _latest(self) -> Position:
        return resolve(Bound(), self._database.log(), self._checks)


class _PlainStreamReader(_StreamReader):
    """For Spark before 4.2, which does not say where a batch starts: it goes to the end."""

    _seen: Position | None = None

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        began = None if self._seen else self._begin().offsets
        end = self._latest()
        if self._seen and (self._seen.topic_id, self._seen.offsets) == (end.topic_id, end.offsets):
            # in the very form that Spark knows already, so that it makes no batch
            end = self._seen
        elif began is not None:
            end = Position(end.topic_id, end.offsets, began)
        return end.as_json(self._options.topic)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._seen = self._position(end)
        return super().partitions(start, end)


if HAS_LIMITS:

    class _LimitedStreamReader(_StreamReader, SupportsTriggerAvailableNow):
        """For Spark from 4.2 on: batches of a limited size, and an end for AvailableNow."""

        _target: Log | None = None

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            limit = self._options.max_offsets
            return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            self._target = self._database.log()

        def latestOffset(  # noqa: N802
            self, start: dict[str, Any], limit: ReadLimit
        ) -> dict[str, Any]:
            end = advance(
                self._position(start),
                self._database.log(),
                self._checks,
                limit=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
                target=self._target,
            )
            return end.as_json(self._options.topic)

        def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
            return self._latest().as_json(self._options.topic)


class PgqDataSource(DataSource):
    """A topic for ``spark.read`` and ``spark.readStream``, with the options of Kafka's source.

    Register it once, then read::

        spark.dataSource.register(PgqDataSource)
        messages = (
            spark.readStream.format("pgq")
            .option("url", "jdbc:postgresql://host:5432/database")
            .option("user", user)
            .option("password", password)
            .option("topic", "readings")
            .option("startingOffsets", "earliest")
            .load()
        )

    Columns are ``key``, ``value`` (the body, or the payload as JSON text), ``topic``,
    ``partition``, ``offset``, ``timestamp`` and ``headers``. Options:

    ``url``, ``user``, ``password``
        The database: a JDBC URL as for :class:`~pgq.spark.Pgq`, or ``postgresql://…``.
    ``topic`` (or ``subscribe``)
        One topic.
    ``startingOffsets``
        ``earliest`` (what a batch does by default), ``latest`` (what a stream does), or JSON with
        the next offset of each partition, ``{"readings": {"0": 15, "1": -2}}``, where -2 is the
        earliest and -1 the latest. A stream that has a checkpoint goes on from there instead.
    ``startingTimestamp``
        Milliseconds since 1970: begin with the first message published then or later, at the end
        where there is none. Takes the place of startingOffsets.
    ``endingOffsets``, ``endingTimestamp``
        Where a batch ends, which is excluded; by default at the latest.
    ``maxOffsetsPerTrigger``
        How many messages a micro-batch of a stream has at most. Needs Spark 4.2.
    ``minPartitions``
        How many tasks read at least; each reads 250,000 messages at most.
    ``failOnDataLoss``
        By default messages that retention removed before they were read are an error, and so is a
        topic that was dropped and created again, or has less than was read already. With false,
        reading goes on with what is there, and no message is read twice.

    A partition that is added to the topic is read from its beginning. The progress of a stream
    names the end of the topic as latestOffset (from Spark 4.2 on).
    """

    @classmethod
    def name(cls) -> str:
        return "pgq"

    def schema(self) -> StructType:
        # Here wrong options are an error of load(), not of a job later.
        parse_options(self.options)
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._parsed(schema)
        if options.max_offsets is not None:
            raise refused("maxOffsetsPerTrigger", "is for streams: a batch has endingOffsets")
        if options.start is not None:
            options.start.of_batch("startingOffsets")
        return _BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = self._parsed(schema)
        if options.end is not None:
            raise ValueError(
                "options 'endingOffsets' and 'endingTimestamp' are for batches: a stream has no "
                "end, but Trigger.AvailableNow stops at what is there"
            )
        if HAS_LIMITS:
            return _LimitedStreamReader(options)
        if options.max_offsets is not None:
            raise refused(
                "maxOffsetsPerTrigger",
                f"needs Spark 4.2 or newer, this is {pyspark.__version__}: before that Spark does "
                "not tell a source where a batch starts. Leave it out, or use Pgq.consume",
            )
        return _PlainStreamReader(options)

    def _parsed(self, schema: StructType) -> Options:
        if schema != SCHEMA:
            raise ValueError("the data source pgq has a schema of its own: leave out schema(…)")
        return parse_options(self.options)
