"""How long until something is due, by the clock of the database."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncCursor
from psycopg.rows import scalar_row

from pgq._async import AsyncClient

__all__ = ["seconds_until"]


async def seconds_until(client: AsyncClient, due_at: str, arguments: list[Any]) -> float | None:
    """Seconds until a time that an expression of SQL says; None: never.

    The clocks of the database and of this machine may differ: a difference of the former's counts.
    """
    statement = f"select extract(epoch from {due_at} - pgq._clock())::double precision"
    async with AsyncCursor(client.connection, row_factory=scalar_row) as cursor:
        await cursor.execute(statement.encode(), arguments)
        left = await cursor.fetchone()
    return None if left is None else float(left)
