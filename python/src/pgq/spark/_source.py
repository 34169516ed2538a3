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

import json
import logging
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import psycopg
import pyspark
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
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
from pgq.spark._connection import Location
from pgq.spark._read import RANGE_SIZE, OffsetRange

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

_EARLIEST, _LATEST = -2, -1
_EPOCH = 946_684_800_000_000
"""From 1970 to 2000, where PostgreSQL counts from, in microseconds."""
_LAST_TIMESTAMP = 253_402_300_799_999
_ID, _FROM = "@id", "@from"

_log = logging.getLogger("pgq.spark")


# ---------------------------------------------------------------------------- options


@dataclass(frozen=True)
class Bound:
    """Where to start, or what to stop before: one of these, or the end of the topic."""

    earliest: bool = False
    timestamp: int | None = None
    offsets: Mapping[int, int] | None = None
    topic_id: int | None = None

    @property
    def latest(self) -> bool:
        """Whether it is the end of the topic."""
        return not self.earliest and self.timestamp is None and self.offsets is None


@dataclass(frozen=True)
class Options:
    """The options of a read, checked; its repr has no credentials."""

    topic: str
    conninfo: str = field(repr=False)
    start: Bound | None = None
    end: Bound | None = None
    max_offsets: int | None = None
    min_partitions: int | None = None
    fail_on_data_loss: bool = True

    def connect(self) -> psycopg.Connection[Any]:
        """A connection in autocommit that a pooler may serve."""
        return psycopg.connect(
            self.conninfo,
            autocommit=True,
            prepare_threshold=None,
            fallback_application_name="pgq spark",
        )


_NAMES = {
    name.lower(): name
    for name in (
        "url",
        "user",
        "password",
        "topic",
        "subscribe",
        "startingOffsets",
        "startingTimestamp",
        "endingOffsets",
        "endingTimestamp",
        "maxOffsetsPerTrigger",
        "minPartitions",
        "failOnDataLoss",
    )
}


def parse_options(options: Mapping[str, str]) -> Options:
    """Check the options of a read; their names are not case sensitive, as everywhere in Spark."""
    given = {name.lower(): value for name, value in options.items()}
    unknown = sorted(given.keys() - _NAMES.keys())
    if unknown:
        # names alone: what they are set to may be a secret
        raise ValueError(
            f"unknown option {', '.join(map(repr, unknown))}; the data source pgq knows "
            + ", ".join(_NAMES.values())
        )
    topic = _topic(given)
    start_at, end_at = (
        _milliseconds(given, "startingTimestamp"),
        _milliseconds(given, "endingTimestamp"),
    )
    return Options(
        topic=topic,
        conninfo=_conninfo(given),
        start=_bound(given, "startingOffsets", topic, start_at),
        end=_bound(given, "endingOffsets", topic, end_at),
        max_offsets=_count(given, "maxOffsetsPerTrigger"),
        min_partitions=_count(given, "minPartitions"),
        fail_on_data_loss=_flag(given, "failOnDataLoss", default=True),
    )


def _refused(name: str, problem: str) -> ValueError:
    return ValueError(f"option {name!r} {problem}")


def _topic(given: Mapping[str, str]) -> str:
    if "topic" in given and "subscribe" in given:
        raise _refused("topic", "and 'subscribe' mean the same: give one of them")
    topic = given.get("topic", given.get("subscribe", "")).strip()
    if not topic:
        raise _refused("topic", "is missing: the name of the topic to read")
    if "," in topic:
        raise _refused("subscribe", f"takes one topic, not {topic!r}: read each by itself")
    return topic


