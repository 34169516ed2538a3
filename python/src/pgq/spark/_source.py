"""The Spark data source ``pgq``: a topic as a DataFrame or a stream, with Kafka's option names.

Python workers have no JVM, so this reads by psycopg, not by JDBC; the database sees calls of
list_offsets, check_range and fetch_packed, and nothing is written to it but the position of a
consumer group, for others. Where a stream stands is known to its checkpoint alone. It is written as
Kafka's source writes it, the next offset of each partition, with the id of the topic's first
partition beside it, which tells a topic from a later one of the same name::

    {"readings": {"0": 15, "1": 9}, "@id": 3}

Spark keeps where each batch ends, but not where the first one began. So the end of that one says it
too, as ``"@from": {"0": 12, "1": 9}``; else a first batch that is repeated after a crash would
begin at whatever is the latest offset by then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from pgq.spark._batch import BatchReader, planned_ahead
from pgq.spark._bounds import Bound, refused
from pgq.spark._fetch import SCHEMA, SPREAD_SCHEMA, Database
from pgq.spark._group import FollowingGroup
from pgq.spark._options import Options, options_of_shards
from pgq.spark._positions import Checks, Log, Position, resolve
from pgq.spark._spread import (
    HAS_LIMITS,
    Plan,
    default_limit,
    max_rows,
    read_task,
    spread_reader,
    tasks_of,
)
from pgq.spark._topics import Bounds, Positions, advance
from pgq.spark._topics import ranges as ranges_of_topics
from pgq.spark._write_options import parse_writer_options
from pgq.spark._writer import BatchWriter, stream_writer

if TYPE_CHECKING:
    import pyarrow

if HAS_LIMITS:
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

KEEPS_PLANS = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 1)
"""Whether a DataFrame that is used twice is planned once. Spark 4.0 plans it for each action."""

__all__ = ["PgqDataSource"]


class _AllChecks(dict[str, Checks]):
    """What to say for each topic."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def __missing__(self, topic: str) -> Checks:
        return Checks(topic, self._options.fail_on_data_loss, self._options.shard)


