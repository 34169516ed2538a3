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
from pgq.spark._columns import TEXTS, canonical, check_columns, is_bytes, is_text, wrong
from pgq.spark._refusals import checker

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
    ``is_strict``: JSON is parsed here, and not only by the database.
    """

    def __init__(
        self,
        schema: T.StructType,
        *,
        topic: str | None,
        queue: str | None,
        value_is_json: bool,
        is_spread: bool = False,
        is_strict: bool = False,
    ) -> None:
        ignored = (
            *_IGNORED,
            *(_ORIGIN if queue is not None else ()),
            *(() if is_spread else _SHARD),
        )
        others = (*(() if queue is not None else ("topic",)), *(_SHARD if is_spread else ()))
        self._names = canonical(schema.names)
        fields = zip(self._names, schema, strict=True)
        schema = T.StructType([T.StructField(name, field.dataType) for name, field in fields])
        kinds = check_columns(schema, queue=queue is not None, ignored=ignored, others=others)
        if "payload" in kinds and not is_text(kinds["payload"]):
            raise wrong(
                "payload", kinds["payload"], "a string with JSON here: use to_json, or Pgq.publish"
            )
        if "headers" in kinds:
            _check_headers(kinds["headers"])
        if topic is None and queue is None and "topic" not in kinds:
            raise refused("topic", "is missing: give it, or 'queue', or a column topic")
        self._kinds = kinds
        self._topic = topic or queue
        content = "payload" if "payload" in kinds else "value"
        self._content = content
        self.json_column = content if content == "payload" or value_is_json else None
        self._check = checker(self.json_column, strict=is_strict)

    def checked(self, batch: pyarrow.RecordBatch) -> tuple[pyarrow.RecordBatch, dict[int, str]]:
        """The rows as chunks have them, and the places of those that are refused, and why."""
        import pyarrow as pa

        kinds, batch = self._kinds, batch.rename_columns(self._names)
        columns = {"content": _column(batch, self._content).cast(pa.binary())}
        refused: dict[int, str] = {}
        for name in ("key", "label"):
            if name in kinds:
                columns[name] = _column(batch, name).cast(pa.binary())
        if "headers" in kinds:
            columns["headers"] = _headers(_column(batch, "headers"), refused)
        for name in ("partition", "shard"):
            if name in kinds:
                columns[name] = _number(_column(batch, name))
        if self._topic is None:
            columns["topic"] = _topics(_column(batch, "topic"), refused)
        rows = pa.RecordBatch.from_pydict(columns)
        return rows, {**self._check(rows), **refused}

    def by_topic(self, rows: pyarrow.RecordBatch) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
        """The checked rows for each topic, or for the queue, as the packer takes them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        topics = columns.pop("topic", None)
        texts = {
            name: columns[name].cast(pa.string()) for name in ("key", "label") if name in columns
        }
        rows = pa.RecordBatch.from_pydict({**columns, **texts})
        found = [self._topic] if topics is None else sorted(pc.unique(topics).to_pylist())
        for topic in found:
            assert topic is not None
            yield topic, rows if len(found) == 1 else rows.filter(pc.equal(topics, topic))


def _check_headers(kind: T.DataType) -> None:
    """Refuse what Spark would have to make texts of: numbers, times."""
    if is_text(kind):
        return
    if isinstance(kind, T.MapType):
        parts = [kind.keyType, kind.valueType]
    else:
        given: Any = kind
        parts = [field.dataType for field in given.elementType]
    if not all(map(is_bytes, parts)):
        raise wrong("headers", kind, TEXTS)


def _column(batch: pyarrow.RecordBatch, name: str) -> Any:
    return batch.column(batch.schema.get_field_index(name))


def _number(column: Any) -> Any:
    """As 32 bits; one that does not fit is none of the topic's, and must not wrap into one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    fits = pc.and_(pc.greater_equal(column, 0), pc.less_equal(column, 2**31 - 1))
    return pc.if_else(fits, column, pa.scalar(-1, column.type)).cast(pa.int32())


def _topics(column: Any, refused: dict[int, str]) -> Any:
    """As texts; a row that does not say its topic is refused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    held = column.cast(pa.binary())
    try:
        topics = held.cast(pa.string())
    except pa.ArrowInvalid:
        topics = pa.array([_valid(value) for value in held.to_pylist()], pa.string())
    for place in pc.indices_nonzero(topics.is_null()).to_pylist() if topics.null_count else []:
        told = held[place].as_py()
        why = "is null, and there is no option topic" if told is None else f"is no text: {told!r}"
        refused[place] = f"column topic {why}"
    return topics


def _valid(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _headers(column: Any, refused: dict[int, str]) -> Any:
    """As texts of JSON objects, with null where they cannot be that."""
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.string())
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.string())
    found: list[str | None] = []
    for place, entries in enumerate(column.to_pylist()):
        try:
            found.append(_object(entries))
        except ValueError as error:
            found.append(None)
            refused[place] = f"column headers {error}"
    return pa.array(found, pa.string())


def _object(entries: Any) -> str | None:
    """The JSON of headers that are pairs, or dictionaries with a key and a value."""
    if entries is None:
        return None
    found: dict[str, list[str | None]] = {}
    for entry in entries:
        key, value = tuple(entry.values()) if isinstance(entry, dict) else entry
        if key is None:
            raise ValueError("has a null key")
        found.setdefault(str(_decoded(key)), []).append(_decoded(value))
    # a key that is there more than once gets a list of its values
    usual = {key: values[0] if len(values) == 1 else values for key, values in found.items()}
    return json.dumps(usual, ensure_ascii=False, separators=(",", ":"))


def _decoded(value: str | bytes | None) -> str | None:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ValueError(f"is not valid UTF-8: {value[:100]!r}") from None
