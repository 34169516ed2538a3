"""Reading JSON from the database, without what `json.loads` does around its decoder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.pq import Format
from psycopg.types.json import JsonbBinaryLoader

__all__ = ["Unreadable", "read_json_quickly", "read_what_can_be_read"]

_JSONB = psycopg.adapters.types["jsonb"].oid
_decode = json.JSONDecoder().raw_decode


class _QuickLoader(JsonbBinaryLoader):
    """Psycopg's loader of jsonb, which takes twice as long for a short value."""

    def load(self, data: Buffer) -> Any:
        if self.loads is not json.loads:
            return super().load(data)
        # The first byte is the version of the format, the rest one value in UTF-8, without blanks.
        return _decode(str(data[1:], "utf-8"))[0]


def read_json_quickly(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> None:
    """Let a cursor use that loader, unless its connection was given one (`set_json_loads`)."""
    if cursor.adapters.get_loader(_JSONB, Format.BINARY) is JsonbBinaryLoader:
        cursor.adapters.register_loader(_JSONB, _QuickLoader)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A JSON value that the database has and Python cannot: too many digits, or too deep."""

    error: str


def read_what_can_be_read(
    connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any],
) -> None:
    """Let a connection have `Unreadable` values rather than errors, which the other rows share."""
    usual: Any = connection.adapters.get_loader(_JSONB, Format.BINARY)
    base = _QuickLoader if usual is JsonbBinaryLoader else usual

    class _CarefulLoader(base):  # type: ignore[misc, valid-type]
        def load(self, data: Buffer) -> Any:
            try:
                return super().load(data)
            except Exception as error:
                return Unreadable(f"{type(error).__name__}: {error}")

    connection.adapters.register_loader(_JSONB, _CarefulLoader)