class _StreamReader(DataSourceStreamReader):
    """What a stream does the same in all versions of Spark."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._topics = options.topics
        self._checks = _AllChecks(options)
        self._database = Database(options)
        self._group = FollowingGroup(self._database)
        self._initial: Positions | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._topics.as_json(self._begin())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return tasks_of([self.planned(start, end)], self._options)

    def planned(self, start: dict[str, Any], end: dict[str, Any]) -> Plan:
        """What lies between two positions."""
        first, after = self._topics.from_json(start), self._topics.from_json(end)
        found = ranges_of_topics(first, after, self._database.logs(), self._checks)
        ids = {topic: position.topic_id for topic, position in after.items()}
        return Plan(self._database, found, ids)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return read_task([self._options], partition.value)

    def created(self) -> str | None:
        """What tells the database from others."""
        return self._database.created()

    def stop(self) -> None:
        self._database.close()

    def _begin(self) -> Positions:
        """Where the first batch begins; Spark asks more than once, and gets one answer."""
        if self._initial is None:
            start = self._options.start or Bounds(Bound())
            positions = {}
            for topic in self._database.topics():
                bound = start.of(topic)
                found = resolve(bound, self._database.log(topic, bound.moment), self._checks[topic])
                positions[topic] = Position(found.topic_id, found.offsets, found.offsets)
            self._initial = positions
        return self._initial

    def _logs(self, done: Positions) -> dict[str, Log]:
        """What the topics have; all before the positions has been processed."""
        logs = self._database.logs()
        self._group.note(done, logs)
        return logs

    def _latest(self) -> dict[str, Position]:
        return {
            topic: resolve(Bound(), log, self._checks[topic])
            for topic, log in self._database.logs().items()
        }


class _PlainStreamReader(_StreamReader):
    """For Spark before 4.2, which does not say where a batch starts: it goes to the end.

    A query that is started again has :meth:`partitions` called first, with the end of its last
    batch as both the start and the end.
    """

    _seen: dict[str, Any] | None = None

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        # Counted on from the start, which is the end that was seen last, so that messages that are
        # missing are told before the new end is in the checkpoint. Where nothing is new the end is
        # in the very form that Spark knows already, so that it makes no batch.
        form = self.initialOffset() if self._seen is None else self._seen
        start = self._topics.from_json(form)
        end, _ = advance(start, self._logs(start), self._checks, limit=None)
        return form if end == start else self._topics.as_json(end)

    def planned(self, start: dict[str, Any], end: dict[str, Any]) -> Plan:
        self._seen = end
        return super().planned(start, end)


if HAS_LIMITS:

    class _LimitedStreamReader(_StreamReader, SupportsTriggerAvailableNow):
        """For Spark from 4.2 on: batches of a limited size, and an end for AvailableNow."""

        _target: Mapping[str, Log] | None = None
        _moved = float("-inf")

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            return default_limit(self._options)

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            self._target = self._database.logs()

        def latestOffset(  # noqa: N802
            self, start: dict[str, Any], limit: ReadLimit
        ) -> dict[str, Any]:
            end, waiting = self.next(start, max_rows(limit))
            return start if self.waits_for_more(waiting) else end

        def next(self, start: dict[str, Any], limit: int | None) -> tuple[dict[str, Any], int]:
            """Where the next batch ends, and how many messages wait, were there no limit.

            Where nothing is new the end is in the very form that Spark knows already, so that it
            makes no batch.
            """
            first = self._topics.from_json(start)
            end, waiting = advance(
                first, self._logs(first), self._checks, limit=limit, target=self._target
            )
            return start if end == first else self._topics.as_json(end), waiting

        def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
            return self._topics.as_json(self._latest())

        def waits_for_more(self, waiting: int) -> bool:
            """Whether a batch would be too small, and the last one is not long ago."""
            least = self._options.min_offsets
            if least is None or waiting == 0 or self._target is not None:
                return False
            now = time.monotonic()
            if waiting < least and now - self._moved < self._options.max_delay.total_seconds():
                return True
            self._moved = now
            return False


def _check_version(options: Options) -> None:
    """Refuse what this version of Spark cannot do."""
    for name, value in options.limits.items():
        if value is not None and not HAS_LIMITS:
            raise refused(
                name,
                f"needs Spark 4.2 or newer, this is {pyspark.__version__}: before that Spark does "
                "not tell a source where a batch starts. Leave it out, or use Pgq.consume",
            )


class PgqDataSource(DataSource):
    """Topics for ``spark.read`` and ``spark.readStream``, with the options of Kafka's source.

    Make it known once, then read::

        register(spark)
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
        The database: a JDBC URL as for :class:`~pgq.spark.Pgq`, or ``postgresql://…``; and
        ``sslmode`` and other properties of connections. Several URLs, separated by spaces, where
        a topic is spread over several databases; a column ``shard`` then has the place of its URL
        among them, and bounds in JSON are a list with a part for each.
    ``topic``, ``subscribe``, ``subscribePattern`` or ``assign``
        One topic; several, separated by commas; all whose name matches a regular expression, also
        those that come while a stream runs; partitions of topics, ``{"readings": [0, 2]}``.
    ``startingOffsets``
        ``earliest`` (what a batch does by default), ``latest`` (what a stream does), or JSON with
        the next offset of each partition, ``{"readings": {"0": 15, "1": -2}}``, where -2 is the
        earliest and -1 the latest. A stream that has a checkpoint goes on from there instead.
    ``startingTimestamp``, ``startingOffsetsByTimestamp``
        Milliseconds since 1970, for all or as JSON for each partition: begin with the first message
        published then or later, at the end where there is none. Takes the place of startingOffsets.
    ``endingOffsets``, ``endingTimestamp``, ``endingOffsetsByTimestamp``
        Where a batch ends, which is excluded; by default at the latest.
    ``maxOffsetsPerTrigger``, ``minOffsetsPerTrigger``, ``maxTriggerDelay``
        How many messages a micro-batch of a stream has at most, and at least unless it has waited
        for so long (``15m``). Needs Spark 4.2; before that load() refuses it.
    ``minPartitions``
        How many tasks read at least. Each reads 250,000 messages or about 128 MB at most, of
        one partition or of many.
    ``failOnDataLoss``
        By default messages that retention removed before they were read are an error, and so is a
        topic that was dropped, or dropped and created again, or has less than was read already.
        With false, reading goes on with what is there, and no message is read twice.

    ``consumerGroup``
        Shows the position of a stream in this group, which no other consumer may use.
    ``includeHeaders``
        With false there is no column ``headers``.
    ``retryTimeout``
        How long a server that is away is waited for, ``60s`` by default.

    A partition that is added to the topic is read from its beginning. The progress of a stream
    names the end of the topic as latestOffset (from Spark 4.2 on).

    ``write.format("pgq")`` and ``writeStream.format("pgq")`` write atomically; their options are in
    python/SPARK.md.
    """

    _planned: Sequence[InputPartition] | None = None

    @classmethod
    def name(cls) -> str:
        return "pgq"

    def schema(self) -> StructType:
        # Here wrong options are an error of load(), not of a job later.
        shards = options_of_shards(self.options)
        _check_version(shards[0])
        if not KEEPS_PLANS:
            self._planned = planned_ahead(shards)
        return _schema(shards)

    def reader(self, schema: StructType) -> DataSourceReader:
        shards = self._parsed(schema)
        for name, value in shards[0].of_streams.items():
            if value is not None:
                raise refused(name, "is for streams, and this is a batch")
        for options in shards:
            for bound in [] if options.start is None else options.start.all():
                bound.of_batch("startingOffsets")
        return BatchReader(shards, self._planned)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        shards = self._parsed(schema)
        if shards[0].end is not None:
            raise ValueError(
                "options 'endingOffsets' and 'endingTimestamp' are for batches: a stream has no "
                "end, but Trigger.AvailableNow stops at what is there"
            )
        _check_version(shards[0])
        readers = [
            _LimitedStreamReader(options) if HAS_LIMITS else _PlainStreamReader(options)
            for options in shards
        ]
        return readers[0] if len(readers) == 1 else spread_reader(readers, shards)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise ValueError("the data source pgq cannot overwrite a topic: use mode('append')")
        return BatchWriter(parse_writer_options(self.options, streaming=False), schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        if overwrite:
            raise ValueError(
                "the data source pgq cannot overwrite a topic: use outputMode('append')"
            )
        return stream_writer(parse_writer_options(self.options, streaming=True), schema)

    def _parsed(self, schema: StructType) -> list[Options]:
        shards = options_of_shards(self.options)
        if schema != _schema(shards):
            raise ValueError("the data source pgq has a schema of its own: leave out schema(…)")
        return shards


def _schema(shards: Sequence[Options]) -> StructType:
    schema = SCHEMA if len(shards) == 1 else SPREAD_SCHEMA
    if shards[0].include_headers:
        return schema
    return StructType([field for field in schema if field.name != "headers"])
