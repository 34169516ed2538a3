"""Which rights the role of a connection lacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import tuple_row

from pgq._runtime._rights import LACKING, Lacking

__all__ = ["lacking"]


async def lacking(connection: AsyncConnection[Any], names: Iterable[str]) -> Lacking:
    """Which of these functions it may not call; nothing where there is no pgq."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(LACKING, [[*names]])
        found = await cursor.fetchone()
    return Lacking() if found is None else Lacking(*found)
