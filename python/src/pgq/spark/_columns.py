"""The columns of a DataFrame that becomes messages or jobs: which there may be, of which types.

``Pgq.publish`` and the data source ask the same of them, and refuse in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import types as T

__all__ = ["TEXTS", "Kinds", "canonical", "check_columns", "is_bytes", "is_text", "wrong"]

Kinds = dict[str, T.DataType]
"""The types of columns by name."""

TEXTS = "a map of texts, an array of (key, value), or a string with JSON"


_NAMES = ("value", "payload", "key", "headers", "label", "partition", "topic", "shard")
_FOREIGN = ("offset", "timestamp", "timestampType")
"""What Kafka's source has besides."""


def canonical(names: Sequence[str], *, is_case_sensitive: bool = False) -> list[str]:
    """Names of columns as they are known here, where Spark does not regard case."""
    known = {} if is_case_sensitive else {name.lower(): name for name in (*_NAMES, *_FOREIGN)}
    found = [known.get(name.lower(), name) for name in names]
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise ValueError(f"columns that are there more than once: {', '.join(twice)}")
    return found


def check_columns(
    schema: T.StructType, *, queue: bool, ignored: Iterable[str] = (), others: Iterable[str] = ()
) -> Kinds:
    """The columns that are written, with their types; ``ignored`` ones may be there beside them.

    ``others`` are further columns that may be written.
    """
    kinds = {field.name: field.dataType for field in schema.fields if field.name not in ignored}
    allowed = {"value", "payload", "key", "headers", "label" if queue else "partition", *others}
    unknown = sorted(kinds.keys() - allowed)
    if unknown:
        raise ValueError(
            f"columns that cannot be written: {', '.join(unknown)}; "
            f"there may be {', '.join(sorted(allowed))}: select what you want to send"
        )
    if ("value" in kinds) == ("payload" in kinds):
        raise ValueError(
            "a message is either in the column value (bytes or text) or in payload (JSON): "
            f"the DataFrame has {'both' if 'value' in kinds else 'neither'}"
        )
    for name, kind in kinds.items():
        _check(name, kind)
    return kinds


def _check(name: str, kind: T.DataType) -> None:
    if name == "value" and not is_bytes(kind):
        raise wrong(name, kind, "binary or string; JSON goes into the column payload")
    if name == "payload" and not (
        is_text(kind) or isinstance(kind, (T.StructType, T.MapType, T.ArrayType))
    ):
        raise wrong(name, kind, "a struct, a map, an array, or a string with JSON")
    if name in ("key", "label", "topic") and not is_bytes(kind):
        raise wrong(name, kind, "string, or binary with UTF-8 text")
    if name == "headers" and not (is_text(kind) or isinstance(kind, T.MapType) or _is_pairs(kind)):
        raise wrong(name, kind, TEXTS)
    if name in ("partition", "shard") and not isinstance(kind, T.IntegralType):
        raise wrong(name, kind, "an integer")


def wrong(column: str, kind: T.DataType, wanted: str) -> TypeError:
    """The error for a column of a type that cannot be written."""
    return TypeError(f"column {column} is {kind.simpleString()}; it must be {wanted}")


def is_text(kind: T.DataType) -> bool:
    """Whether a column has texts."""
    return isinstance(kind, (T.StringType, T.CharType, T.VarcharType))


def is_bytes(kind: T.DataType) -> bool:
    """Whether a column has bytes, or texts."""
    return is_text(kind) or isinstance(kind, T.BinaryType)


def _is_pairs(kind: T.DataType) -> bool:
    """Whether headers come as Kafka's source has them."""
    return (
        isinstance(kind, T.ArrayType)
        and isinstance(kind.elementType, T.StructType)
        and [name.lower() for name in kind.elementType.fieldNames()] == ["key", "value"]
    )
