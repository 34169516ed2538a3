"""Which rights the role of a connection lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection
from psycopg.errors import InsufficientPrivilege
from psycopg.rows import tuple_row

from pgq._runtime._rights import LACKING, Lacking

__all__ = ["explained", "lacking"]


async def lacking(connection: AsyncConnection[Any], names: Sequence[str]) -> Lacking:
    """Which of these functions it may not call; nothing where there is no pgq."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(LACKING, [[*names]])
        found = await cursor.fetchone()
    return Lacking() if found is None else Lacking(*found)


async def explained(
    connection: AsyncConnection[Any], error: Exception, names: Sequence[str]
) -> str:
    """What an error says; for a missing right to one of these functions, with the grant."""
    if isinstance(error, InsufficientPrivilege):
        grant = (await lacking(connection, names)).grant(names)
        if grant:
            return f"{error.diag.message_primary or error}; HINT: {grant}"
    return str(error).strip()