def _conninfo(given: Mapping[str, str]) -> str:
    """The place for psycopg. No message here shows the URL, which may hold a password."""
    url = given.get("url", "")
    credentials = {name: given[name] for name in ("user", "password") if name in given}
    if not url:
        raise _refused("url", "is missing: jdbc:postgresql://host:port/database")
    try:
        if url.startswith(("postgresql://", "postgres://")):
            return make_conninfo(url, **credentials)
        conninfo = Location(url, credentials).conninfo()
        conninfo_to_dict(conninfo)
    except (ValueError, psycopg.Error):
        raise _refused(
            "url",
            "is no URL of a PostgreSQL database: it has the form "
            "jdbc:postgresql://host:port/database or postgresql://host:port/database",
        ) from None
    return conninfo


def _bound(given: Mapping[str, str], name: str, topic: str, timestamp: int | None) -> Bound | None:
    text = given.get(name.lower())
    if timestamp is not None:
        # as with Kafka's source: a timestamp takes the place of the offsets
        return Bound(timestamp=timestamp)
    if text is None:
        return None
    word = text.strip().lower()
    if word == "latest":
        return Bound()
    if word == "earliest":
        if name == "endingOffsets":
            raise _refused(name, "is 'latest' or JSON: nothing ends at the earliest offset")
        return Bound(earliest=True)
    return _offsets(name, topic, text)


def _offsets(name: str, topic: str, text: str) -> Bound:
    try:
        found = json.loads(text)
        topic_id = found.pop(_ID, None)
        found.pop(_FROM, None)
        offsets = {
            _integer(partition): _integer(offset) for partition, offset in found[topic].items()
        }
        well_formed = len(found) == 1 and (topic_id is None or isinstance(topic_id, int))
    except (ValueError, KeyError, AttributeError, TypeError):
        well_formed = False
    if not well_formed:
        words = "'earliest', 'latest'" if name == "startingOffsets" else "'latest'"
        raise _refused(
            name,
            f"is {text!r}; it must be {words} or JSON with an offset for each partition, "
            f'{{"{topic}": {{"0": 1, "1": 1}}}}',
        )
    for partition, offset in offsets.items():
        if partition < 0:
            raise _refused(name, f"has the partition {partition}: they are numbered from 0")
        if offset == _EARLIEST and name == "endingOffsets":
            raise _refused(name, f"is -2 for partition {partition}: nothing ends at the earliest")
        if offset < 1 and offset not in (_EARLIEST, _LATEST):
            raise _refused(
                name,
                f"is {offset} for partition {partition}: offsets begin at 1; "
                "-2 is the earliest and -1 the latest",
            )
    return Bound(offsets=offsets, topic_id=topic_id)


def _integer(value: str | int) -> int:
    if isinstance(value, bool | float):
        raise ValueError(value)
    return int(value)


def _count(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise _refused(name, f"is {text!r}; it must be a whole number from 1 on")
    return int(text)


def _milliseconds(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) > _LAST_TIMESTAMP:
        raise _refused(name, f"is {text!r}; it must be milliseconds since 1970-01-01 00:00 UTC")
    return int(text)


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name.lower())
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise _refused(name, f"is {text!r}; it must be true or false")
    return word == "true"


# ---------------------------------------------------------------------------- positions


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

    topic_id: int
    partitions: Mapping[int, Kept]


@dataclass(frozen=True)
class Position:
    """The next offset to read in each partition; one that is not named begins at 1."""

    topic_id: int
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
        written = {topic: _by_name(self.offsets), _ID: self.topic_id}
        return written if self.began is None else {**written, _FROM: _by_name(self.began)}

    @classmethod
    def from_json(cls, topic: str, found: Mapping[str, Any]) -> Position:
        """Read what :meth:`as_json` made, perhaps in a run of long ago."""
        if topic not in found or _ID not in found:
            others = ", ".join(repr(name) for name in found if name not in (_ID, _FROM))
            raise ValueError(
                f"the checkpoint is not one of topic {topic!r} but of {others or 'something else'}:"
                " a query that reads another topic needs a checkpoint of its own"
            )
        began = found.get(_FROM)
        return cls(
            int(found[_ID]), _by_number(found[topic]), None if began is None else _by_number(began)
        )


