"""DataFrames become messages or jobs: staged and committed as one, or published chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pgq.spark._columns import canonical, check_columns, is_text
from pgq.spark._connection import (
    Arguments,
    DriverConnection,
    Location,
    call,
    error_of,
    moment,
)
from pgq.spark._digest import aggregates, digest, summer
from pgq.spark._json import text, to_json
from pgq.spark._pack import packer, schema
from pgq.spark._redaction import hide_credentials
from pgq.spark._refusals import Check, RowRefused, checker
from pgq.spark._retry import Patience, is_lost_by_spark

__all__ = ["Target", "WriteOptions", "WriteResult", "interval", "normalised", "write"]


@dataclass(frozen=True)
class WriteResult:
    """What a write did."""

    write_id: UUID | None
    """The id of the write in the database; None where it went to several."""
    messages: int
    """How many messages or jobs it wrote."""
    committed_at: datetime
    """When it was committed, by the clock of the server."""
    duplicate: bool
    """Whether it had been committed before, so that this time nothing was written."""
    shards: tuple[int, ...] = ()
    """How many messages or jobs it wrote to each database, where there are several."""


@dataclass(frozen=True)
class Target:
    """A topic or a queue, and who writes to it."""

    topic: str | None = None
    queue: str | None = None
    producer: str | None = None
    seq: int | None = None

    def __post_init__(self) -> None:
        if (self.topic is None) == (self.queue is None):
            raise ValueError("a write goes to a topic or to a queue: give one of topic and queue")


@dataclass(frozen=True)
class WriteOptions:
    """How a DataFrame is written."""

    atomic: bool = True
    chunk_rows: int = 5000
    chunk_bytes: int = 4 << 20
    expected_messages: int | None = None
    delay: timedelta | None = None
    priority: int | None = None
    timeout: timedelta | None = None
    check_repeated: bool = True

    @classmethod
    def given(cls, **options: Any) -> WriteOptions:
        """Those that are None take their defaults."""
        return cls(**{name: value for name, value in options.items() if value is not None})

    def __post_init__(self) -> None:
        for name in ("chunk_rows", "chunk_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")


def write(
    frame: DataFrame,
    location: Location,
    target: Target,
    options: WriteOptions,
    transaction: DriverConnection | None = None,
) -> WriteResult:
    """Write the rows of a DataFrame; in a transaction of the driver where one is given.

    Where the server is lost before the commit, an atomic write is begun again, another one goes on.
    """
    rows, packed_contents = normalised(frame, queue=target.queue is not None)
    spark = frame.sparkSession
    # a micro-batch has a session of its own
    hide_credentials(spark)
    is_checked = target.producer is not None and options.check_repeated
    patience = Patience(0 if transaction is not None else location.retry)
    begun = call(spark, location, "begin_write", _begin(target, options))[0]
    while True:
        identity: Arguments = {"write_id": ("uuid", begun["write_id"])}
        if begun["duplicate"]:
            return _repeated(rows, location, begun, is_checked=is_checked)
        is_sent = False
        try:
            sent = _send(
                rows,
                location,
                begun["write_id"],
                packed_contents=packed_contents,
                options=options,
                is_summed=is_checked,
                most_bytes=begun["max_message_bytes"],
            )
            is_sent = True
            commit: Arguments = {
                **identity,
                "expected_messages": ("bigint", options.expected_messages),
                **({"digest": ("text", sent)} if is_checked else {}),
            }
            if transaction is not None:
                return _result(transaction.call("commit_write", commit)[0])
            done = call(spark, location, "commit_write", commit)[0]
            # a call that was repeated because its answer was lost says duplicate
            return _result({**done, "duplicate": False})
        except BaseException as error:
            again = not is_sent and is_lost_by_spark(error) and patience.again(error)
            if again and not options.atomic:
                continue  # what was published is known again by task and chunk
            # Tasks that still send are refused from here on, and what they staged is removed.
            # Whatever is not removed now, cleanup removes.
            with suppress(Exception):
                if transaction is not None:
                    transaction.rollback()  # it may hold the row that abort_write needs
                call(spark, location, "abort_write", identity, retry=None if again else 0)
            if not again:
                raise
        begun = call(spark, location, "begin_write", _begin(target, options))[0]


def _repeated(
    rows: DataFrame, location: Location, begun: dict[str, Any], *, is_checked: bool
) -> WriteResult:
    """What is there of a write that was committed before; other rows than then are refused."""
    if is_checked:
        row = rows.agg(*aggregates(rows.columns)).collect()[0]
        again: Arguments = {
            "write_id": ("uuid", begun["write_id"]),
            "digest": ("text", digest(row["rows"], row["total"])),
        }
        call(rows.sparkSession, location, "commit_write", again)
        # the data source's writer gives the name to a write without messages
        begun = {**begun, "messages": row["rows"]}
    return _result(begun)


def _begin(target: Target, options: WriteOptions) -> Arguments:
    return {
        "topic": ("text", target.topic),
        "queue": ("text", target.queue),
        "producer": ("text", target.producer),
        "seq": ("bigint", target.seq),
        "atomic": ("boolean", options.atomic),
        "timeout": ("interval", interval(options.timeout)),
    }


def interval(length: timedelta | None) -> str | None:
    """A length of time as PostgreSQL takes it."""
    return None if length is None else str(length).replace(",", "")


def _result(state: dict[str, Any]) -> WriteResult:
    return WriteResult(
        write_id=UUID(state["write_id"]),
        messages=state["messages"],
        committed_at=moment(state["committed_at"]),
        duplicate=state["duplicate"],
    )


def _send(
    rows: DataFrame,
    location: Location,
    write_id: str,
    *,
    packed_contents: str,
    options: WriteOptions,
    is_summed: bool,
    most_bytes: int,
) -> str | None:
    """Pack the rows on the workers and insert the chunks from there; their digest, if wanted."""
    pack = packer(
        write_id,
        packed_contents=packed_contents,
        chunk_rows=options.chunk_rows,
        chunk_bytes=options.chunk_bytes,
        delay=interval(options.delay),
        priority=options.priority,
        check=checker(
            "payload" if packed_contents == "packed_payloads" else None, most_bytes=most_bytes
        ),
        summed=summer() if is_summed else None,
    )
    columns = schema(rows.columns, packed_contents=packed_contents, checked=True, summed=is_summed)
    seen = Observation()
    sums = [F.sum(name).alias(name) for name in ("rows", "total") if is_summed]
    sending = (
        rows.mapInArrow(pack, columns)
        .observe(seen, F.min("refused").alias("refused"), *sums)
        .where("refused is null")
        .drop("refused", "rows", "total")
        .write.format("jdbc")
        .options(**location.options())
        .option("dbtable", "pgq.write_chunks")
        # Else the driver shows a whole chunk in the text of an error.
        .option("logServerErrorDetail", "false")
        # A chunk is a batch. An atomic write needs a transaction per task; else each chunk is one.
        .option("batchsize", 1)
        .option("isolationLevel", "READ_COMMITTED" if options.atomic else "NONE")
        .mode("append")
    )
    try:
        sending.save()
    except Exception as error:
        _explain(error, rows, packed_contents)
        raise
    found = seen.get
    if found["refused"] is not None:
        raise RowRefused(found["refused"])
    return digest(found["rows"] or 0, found["total"]) if is_summed else None


def _explain(error: Exception, rows: DataFrame, packed_contents: str) -> None:
    """Raise what the server said to a task that failed; with the row, if it is one that is wrong.

    Malformed JSON is found by the server, which does not know the row. Only then all rows are
    parsed here.
    """
    if is_lost_by_spark(error) or "PSQLException" not in str(error):
        return
    known = error_of(rows.sparkSession, error)
    if known is None or isinstance(known, (psycopg.DataError, psycopg.errors.StatementTooComplex)):
        json_column = "payload" if packed_contents == "packed_payloads" else None
        found = _first_refused(rows, checker(json_column, strict=True))
        if found is not None:
            raise RowRefused(found) from error
    if known is not None:
        raise known from error


def _first_refused(rows: DataFrame, check: Check) -> str | None:
    """What is wrong with the first row that is refused."""

    def find(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task, seen = context.partitionId(), 0
        for batch in batches:
            found = check(batch) if batch.num_rows else {}
            if found:
                first = min(found)
                told = f"row {seen + first + 1} of task {task}: {found[first]}"
                yield pa.RecordBatch.from_pydict({"task": [task], "told": [told]})
                break
            seen += batch.num_rows
        for _ in batches:
            pass

    found = rows.mapInArrow(find, "task long, told string").collect()
    return min((row["task"], row["told"]) for row in found)[1] if found else None


def normalised(
    frame: DataFrame, *, queue: bool, others: Iterable[str] = ()
) -> tuple[DataFrame, str]:
    """The content first, as bytes, then the other columns; and the column that it goes to."""
    is_case_sensitive = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    names = canonical(frame.columns, is_case_sensitive=is_case_sensitive)
    frame = frame if names == frame.columns else frame.toDF(*names)
    kinds = check_columns(frame.schema, queue=queue, others=others)
    if "payload" in kinds:
        column = F.col("payload")
        content = column if is_text(kinds["payload"]) else to_json(column)
        packed_contents = "packed_payloads"
    else:
        content, packed_contents = F.col("value"), "packed_bodies"
    columns = [content.cast("binary").alias("content")]
    if "key" in kinds:
        columns.append(_text("key").alias("key"))
    if "headers" in kinds:
        columns.append(_headers(kinds["headers"]).alias("headers"))
    if "label" in kinds:
        columns.append(_text("label").alias("label"))
    for name in ("partition", "shard"):
        if name in kinds:
            # One that is no int is none of the topic's either, and must not wrap into one.
            number = F.col(name)
            fits = number.isNull() | number.between(0, 2**31 - 1)
            columns.append(F.when(fits, number).otherwise(F.lit(-1)).cast("int").alias(name))
    return frame.select(*columns), packed_contents


def _text(name: str) -> Column:
    # what is no UTF-8 is found on the workers, and said there with its row
    return F.col(name).cast("string")


def _headers(kind: T.DataType) -> Column:
    column = F.col("headers")
    if is_text(kind):
        return column
    given: Any = kind
    if isinstance(kind, T.MapType):
        key, value = kind.keyType, kind.valueType
    else:
        key, value = (field.dataType for field in given.elementType)
    entries = F.transform(
        F.map_entries(column) if isinstance(kind, T.MapType) else column,
        lambda header: F.struct(
            text(header["key"], key).alias("key"),
            text(header["value"], value).alias("value"),
        ),
    )
    usual = F.to_json(F.map_from_entries(entries))
    if isinstance(kind, T.MapType):
        return _or_invalid(entries, usual)
    keys = F.array_distinct(F.transform(entries, lambda header: header["key"]))
    # the usual headers are a map; a key that is there more than once gets a list of its values
    listed = F.concat(
        F.lit("{"),
        F.array_join(F.transform(keys, lambda key: _json_entry(entries, key)), ","),
        F.lit("}"),
    )
    return _or_invalid(entries, F.when(F.size(keys) == F.size(entries), usual).otherwise(listed))


def _json_entry(entries: Column, key: Column) -> Column:
    """The JSON of a header: its value, or a list of several."""
    values = F.transform(
        F.filter(entries, lambda header: header["key"] == key), lambda header: header["value"]
    )
    value = F.when(F.size(values) == 1, _inner(F.to_json(values))).otherwise(F.to_json(values))
    return F.concat(_inner(F.to_json(F.array(key))), F.lit(":"), value)


def _inner(listed: Column) -> Column:
    """The JSON of the only element of a list, from that of the list."""
    return F.substring(listed, F.lit(2), F.length(listed) - 2)


def _or_invalid(entries: Column, headers: Column) -> Column:
    """The JSON of headers, or bytes that are no UTF-8 if these have any, which JSON would hide."""

    def is_invalid(header: Column) -> Column:
        valid = F.is_valid_utf8(header["key"]) & F.coalesce(
            F.is_valid_utf8(header["value"]), F.lit(True)
        )
        return ~valid

    broken = F.lit(b"\xff").cast("string")
    return F.when(F.exists(entries, is_invalid), broken).otherwise(headers)
