"""How each method of the client reaches the database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import starmap
from typing import Any, TypeVar, cast

from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import TupleRow, tuple_row
from psycopg.types.json import Json, Jsonb

from pgq._calls import call, storable, view
from pgq._encoding import Encoding
from pgq._json import read_json_quickly, rows_with_unreadable
from pgq.errors import translated

__all__ = ["Calling"]

T = TypeVar("T")


class Calling:
    """The caller's connection, and the calls on it."""

    def __init__(self, connection: AsyncConnection[Any], encoding: Encoding) -> None:
        self._connection = connection
        self._encoding = encoding

    @property
    def connection(self) -> AsyncConnection[Any]:
        """The caller's connection."""
        return self._connection

    async def _rows(self, returns: type[T], function: str, /, **arguments: Any) -> list[T]:
        return list(starmap(returns, await self._called(function, arguments, returns)))

    async def _row_or_none(self, returns: type[T], function: str, /, **arguments: Any) -> T | None:
        rows = await self._rows(returns, function, **arguments)
        return rows[0] if rows else None

    async def _row(self, returns: type[T], function: str, /, **arguments: Any) -> T:
        return (await self._rows(returns, function, **arguments))[0]

    async def _column(self, column: str, function: str, /, **arguments: Any) -> list[Any]:
        return [value for (value,) in await self._called(function, arguments, column)]

    async def _value(self, returns: type[T], function: str, /, **arguments: Any) -> T:
        ((value,),) = await self._called(function, arguments, None)
        return cast("T", value)

    async def _view(self, returns: type[T], name: str, /, **conditions: str | None) -> list[T]:
        return list(
            starmap(returns, await self._fetch(*view(name, returns, conditions), conditions))
        )

    async def _called(
        self, function: str, arguments: Mapping[str, Any], returns: type[Any] | str | None
    ) -> list[TupleRow]:
        statement, values = call(function, arguments, returns, self._encoding)
        return await self._fetch(statement, values, arguments)

    def _storable(self, value: Any) -> Any:
        """What is only to be read by people: with escapes where the database cannot have it."""
        if isinstance(value, (Json, Jsonb)):
            return value
        plain = json.loads(self._encoding.text("value", value))
        return storable(plain, self._connection.info)

    async def _fetch(
        self, statement: bytes, values: list[Any], arguments: Mapping[str, Any]
    ) -> list[TupleRow]:
        # Results come in binary: the text form of times depends on settings of the session. The
        # cursor is psycopg's plain one, whatever the connection's own: not all of them can do that.
        # Rows become objects at once, in C: what Python does for each of them is what a client of
        # many messages waits for.
        async with AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
            read_json_quickly(cursor)
            return await self._answer(cursor, statement, values, arguments)

    async def _answer(
        self,
        cursor: AsyncCursor[TupleRow],
        statement: bytes,
        values: list[Any],
        arguments: Mapping[str, Any],
    ) -> list[TupleRow]:
        with translated():
            await cursor.execute(statement, values, binary=True)
            try:
                return await cursor.fetchall()
            except Exception:
                # In autocommit the server has committed: an error here would lose all rows.
                return rows_with_unreadable(cursor, arguments)