def _by_name(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offsets[partition] for partition in sorted(offsets)}


def _by_number(offsets: Mapping[str, Any]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in offsets.items()}


class DataLossError(RuntimeError):
    """Messages that were to be read are not there; the message says what to do."""


_GO_ON = (
    "Set the option failOnDataLoss to false to go on with what is there, or start anew with "
    "another checkpoint."
)


@dataclass(frozen=True)
class Checks:
    """What to say, or to raise, when a topic does not have what a position asks for."""

    topic: str
    fail_on_data_loss: bool

    def lost(self, problem: str) -> None:
        """Messages are missing: fail, or tell and go on."""
        text = f"topic {self.topic!r}, {problem}"
        if self.fail_on_data_loss:
            raise DataLossError(f"{text} {_GO_ON}")
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
        self.lost("it was dropped and made anew since the offsets were noted.")


def resolve(bound: Bound, log: Log, checks: Checks) -> Position:
    """A position in the topic as it is."""
    if bound.earliest:
        return Position(log.topic_id, {p: kept.first for p, kept in log.partitions.items()})
    if bound.timestamp is not None:
        return Position(log.topic_id, {p: kept.at or 1 for p, kept in log.partitions.items()})
    if bound.offsets is None:
        return Position(log.topic_id, {p: kept.after for p, kept in log.partitions.items()})
    if bound.topic_id not in (None, log.topic_id):
        checks.renewed()
    if bound.offsets.keys() != log.partitions.keys():
        raise ValueError(
            f"topic {checks.topic!r} has the partitions {sorted(log.partitions)}, "
            f"offsets were given for {sorted(bound.offsets)}: give one for each, "
            "-2 for the earliest, -1 for the latest"
        )
    return Position(
        log.topic_id,
        {p: _resolve_one(p, bound.offsets[p], kept, checks) for p, kept in log.partitions.items()},
    )


def _resolve_one(partition: int, offset: int, kept: Kept, checks: Checks) -> int:
    if offset == _EARLIEST:
        return kept.first
    if offset == _LATEST:
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


def advance(
    start: Position, log: Log, checks: Checks, *, limit: int | None, target: Log | None = None
) -> Position:
    """How far the next batch goes: ``start`` itself when there is nothing to read.

    ``limit`` messages at most, from each partition in proportion to what waits there; nothing that
    came after ``target``.
    """
    if start.topic_id != log.topic_id:
        checks.renewed()
        start = Position(log.topic_id, {})
    until = log if target is None else target
    if until.topic_id != log.topic_id:
        return start
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
    taken = _prorate(waiting, limit, turn=sum(begins.values()))
    moved = {p: begins[p] + count for p, count in taken.items() if count}
    if not moved:
        return start
    began = start.offsets if start.is_initial else None
    return Position(start.topic_id, {**start.offsets, **moved}, began)


def _prorate(waiting: Mapping[int, int], limit: int | None, *, turn: int) -> dict[int, int]:
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


def ranges_between(start: Position, end: Position, log: Log, checks: Checks) -> list[OffsetRange]:
    """What a batch reads: what lies between two positions and is there."""
    if start.is_initial and end.began is not None:
        # The start was asked for anew, but the batch may have been planned in an earlier run.
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
            raise DataLossError(
                f"topic {checks.topic!r}, partition {partition}: a batch from offset {first} back "
                f"to {after} would read messages twice. The topic was set back to an earlier "
                "state: start anew with another checkpoint."
            )
        kept = log.partitions.get(partition, Kept(1, 1))
        if first < after and first < kept.first:
            checks.removed(partition, first, min(after, kept.first))
        if first < after and after > kept.after:
            checks.ahead(partition, after, kept)
        part = OffsetRange(partition, max(first, kept.first), min(after, kept.after) - 1)
        if len(part) > 0:
            found.append(part)
    return found


