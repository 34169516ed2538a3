"""Rows as the data source gets them, by Arrow, become rows as chunks are made of them.

A writer in Python cannot have Spark change its input, so what ``Pgq.publish`` leaves to expressions
of Spark is done to Arrow's columns here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from pgq.spark._bounds import refused
from pgq.spark._columns import check_columns, is_bytes, is_text, wrong

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Rows"]

# What a DataFrame that was read from a topic, or by Spark's Kafka source, has besides.
_IGNORED = ("offset", "timestamp", "timestampType")
# What says where a row comes from, when it goes to a queue, or to one database.
_ORIGIN = ("topic", "partition")
_SHARD = ("shard",)


class Rows:
    """The columns of the rows that are written, checked; and how each batch of them is changed.

    ``topic`` or ``queue`` is where all rows go to; without both, each row says its topic.
    """

    def __init__(
        self,
        schema: T.StructType,
        *,
        topic: str | None,
        queue: str | None,
        value_is_json: bool,
        is_spread: bool = False,
    ) -> None:
        ignored = (
            *_IGNORED,
            *(_ORIGIN if queue is not None else ()),
            *(() if is_spread else _SHARD),
        )
        others = (*(() if queue is not None else ("topic",)), *(_SHARD if is_spread else ()))
        kinds = check_columns(schema, queue=queue is not None, ignored=ignored, others=others)
        if "payload" in kinds and not is_text(kinds["payload"]):
            raise wrong(
                "payload", kinds["payload"], "a string with JSON here: use to_json, or Pgq.publish"
            )
        headers = kinds.get("headers")
        if isinstance(headers, T.MapType):
            _check_map(headers)
        if topic is None and queue is None and "topic" not in kinds:
            raise refused("topic", "is missing: give it, or 'queue', or a column topic")
        self._kinds = kinds
        self._topic = topic or queue
        self.packed_contents = (
            "packed_payloads" if "payload" in kinds or value_is_json else "packed_bodies"
        )

    def by_topic(self, batch: pyarrow.RecordBatch) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
        """The rows for each topic, or for the queue, as the packer takes them."""
        rows = self._changed(batch)
        if self._topic is not None:
            yield self._topic, rows
            return
        import pyarrow as pa
        import pyarrow.compute as pc

        topics = _column(batch, "topic").cast(pa.string())
        if topics.null_count:
            raise ValueError(
                "a row without a topic: the column topic has nulls, and there is no option topic"
            )
        found = sorted(pc.unique(topics).to_pylist())
        for topic in found:
            yield topic, rows if len(found) == 1 else rows.filter(pc.equal(topics, topic))

    def _changed(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        import pyarrow as pa

        kinds = self._kinds
        content = "payload" if "payload" in kinds else "value"
        columns = {"content": _column(batch, content).cast(pa.binary())}
        for name in ("key", "label"):
            if name in kinds:
                # checked: bytes that are no UTF-8 are an error
                columns[name] = _column(batch, name).cast(pa.string())
        if "headers" in kinds:
            columns["headers"] = _headers(_column(batch, "headers"))
        for name in ("partition", "shard"):
            if name in kinds:
                columns[name] = _number(_column(batch, name))
        return pa.RecordBatch.from_pydict(columns)


def _check_map(kind: T.MapType) -> None:
    if not (is_bytes(kind.keyType) and is_bytes(kind.valueType)):
        raise wrong(
            "headers", kind, "a map of texts, an array of (key, value), or a string with JSON"
        )


def _column(batch: pyarrow.RecordBatch, name: str) -> Any:
    return batch.column(batch.schema.get_field_index(name))


def _number(column: Any) -> Any:
    """As 32 bits; one that does not fit is none of the topic's, and must not wrap into one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    fits = pc.and_(pc.greater_equal(column, 0), pc.less_equal(column, 2**31 - 1))
    return pc.if_else(fits, column, pa.scalar(-1, column.type)).cast(pa.int32())


def _headers(column: Any) -> Any:
    """As texts of JSON objects."""
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.string())
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.string())
    return pa.array([_object(entries) for entries in column.to_pylist()], pa.string())


def _object(entries: Any) -> str | None:
    """The JSON of headers that are pairs, or dictionaries with a key and a value."""
    if entries is None:
        return None
    found: dict[str, list[str | None]] = {}
    for entry in entries:
        key, value = (entry["key"], entry["value"]) if isinstance(entry, dict) else entry
        if key is None:
            raise ValueError("a header without a key: the column headers has null keys")
        found.setdefault(str(_text(key)), []).append(_text(value))
    # a key that is there more than once gets a list of its values
    usual = {key: values[0] if len(values) == 1 else values for key, values in found.items()}
    return json.dumps(usual, ensure_ascii=False)


def _text(value: Any) -> str | None:
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        raise ValueError("the column headers has bytes that are no UTF-8") from None
