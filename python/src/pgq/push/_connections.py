"""A few connections to the database that all deliveries share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.json import set_json_loads

from pgq import AsyncClient
from pgq._conninfo import parsed
from pgq._runtime._async._pool import connect

__all__ = ["Connections"]

T = TypeVar("T")

# a server that vanishes without a word is noticed before leases have run out; the caller's own
# settings come first
_PATIENCE: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15000,
}


class Connections:
    """Runs short transactions; a connection that fails is closed, and the next call opens one."""

    def __init__(self, database: str, most: int = 4) -> None:
        self._database = make_conninfo(**{**_PATIENCE, **parsed(database)})
        self.one_by_one = asyncio.Lock()
        """For what may wait long for a lock: it takes one connection at a time, not all of them."""
        self._places = asyncio.Semaphore(most)
        self._idle: list[psycopg.AsyncConnection[Any]] = []

    async def run(self, function: Callable[[AsyncClient], Awaitable[T]]) -> T:
        """Run a function in a transaction, again where it failed because of others beside it."""
        async with self._places:
            connection = self._idle.pop() if self._idle else await self._open()
            try:
                return await AsyncClient(connection).retry(function)
            except psycopg.errors.ReadOnlySqlTransaction as error:
                # the session may keep that setting for ever, and so may the others
                await connection.close()
                await self.close()
                raise psycopg.OperationalError(str(error)) from error
            except psycopg.OperationalError:
                # of a server that went away all connections are gone
                if connection.closed:
                    await self.close()
                raise
            finally:
                if connection.info.transaction_status == TransactionStatus.IDLE:
                    self._idle.append(connection)
                else:
                    await connection.close()

    async def close(self) -> None:
        """Close what is not in use."""
        while self._idle:
            await self._idle.pop().close()

    async def _open(self) -> psycopg.AsyncConnection[Any]:
        # so that a pooler in transaction mode may stand between nothing is prepared
        connection = await connect(self._database, {"prepare_threshold": None}, "pgq push")
        # JSON stays the text that it is in the database
        set_json_loads(_as_it_is, connection)
        return connection


def _as_it_is(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