def split(ranges: Sequence[OffsetRange], min_partitions: int | None) -> list[InputPartition]:
    """Tasks: at least as many as wanted where there are as many messages, none too long."""
    size = RANGE_SIZE
    if min_partitions is not None:
        size = max(1, min(size, sum(map(len, ranges)) // min_partitions))
    return [InputPartition(part) for whole in ranges for part in whole.split(size)]


# ---------------------------------------------------------------------------- the database


_LOG = """
select o.partition, o.first_offset, o.last_offset + 1, o.log_offset,
    (select pgq.check_range(%(topic)s, 0, 1, 0))
from pgq.list_offsets(
    %(topic)s, 'epoch'::timestamptz + %(timestamp)s::bigint * interval '1 millisecond'
) as o
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


class _Database:
    """Asks what the topic has, on a connection that stays open until it is closed."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._connection: psycopg.Connection[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Spark sends readers to the workers.
        return {"_options": self._options, "_connection": None}

    def log(self, timestamp: int | None = None) -> Log:
        """What the topic has now."""
        parameters = {"topic": self._options.topic, "timestamp": timestamp}
        if self._connection is not None:
            try:
                return _log_of(self._connection, parameters)
            except psycopg.OperationalError:
                # An idle connection may have been cut; then another one is made.
                if not self._connection.closed:
                    raise
        self._connection = self._options.connect()
        return _log_of(self._connection, parameters)

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _log_of(connection: psycopg.Connection[Any], parameters: Mapping[str, object]) -> Log:
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
                log = _log_of(connection, {"topic": options.topic, "timestamp": None})
                kept = log.partitions[part.partition]
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


# ---------------------------------------------------------------------------- readers


class _BatchReader(DataSourceReader):
    """Reads what lies between two positions when the query is planned."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        checks = Checks(options.topic, options.fail_on_data_loss)
        start, end = options.start or Bound(earliest=True), options.end or Bound()
        database = _Database(options)
        try:
            log = database.log(start.timestamp)
            first = resolve(start, log, checks)
            if end.timestamp is not None:
                log = database.log(end.timestamp)
            after = resolve(end, log, checks)
        finally:
            database.close()
        # An end before the start is no error here: there is nothing in between.
        ends = {
            p: max(first[p], offset) for p, offset in after.offsets.items() if p in first.offsets
        }
        return split(
            ranges_between(first, Position(after.topic_id, ends), log, checks),
            options.min_partitions,
        )

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        # Spark makes one task, without a range, where there is nothing to read.
        if partition.value is None:
            return iter(())
        return read_range(self._options, partition.value)


class _StreamReader(DataSourceStreamReader):
    """What a stream does the same in all versions of Spark."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._checks = Checks(options.topic, options.fail_on_data_loss)
        self._database = _Database(options)
        self._initial: Position | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._begin().as_json(self._options.topic)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, after = self._position(start), self._position(end)
        ranges = ranges_between(first, after, self._database.log(), self._checks)
        return split(ranges, self._options.min_partitions)

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
            found = resolve(start, self._database.log(start.timestamp), self._checks)
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
        topic that was made anew, or has less than was read already. With false, reading goes on
        with what is there, and no message is read twice.

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
            raise _refused("maxOffsetsPerTrigger", "is for streams: a batch has endingOffsets")
        if options.start is not None and options.start.latest:
            raise _refused("startingOffsets", "must not be 'latest' in a batch: nothing is there")
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
            raise _refused(
                "maxOffsetsPerTrigger",
                f"needs Spark 4.2 or newer, this is {pyspark.__version__}: before that Spark does "
                "not tell a source where a batch starts. Leave it out, or use Pgq.consume",
            )
        return _PlainStreamReader(options)

    def _parsed(self, schema: StructType) -> Options:
        if schema != SCHEMA:
            raise ValueError("the data source pgq has a schema of its own: leave out schema(…)")
        return parse_options(self.options)
