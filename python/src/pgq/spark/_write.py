"""DataFrames become messages or jobs: staged and committed as one, or published chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pgq.spark._columns import check_columns, is_text
from pgq.spark._connection import (
    Arguments,
    DriverConnection,
    Location,
    call,
    hide_credentials,
    moment,
)
from pgq.spark._digest import aggregates, digest
from pgq.spark._pack import packer, schema
from pgq.spark._refusals import RowRefused, checker

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
    """Write the rows of a DataFrame; in a transaction of the driver where one is given."""
    rows, packed_contents = normalised(frame, queue=target.queue is not None)
    spark = frame.sparkSession
    # a micro-batch has a session of its own
    hide_credentials(spark)
    begun = call(spark, location, "begin_write", _begin(target, options))[0]
    is_checked = target.producer is not None and options.check_repeated
    identity: Arguments = {"write_id": ("uuid", begun["write_id"])}
    if begun["duplicate"]:
        if is_checked:
            # refused where other rows were committed under this name
            row = rows.agg(*aggregates()).collect()[0]
            again = {**identity, "digest": ("text", digest(row["rows"], row["total"]))}
            call(spark, location, "commit_write", again)
            # the data source's writer gives the name to a write without messages
            begun = {**begun, "messages": row["rows"]}
        return _result(begun)
    commit: dict[str, tuple[str, object]] = {
        **identity,
        "expected_messages": ("bigint", options.expected_messages),
    }
    try:
        sent = _send(
            rows,
            location,
            begun["write_id"],
            packed_contents=packed_contents,
            options=options,
            is_summed=is_checked,
        )
        if is_checked:
            commit["digest"] = ("text", sent)
        if transaction is not None:
            return _result(transaction.call("commit_write", commit)[0])
        try:
            done = call(spark, location, "commit_write", commit)[0]
        except psycopg.OperationalError:
            # The answer may have been lost on its way: asked again, the database knows.
            done = call(spark, location, "commit_write", commit)[0]
            done["duplicate"] = False
        return _result(done)
    except BaseException:
        # Tasks that still send are refused from here on, and what they staged is removed.
        # Whatever is not removed now, cleanup removes.
        with suppress(Exception):
            if transaction is not None:
                transaction.rollback()  # it may hold the row that abort_write needs
            call(spark, location, "abort_write", identity)
        raise


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
) -> str | None:
    """Pack the rows on the workers and insert the chunks from there; their digest, if wanted."""
    pack = packer(
        write_id,
        packed_contents=packed_contents,
        chunk_rows=options.chunk_rows,
        chunk_bytes=options.chunk_bytes,
        delay=interval(options.delay),
        priority=options.priority,
        check=checker("payload" if packed_contents == "packed_payloads" else None),
        summed=is_summed,
    )
    columns = schema(rows.columns, packed_contents=packed_contents, checked=True, summed=is_summed)
    seen = Observation()
    sums = [F.sum(name).alias(name) for name in ("rows", "total") if is_summed]
    (
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
        .save()
    )
    found = seen.get
    if found["refused"] is not None:
        raise RowRefused(found["refused"])
    return digest(found["rows"] or 0, found["total"]) if is_summed else None


def normalised(
    frame: DataFrame, *, queue: bool, others: Iterable[str] = ()
) -> tuple[DataFrame, str]:
    """The content first, as bytes, then the other columns; and the column that it goes to."""
    kinds = check_columns(frame.schema, queue=queue, others=others)
    if "payload" in kinds:
        content, packed_contents = _json("payload", kinds["payload"]), "packed_payloads"
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


def _json(name: str, kind: T.DataType) -> Column:
    column = F.col(name)
    return column if is_text(kind) else F.to_json(column, {"ignoreNullFields": "false"})


def _text(name: str) -> Column:
    # what is no UTF-8 is found on the workers, and said there with its row
    return F.col(name).cast("string")


def _headers(kind: T.DataType) -> Column:
    column = F.col("headers")
    if is_text(kind):
        return column
    if isinstance(kind, T.MapType):
        texts = column.cast("map<string,string>")
        entries = F.map_entries(texts)
        return _or_invalid(entries, F.to_json(texts))
    entries = F.transform(
        column,
        lambda header: F.struct(
            header["key"].cast("string").alias("key"),
            header["value"].cast("string").alias("value"),
        ),
    )
    keys = F.array_distinct(F.transform(entries, lambda header: header["key"]))
    # the usual headers are a map; a key that is there more than once gets a list of its values
    listed = F.concat(
        F.lit("{"),
        F.array_join(F.transform(keys, lambda key: _json_entry(entries, key)), ","),
        F.lit("}"),
    )
    usual = F.to_json(F.map_from_entries(entries))
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
