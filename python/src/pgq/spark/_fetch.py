"""What the data source ``pgq`` asks the database: what a topic has, and the messages of a range.

Messages come many in a row, so that making a record batch of them is little work in Python.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pgq.errors import OffsetOutOfRange, translated
from pgq.messages import OffsetRange
from pgq.spark._bounds import Moment
from pgq.spark._options import Options
from pgq.spark._positions import Checks, Kept, Log
from pgq.spark._retry import Patience, is_lost

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import LiteralString

__all__ = ["SCHEMA", "SPREAD_SCHEMA", "Database", "read_ranges"]

SCHEMA = (
    StructType()
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("timestamp", TimestampType())
    .add("headers", ArrayType(StructType().add("key", StringType()).add("value", BinaryType())))
)
"""What Spark's Kafka source has with includeHeaders, without timestampType."""

SPREAD_SCHEMA = StructType([*SCHEMA.fields, StructField("shard", IntegerType())])
"""The same where it is read from several databases."""

Answer = TypeVar("Answer")

BATCH_MESSAGES, BATCH_BYTES = 1000, 1 << 20
"""A record batch has no more of the server's rows than that one with which it reaches either."""

CALL_ROWS = 4000
"""How many messages a call asks for: the database gathers them before it answers.

With fewer there are more calls, which take more of its time.
"""

_LOG = """
select o.partition, o.first_offset, o.last_offset + 1, o.log_offset,
    (select pgq.check_range(%(topic)s, 0, 1, 0))
from pgq.list_offsets(%(topic)s, %(published_at)s) as o
"""

_LOGS = """
select t.topic, o.partition, o.first_offset, o.last_offset + 1, i.topic_id
from unnest(%(topics)s::text[]) as t (topic)
cross join lateral (
    select pgq.check_range(t.topic, 0, 1, 0) as topic_id
    offset 0
) as i
cross join lateral pgq.list_offsets(t.topic) as o
"""

_TOPICS = "select t.topic from pgq.list_topics() as t"

_CREATED = """
select (min(t.created_at) at time zone 'UTC')::text
from pgq.list_topics() as t
where t.topic = any(%(topics)s::text[])
"""

_LOGS_OF_MANY = _LOGS.replace(
    "unnest(%(topics)s::text[]) as t (topic)",
    "(select l.topic from pgq.list_topics() as l where l.topic = any(%(topics)s::text[])) as t",
)

# Streamed: while one answer is made into a batch, the server works at the next.
_MESSAGES = """
select r.partition, p.first_offset, p.messages, p.contents, p.keys, p.published_micros, p.headers
from unnest(%(partitions)s::integer[], %(firsts)s::bigint[], %(lasts)s::bigint[])
    as r (partition, first_offset, last_offset)
cross join lateral generate_series(r.first_offset, r.last_offset, %(rows)s) as c (first_offset)
cross join lateral pgq.fetch_packed(
    topic => %(topic)s,
    partition => r.partition,
    first_offset => c.first_offset,
    last_offset => least(c.first_offset + %(rows)s - 1, r.last_offset),
    first_partition_id => %(topic_id)s
) as p
"""

_AVERAGE = """
select avg(octet_length(c.content))
from pgq.fetch_packed(%(topic)s, %(partition)s, %(first)s, %(last)s) as p
cross join lateral unnest(p.contents) as c (content)
"""


