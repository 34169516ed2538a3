"""A few connections for many slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from pgq._async import AsyncClient
from pgq._running._tasks import Semaphore

__all__ = ["Borrowing", "Pool", "connect"]

C = TypeVar("C")


_DEFAULTS = {"connect_timeout": 10, "tcp_user_timeout": 30000}
"""So that a server that does not answer any more is noticed."""


async def connect(conninfo: str, options: Mapping[str, Any], name: str) -> AsyncConnection[Any]:
    """Open a connection in autocommit, whose name in pg_stat_activity is `name`."""
    given = {"fallback_application_name": name, **_DEFAULTS, **conninfo_to_dict(conninfo)}
    return await AsyncConnection.connect(autocommit=True, **{**given, **options})


class Pool:
    """Connections that are made when they are needed; the one used last is taken first."""

    def __init__(self, conninfo: str, options: Mapping[str, Any], name: str, size: int) -> None:
        self._conninfo = conninfo
        self._options = options
        self._name = name
        self._permits = Semaphore(size)
        self._free: list[AsyncClient] = []

    async def take(self) -> AsyncClient:
        """Take a connection; give it back by `give`."""
        await self._permits.acquire()
        try:
            while self._free:
                client = self._free.pop()
                if not client.connection.closed:
                    return client
            return AsyncClient(await connect(self._conninfo, self._options, self._name))
        except BaseException:
            self._permits.release()
            raise

    async def give(self, client: AsyncClient) -> None:
        """Give a connection back; one that is not usable any more is closed."""
        try:
            if client.connection.info.transaction_status == TransactionStatus.IDLE:
                self._free.append(client)
            else:
                # The others will hardly be better.
                await client.connection.close()
                await self.close()
        finally:
            self._permits.release()

    async def close(self) -> None:
        """Close the connections that nobody has."""
        while self._free:
            await self._free.pop().connection.close()


class Borrowing(AsyncClient):
    """A client whose transactions run on connections of a pool: for `run_once`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def retry(self, function: Callable[[Any], Any], **options: Any) -> Any:
        """As that of a client."""
        client = await self._pool.take()
        try:
            return await client.retry(function, **options)
        finally:
            await self._pool.give(client)

    def _require_idle(self, what: str) -> None:
        """Each of its transactions begins on a connection that is idle."""
