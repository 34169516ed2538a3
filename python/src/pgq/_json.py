"""Reading JSON from the database, without what `json.loads` does around its decoder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Transformer
from psycopg.pq import Format
from psycopg.rows import TupleRow
from psycopg.types.json import JsonbBinaryLoader

from pgq._unreadable import Unreadable

__all__ = ["read_json_quickly", "rows_with_unreadable"]

_JSONB = psycopg.adapters.types["jsonb"].oid
_decode = json.JSONDecoder().raw_decode
_SOURCE = ("topic", "partition", "log_offset", "queue", "job_id")

_Cursor = psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]


def _encoding(context: AdaptContext | None) -> str:
    """How the server writes texts to this connection; where it leaves that open, as UTF-8."""
    connection = None if context is None else context.connection
    if connection is None or connection.pgconn.parameter_status(b"client_encoding") == b"UTF8":
        return "utf-8"
    name = connection.info.encoding
    return "utf-8" if name == "ascii" else name


class _QuickLoader(JsonbBinaryLoader):
    """Psycopg's loader of jsonb, which takes twice as long for a short value."""

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self.encoding = _encoding(context)

    def load(self, data: Buffer) -> Any:
        if self.loads is not json.loads:
            return super().load(data)
        # The first byte is the version of the format, the rest one value, without blanks.
        return _decode(str(data[1:], self.encoding))[0]


def read_json_quickly(cursor: _Cursor) -> None:
    """Let a cursor use that loader, unless its connection was given one (`set_json_loads`)."""
    if cursor.adapters.get_loader(_JSONB, Format.BINARY) is JsonbBinaryLoader:
        cursor.adapters.register_loader(_JSONB, _QuickLoader)


def rows_with_unreadable(cursor: _Cursor, arguments: Mapping[str, Any]) -> list[TupleRow]:
    """The rows of a cursor that could not be fetched, each JSON that is to blame as `Unreadable`.

    An error that is of no JSON is raised again.
    """
    usual: Any = cursor.adapters.get_loader(_JSONB, Format.BINARY)
    encoding = _encoding(cursor)

    class Careful(usual):  # type: ignore[misc]
        def load(self, data: Buffer) -> Any:
            try:
                return super().load(data)
            except Exception as error:
                # a decoder of the user may raise anything
                return Unreadable(_said(error), str(data[1:], encoding, "backslashreplace"))

    cursor.adapters.register_loader(_JSONB, Careful)
    loading = Transformer(cursor)
    result = cursor.pgresult
    assert result is not None
    loading.set_pgresult(result)
    rows = loading.load_rows(0, result.ntuples, tuple)
    cursor.adapters.register_loader(_JSONB, usual)  # the cursor may be used again
    names = [column.name for column in cursor.description or ()]
    return [_named(row, names, arguments) for row in rows]


def _said(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def _named(row: TupleRow, names: list[str], arguments: Mapping[str, Any]) -> TupleRow:
    """The same row; what is unreadable in it says where it came from."""
    known = {**arguments, **dict(zip(names, row))}
    source: dict[str, Any] = {name: known.get(name) for name in _SOURCE}
    return tuple(
        replace(value, column=name, **source) if type(value) is Unreadable else value
        for name, value in zip(names, row)
    )
