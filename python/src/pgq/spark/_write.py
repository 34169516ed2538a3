"""DataFrames become messages or jobs: staged and committed as one, or published chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pgq.spark._connection import (
    Arguments,
    DriverConnection,
    Location,
    call,
    hide_credentials,
)
from pgq.spark._pack import packer, schema

__all__ = ["Target", "WriteOptions", "WriteResult", "write"]


@dataclass(frozen=True)
class WriteResult:
    """What a write did."""

    write_id: UUID
    """The id of the write in the database."""
    messages: int
    """How many messages or jobs it wrote."""
    committed_at: datetime
    """When it was committed, by the clock of the server."""
    duplicate: bool
    """Whether it had been committed before, so that this time nothing was written."""


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
    rows, packed_contents = _normalised(frame, queue=target.queue is not None)
    spark = frame.sparkSession
    # a micro-batch has a session of its own
    hide_credentials(spark)
    begun = call(spark, location, "begin_write", _begin(target, options))[0]
    if begun["duplicate"]:
        return _result(begun)
    identity: Arguments = {"write_id": ("uuid", begun["write_id"])}
    commit: Arguments = {**identity, "expected_messages": ("bigint", options.expected_messages)}
    try:
        _send(rows, location, begun["write_id"], packed_contents=packed_contents, options=options)
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
        "timeout": ("interval", _interval(options.timeout)),
    }


def _interval(length: timedelta | None) -> str | None:
    return None if length is None else str(length).replace(",", "")


def _result(state: dict[str, Any]) -> WriteResult:
    written = state["committed_at"]
    pattern = "%Y-%m-%dT%H:%M:%S.%f%z" if "." in written else "%Y-%m-%dT%H:%M:%S%z"
    return WriteResult(
        write_id=UUID(state["write_id"]),
        messages=state["messages"],
        committed_at=datetime.strptime(written, pattern),
        duplicate=state["duplicate"],
    )


def _send(
    rows: DataFrame,
    location: Location,
    write_id: str,
    *,
    packed_contents: str,
    options: WriteOptions,
) -> None:
    """Pack the rows on the workers and insert the chunks from there."""
    pack = packer(
        write_id,
        packed_contents=packed_contents,
        chunk_rows=options.chunk_rows,
        chunk_bytes=options.chunk_bytes,
        delay=_interval(options.delay),
        priority=options.priority,
    )
    (
        rows.mapInArrow(pack, schema(rows.columns, packed_contents=packed_contents))
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


def _normalised(frame: DataFrame, *, queue: bool) -> tuple[DataFrame, str]:
    """The content first, as bytes, then the other columns; and the column that it goes to."""
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    allowed = {"value", "payload", "key", "headers", "label" if queue else "partition"}
    _refuse_unknown(kinds, allowed)
    if ("value" in kinds) == ("payload" in kinds):
        raise ValueError(
            "a message is either in the column value (bytes or text) or in payload (JSON): "
            f"the DataFrame has {'both' if 'value' in kinds else 'neither'}"
        )
    if "payload" in kinds:
        content, packed_contents = _json("payload", kinds["payload"]), "packed_payloads"
    else:
        content, packed_contents = _bytes("value", kinds["value"]), "packed_bodies"
    columns = [content.cast("binary").alias("content")]
    if "key" in kinds:
        columns.append(_text("key", kinds["key"]).alias("key"))
    if "headers" in kinds:
        columns.append(_headers(kinds["headers"]).alias("headers"))
    if "label" in kinds:
        columns.append(_text("label", kinds["label"]).alias("label"))
    if "partition" in kinds:
        if not isinstance(kinds["partition"], T.IntegralType):
            raise _wrong("partition", kinds["partition"], "an integer")
        # One that is no int is none of the topic's either, and must not wrap into one.
        number = F.col("partition")
        fits = number.isNull() | number.between(0, 2**31 - 1)
        columns.append(F.when(fits, number).otherwise(F.lit(-1)).cast("int").alias("partition"))
    return frame.select(*columns), packed_contents


def _refuse_unknown(names: Iterable[str], allowed: set[str]) -> None:
    unknown = sorted(set(names) - allowed)
    if unknown:
        raise ValueError(
            f"columns that cannot be written: {', '.join(unknown)}; "
            f"there may be {', '.join(sorted(allowed))}: select what you want to send"
        )


def _wrong(column: str, kind: T.DataType, wanted: str) -> TypeError:
    return TypeError(f"column {column} is {kind.simpleString()}; it must be {wanted}")


def _is_text(kind: T.DataType) -> bool:
    return isinstance(kind, (T.StringType, T.CharType, T.VarcharType))


def _bytes(name: str, kind: T.DataType) -> Column:
    if not (_is_text(kind) or isinstance(kind, T.BinaryType)):
        raise _wrong(name, kind, "binary or string; JSON goes into the column payload")
    return F.col(name)


def _json(name: str, kind: T.DataType) -> Column:
    if _is_text(kind):
        return F.col(name)
    if isinstance(kind, (T.StructType, T.MapType, T.ArrayType)):
        return F.to_json(F.col(name), {"ignoreNullFields": "false"})
    raise _wrong(name, kind, "a struct, a map, an array, or a string with JSON")


def _text(name: str, kind: T.DataType) -> Column:
    if not (_is_text(kind) or isinstance(kind, T.BinaryType)):
        raise _wrong(name, kind, "string, or binary with UTF-8 text")
    return F.validate_utf8(F.col(name).cast("string"))


def _headers(kind: T.DataType) -> Column:
    column = F.col("headers")
    if _is_text(kind):
        return column
    if isinstance(kind, T.MapType):
        return F.to_json(column.cast("map<string,string>"))
    if (
        isinstance(kind, T.ArrayType)
        and isinstance(kind.elementType, T.StructType)
        and kind.elementType.fieldNames() == ["key", "value"]
    ):
        entries = F.transform(
            column,
            lambda header: F.struct(
                header["key"].alias("key"),
                F.validate_utf8(header["value"].cast("string")).alias("value"),
            ),
        )
        return F.to_json(F.map_from_entries(entries))
    raise _wrong("headers", kind, "a map of texts, an array of (key, value), or a string with JSON")
