"""The time by which pgq counts, moved for a test."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import scalar_row

from pgq._async import AsyncClient
from pgq._durations import duration

__all__ = ["client_of", "move_clock", "reset_clock"]


def client_of(target: AsyncClient | AsyncConnection[Any]) -> AsyncClient:
    """A client, or one on a connection."""
    return target if isinstance(target, AsyncClient) else AsyncClient(target)


async def move_clock(
    target: AsyncClient | AsyncConnection[Any], by: timedelta | float
) -> timedelta:
    """Move the time by which pgq counts ahead (a number is seconds), and return how far it is now.

    Delays, leases, backoffs, schedules and retention follow it; `now()` and the clock of Python do
    not. It replaces the function `pgq._clock`, which takes the role that has installed pgq, or a
    superuser. A rollback undoes it. Once committed it holds for all sessions, until `reset_clock`.

    Never call it where anything but tests uses the database. In one database, another transaction
    that moves the clock waits until this one ends.
    """
    client = client_of(target)
    async with AsyncCursor(client.connection, row_factory=scalar_row) as cursor:
        await cursor.execute(
            "select coalesce(substring(prosrc from '[*] (-?[0-9]+)')::bigint, 0)"
            " from pg_catalog.pg_proc where oid = 'pgq._clock()'::pg_catalog.regprocedure"
        )
        before = timedelta(microseconds=await cursor.fetchone() or 0)
    after = before + duration("by", by, numbers=True)
    micros = after // timedelta(microseconds=1)
    await _replace(client, f" + interval '1 microsecond' * {micros}" if micros else "")
    return after


async def reset_clock(target: AsyncClient | AsyncConnection[Any]) -> None:
    """Undo every `move_clock`: pgq counts by the clock of the server again."""
    await _replace(client_of(target), "")


async def _replace(client: AsyncClient, offset: str) -> None:
    statement = (
        "create or replace function pgq._clock() returns timestamptz language sql volatile"
        f" parallel safe as $$\nselect clock_timestamp(){offset}\n$$"
    )
    await client.connection.execute(statement.encode())