class Database:
    """Asks what the topic has, on a connection that stays open until it is closed."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._connection: psycopg.Connection[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Spark sends readers to the workers.
        return {"options": self.options, "_connection": None}

    def log(self, topic: str, moment: Moment | None = None) -> Log:
        """What a topic has now, with what was published first at a time or later."""
        if isinstance(moment, Mapping):
            logs = {time: self.log(topic, time) for time in set(moment.values())}
            found = next(iter(logs.values()), None) or self.log(topic)
            kept = {
                partition: replace(place, at=logs[moment[partition]].partitions[partition].at)
                if partition in moment
                else place
                for partition, place in found.partitions.items()
            }
            return replace(found, partitions=kept)
        log = self.ask(lambda connection: _log_of(connection, topic, moment))
        return self.options.topics.narrowed(topic, log)

    def logs(self) -> dict[str, Log]:
        """What each of the topics has now."""
        topics = self.options.topics
        if topics.pattern is None:
            rows = self._rows(_LOGS, {"topics": list(topics.names)})
        else:
            # one that is dropped in between is left out by the second one
            rows = self._rows(_LOGS_OF_MANY, {"topics": self.topics()})
        found: dict[str, dict[int, Kept]] = {}
        ids = {}
        for topic, partition, first, after, topic_id in rows:
            ids[topic] = topic_id
            found.setdefault(topic, {})[partition] = Kept(first, after)
        return {
            topic: topics.narrowed(topic, Log(ids[topic], partitions))
            for topic, partitions in found.items()
        }

    def average(self, topic: str, part: OffsetRange) -> float | None:
        """How many bytes a message of a range has; None where they are gone."""
        parameters = {
            "topic": topic,
            "partition": part.partition,
            "first": part.first_offset,
            "last": part.last_offset,
        }
        try:
            [(average,)] = self._rows(_AVERAGE, parameters)
        except OffsetOutOfRange:
            return None
        return float(average)

    def topics(self) -> list[str]:
        """The topics that are read."""
        topics = self.options.topics
        if topics.pattern is None:
            return list(topics.names)
        return topics.matching(row[0] for row in self._rows(_TOPICS, {}))

    def created(self) -> str | None:
        """When the oldest of the topics was made, which no other database has in the same way."""
        rows = self._rows(_CREATED, {"topics": self.topics()})
        created: str | None = rows[0][0]
        return created

    def _rows(self, query: LiteralString, parameters: dict[str, Any]) -> list[Any]:
        return self.ask(lambda connection: connection.execute(query, parameters).fetchall())

    def ask(self, question: Callable[[psycopg.Connection[Any]], Answer]) -> Answer:
        """Ask by a function of the connection, again where the connection is lost."""
        patience = Patience(self.options.retry)
        while True:
            if self._connection is None or self._connection.closed:
                self._connection = self.options.connect()
            try:
                with translated():
                    return question(self._connection)
            except psycopg.OperationalError as error:
                if not is_lost(error, self._connection) or not patience.again(error):
                    raise

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _log_of(
    connection: psycopg.Connection[Any], topic: str, published_at: datetime | None = None
) -> Log:
    rows = connection.execute(_LOG, {"topic": topic, "published_at": published_at}).fetchall()
    return Log(rows[0][4], {row[0]: Kept(*row[1:4]) for row in rows})


_idle: dict[str, tuple[float, psycopg.Connection[Any]]] = {}
"""Connections of this process that no task uses, and since when: Spark runs many tasks in one."""

_FRESH = 1.0
"""For how many seconds an idle connection needs no check."""


@contextmanager
def _connection(options: Options) -> Iterator[psycopg.Connection[Any]]:
    """A connection that stays open for the next task, unless something happened to it."""
    since, connection = _idle.pop(options.conninfo, (0.0, None))
    if connection is not None and time.monotonic() - since > _FRESH:
        try:
            connection.execute("")
        except psycopg.Error:
            connection.close()
    if connection is None or connection.closed:
        connection = options.connect()
    try:
        yield connection
    finally:
        if connection.info.transaction_status == TransactionStatus.IDLE:
            _idle[options.conninfo] = time.monotonic(), connection
        else:
            connection.close()


def read_ranges(
    options: Options, topic: str, ranges: Sequence[OffsetRange], topic_id: int | None = None
) -> Iterator[pyarrow.RecordBatch]:
    """The messages of some ranges as record batches of some megabytes at most."""
    checks = Checks(topic, options.fail_on_data_loss, options.shard)
    left = deque(ranges)
    patience = Patience(options.retry)
    while left:
        with _connection(options) as connection:
            try:
                for batch in _batches(connection, topic, left, topic_id):
                    yield _shaped(batch, options)
                    _pass_over(left, batch.num_rows)
                    patience.reset()
            except OffsetOutOfRange:
                part = left.popleft()
                with translated():
                    kept = _log_of(connection, topic).partitions[part.partition]
                if part.first_offset >= kept.first:
                    raise
                after = min(kept.first, part.last_offset + 1)
                checks.removed(part.partition, part.first_offset, after)
                if after <= part.last_offset:
                    left.appendleft(replace(part, first_offset=after))
            except psycopg.OperationalError as error:
                # what was read stays: another connection goes on behind it
                if not is_lost(error, connection) or not patience.again(error):
                    raise


def _pass_over(left: deque[OffsetRange], count: int) -> None:
    """Take away what was read."""
    while count:
        part = left.popleft()
        taken = min(count, len(part))
        count -= taken
        if taken < len(part):
            left.appendleft(replace(part, first_offset=part.first_offset + taken))


def _shaped(batch: pyarrow.RecordBatch, options: Options) -> pyarrow.RecordBatch:
    """With the columns that were asked for."""
    import pyarrow as pa

    if options.shard is not None:
        number = pa.repeat(pa.scalar(options.shard, pa.int32()), batch.num_rows)
        names = SPREAD_SCHEMA.fieldNames()
        batch = pa.RecordBatch.from_arrays([*batch.columns, number], names=names)
    if options.include_headers:
        return batch
    return batch.select([name for name in batch.schema.names if name != "headers"])


_Packed = tuple[Any, ...]
"""A row of the answer."""


def _batches(
    connection: psycopg.Connection[Any],
    topic: str,
    ranges: Iterable[OffsetRange],
    topic_id: int | None,
) -> Iterator[pyarrow.RecordBatch]:
    parts = list(ranges)
    parameters = {
        "topic": topic,
        "partitions": [part.partition for part in parts],
        "firsts": [part.first_offset for part in parts],
        "lasts": [part.last_offset for part in parts],
        "rows": CALL_ROWS,
        "topic_id": topic_id,
    }
    gathered: list[_Packed] = []
    messages = size = 0
    try:
        with translated(), connection.cursor(binary=True) as cursor:
            for row in cursor.stream(_MESSAGES, parameters):
                gathered.append(row)
                messages += row[2]
                # a row that is not full is one of a small range, or of large messages
                if messages < BATCH_MESSAGES:
                    size += sum(map(len, row[3]))
                if messages >= BATCH_MESSAGES or size >= BATCH_BYTES:
                    yield _batch(topic, gathered)
                    gathered, messages, size = [], 0, 0
    except OffsetOutOfRange:
        if gathered:
            yield _batch(topic, gathered)
        raise
    if gathered:
        yield _batch(topic, gathered)


def _batch(topic: str, rows: Sequence[_Packed]) -> pyarrow.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    header_lists = pa.list_(pa.field("element", header))
    total = sum(row[2] for row in rows)
    places = pa.array(range(max(row[2] for row in rows)), pa.int64())

    def joined(column: int, kind: pyarrow.DataType) -> pyarrow.Array:
        return pa.array(list(chain.from_iterable(row[column] for row in rows)), kind)

    def sparse(column: int, kind: pyarrow.DataType, read: Callable[[Any], Any]) -> pyarrow.Array:
        """A column that most rows have nothing of."""
        if all(row[column] is None for row in rows):
            return pa.nulls(total, kind)
        lists = (row[column] or [None] * row[2] for row in rows)
        return pa.array([read(value) for value in chain.from_iterable(lists)], kind)

    return pa.RecordBatch.from_arrays(
        [
            sparse(4, pa.binary(), lambda key: key),
            joined(3, pa.binary()),
            pa.repeat(pa.scalar(topic, pa.string()), total),
            pa.concat_arrays([pa.repeat(pa.scalar(row[0], pa.int32()), row[2]) for row in rows]),
            pa.concat_arrays([pc.add(places.slice(0, row[2]), pa.scalar(row[1])) for row in rows]),
            joined(5, pa.timestamp("us", tz="UTC")),
            sparse(6, header_lists, _headers),
        ],
        names=SCHEMA.fieldNames(),
    )


def _headers(text: str | None) -> list[dict[str, Any]] | None:
    if text is None:
        return None
    return [
        {**header, "value": None if header["value"] is None else header["value"].encode()}
        for header in json.loads(text)
    ]
