"""How each method of the client reaches the database."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import args_row, scalar_row

from pgq._calls import call, view
from pgq.errors import translated

__all__ = ["Calling"]

T = TypeVar("T")


class Calling:
    """The caller's connection, and the calls on it."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection

    @property
    def connection(self) -> AsyncConnection[Any]:
        """The caller's connection."""
        return self._connection

    # Results come in binary: the text form of times depends on settings of the session. The cursor
    # is psycopg's plain one, whatever the connection's own: not all of them can do that.

    async def _rows(self, returns: type[T], function: str, /, **arguments: Any) -> list[T]:
        statement, values = call(function, arguments, returns)
        async with AsyncCursor(self._connection, row_factory=args_row(returns)) as cursor:
            with translated():
                await cursor.execute(statement, values, binary=True)
                return await cursor.fetchall()

    async def _row_or_none(self, returns: type[T], function: str, /, **arguments: Any) -> T | None:
        rows = await self._rows(returns, function, **arguments)
        return rows[0] if rows else None

    async def _row(self, returns: type[T], function: str, /, **arguments: Any) -> T:
        return (await self._rows(returns, function, **arguments))[0]

    async def _column(self, column: str, function: str, /, **arguments: Any) -> list[Any]:
        return await self._scalars(*call(function, arguments, column))

    async def _value(self, returns: type[T], function: str, /, **arguments: Any) -> T:
        (value,) = await self._scalars(*call(function, arguments, None))
        return cast("T", value)

    async def _scalars(self, statement: bytes, values: list[Any]) -> list[Any]:
        async with AsyncCursor(self._connection, row_factory=scalar_row) as cursor:
            with translated():
                await cursor.execute(statement, values, binary=True)
                return await cursor.fetchall()

    async def _view(self, returns: type[T], name: str, /, **conditions: str | None) -> list[T]:
        statement, values = view(name, returns, conditions)
        async with AsyncCursor(self._connection, row_factory=args_row(returns)) as cursor:
            await cursor.execute(statement, values, binary=True)
            return await cursor.fetchall()
