"""What the data source ``pgq`` asks the database: what a topic has, and the messages of a range.

Messages come as Arrow's own buffers, so that making a record batch of them is little work in
Python.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterator
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import psycopg
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from pgq.errors import OffsetOutOfRange, translated
from pgq.messages import OffsetRange
from pgq.spark._options import Options
from pgq.spark._positions import Checks, Kept, Log

if TYPE_CHECKING:
    import pyarrow

__all__ = ["SCHEMA", "Database", "read_range"]

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

BATCH_BYTES = 4 << 20
"""About how much is handed to Spark at a time."""

CHUNK_ROWS = 50_000
"""How many messages one call asks for at most; the database has them all before it answers."""

_EPOCH = 946_684_800_000_000
"""From 1970 to 2000, where PostgreSQL counts from, in microseconds."""

_LOG = """
select o.partition, o.first_offset, o.last_offset + 1, o.log_offset,
    (select pgq.check_range(%(topic)s, 0, 1, 0))
from pgq.list_offsets(%(topic)s, %(published_at)s) as o
"""

# One row with the columns of a batch: that of Arrow is made of it with little work in Python. The
# function is read in its order, which nothing here changes; what exceeds the size is left out, so
# that a few huge messages among small ones fill no memory.
_MESSAGES = """
select
    string_agg(int8send(m.log_offset), ''),
    string_agg(timestamptz_send(m.published_at), ''),
    string_agg(m.value, ''),
    string_agg(int4send(octet_length(m.value)), ''),
    string_agg(m.key, ''),
    string_agg(int4send(coalesce(octet_length(m.key), -1)), ''),
    case
        when count(m.headers) > 0 then array_agg(
            case
                when m.headers is not null then (
                    select coalesce(jsonb_agg(jsonb_build_array(e.key, e.value)), '[]')::text
                    from jsonb_each_text(m.headers) as e
                )
            end
        )
    end
from (
    select
        v.*,
        sum(octet_length(v.value)) over (rows unbounded preceding) as size
    from (
        select
            m.log_offset,
            m.published_at,
            m.headers,
            convert_to(m.key, 'UTF8') as key,
            coalesce(m.body, convert_to(m.payload::text, 'UTF8')) as value
        from pgq.fetch_range(%(topic)s, %(partition)s, %(first)s, %(last)s) as m
        offset 0
    ) as v
) as m
where m.size - octet_length(m.value) < %(size)s
"""


class Database:
    """Asks what the topic has, on a connection that stays open until it is closed."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._connection: psycopg.Connection[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Spark sends readers to the workers.
        return {"_options": self._options, "_connection": None}

    def log(self, published_at: datetime | None = None) -> Log:
        """What the topic has now."""
        if self._connection is not None:
            try:
                return _log_of(self._connection, self._options.topic, published_at)
            except psycopg.OperationalError:
                # An idle connection may have been cut; then another one is made.
                if not self._connection.closed:
                    raise
        self._connection = self._options.connect()
        return _log_of(self._connection, self._options.topic, published_at)

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _log_of(
    connection: psycopg.Connection[Any], topic: str, published_at: datetime | None = None
) -> Log:
    parameters = {"topic": topic, "published_at": published_at}
    with translated():
        rows = connection.execute(_LOG, parameters).fetchall()
    return Log(rows[0][4], {row[0]: Kept(*row[1:4]) for row in rows})


def read_range(options: Options, part: OffsetRange) -> Iterator[pyarrow.RecordBatch]:
    """The messages of a range as record batches of some megabytes."""
    checks = Checks(options.topic, options.fail_on_data_loss)
    position = part.first_offset
    rows = 1000
    with options.connect() as connection:
        while position <= part.last_offset:
            last = min(part.last_offset, position + rows - 1)
            chunk = OffsetRange(part.partition, position, last)
            try:
                batch = _read_chunk(connection, options.topic, chunk)
            except OffsetOutOfRange:
                kept = _log_of(connection, options.topic).partitions[part.partition]
                if position >= kept.first:
                    raise
                checks.removed(part.partition, position, min(kept.first, part.last_offset + 1))
                position = kept.first
            else:
                yield batch
                position += batch.num_rows
                # as many as would make up a batch, were they like these
                fitting = batch.num_rows * BATCH_BYTES // max(batch.nbytes, 1)
                rows = max(1, min(CHUNK_ROWS, 2 * rows, fitting))


def _read_chunk(
    connection: psycopg.Connection[Any], topic: str, chunk: OffsetRange
) -> pyarrow.RecordBatch:
    """The first messages of a range: all of them if they are not too large, or at least one."""
    import pyarrow as pa

    parameters = {
        "topic": topic,
        "partition": chunk.partition,
        "first": chunk.first_offset,
        "last": chunk.last_offset,
        "size": BATCH_BYTES,
    }
    with translated():
        row = connection.execute(_MESSAGES, parameters, binary=True).fetchone()
    assert row is not None
    offsets, times, values, value_sizes, keys, key_sizes, headers = row
    numbers = _numbers("q", offsets)
    count = len(numbers)
    if numbers != array("q", range(chunk.first_offset, chunk.first_offset + count)):
        raise AssertionError("messages came in another order than that of their offsets")
    microseconds = array("q", (time + _EPOCH for time in _numbers("q", times)))
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    header_lists = pa.list_(pa.field("element", header))
    return pa.RecordBatch.from_arrays(
        [
            _binary(keys, key_sizes),
            _binary(values, value_sizes),
            pa.repeat(pa.scalar(topic, pa.string()), count),
            pa.repeat(pa.scalar(chunk.partition, pa.int32()), count),
            pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(numbers)]),
            pa.Array.from_buffers(
                pa.timestamp("us", tz="UTC"), count, [None, pa.py_buffer(microseconds)]
            ),
            pa.nulls(count, header_lists)
            if headers is None
            else pa.array([_headers(text) for text in headers], header_lists),
        ],
        names=SCHEMA.fieldNames(),
    )


def _numbers(kind: str, packed: bytes) -> array[int]:
    """Numbers in the byte order of the network."""
    numbers = array(kind)
    numbers.frombytes(packed)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _binary(packed: bytes | None, sizes: bytes) -> pyarrow.Array:
    """Bytes that lie one behind the other, as a column; null where the size is negative."""
    import pyarrow as pa

    lengths = _numbers("i", sizes)
    valid = None
    if min(lengths) < 0:
        valid = pa.array([length >= 0 for length in lengths]).buffers()[1]
        lengths = array("i", (max(length, 0) for length in lengths))
    bounds = array("i", accumulate(lengths, initial=0))
    buffers = [valid, pa.py_buffer(bounds), pa.py_buffer(packed or b"")]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def _headers(text: str | None) -> list[dict[str, Any]] | None:
    if text is None:
        return None
    return [
        {"key": key, "value": None if value is None else value.encode()}
        for key, value in json.loads(text)
    ]
