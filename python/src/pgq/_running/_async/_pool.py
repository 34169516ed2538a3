"""A few connections for many slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from psycopg import AsyncConnection, AsyncCursor, OperationalError
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, scalar_row, tuple_row

from pgq._async import AsyncClient
from pgq._json import read_json_quickly, read_what_can_be_read
from pgq._running._tasks import Semaphore
from pgq.errors import translated

__all__ = ["Borrowing", "Pool", "connect", "is_pooled"]

C = TypeVar("C")


_DEFAULTS = {"connect_timeout": 10, "tcp_user_timeout": 30000}
"""So that a server that does not answer any more is noticed."""

_STANDBY = (
    "the server is a standby, which can only be read: connect to the primary, or give all hosts"
    " and target_session_attrs=read-write"
)


async def connect(conninfo: str, options: Mapping[str, Any], name: str) -> AsyncConnection[Any]:
    """Open a connection in autocommit, whose name in pg_stat_activity is `name`.

    Through a pooler nothing is prepared, unless the options say so: what one session has prepared,
    another one does not know, or knows as something else. A standby is refused: after a
    promotion, or once the name leads to another server, the next attempt finds the primary.
    """
    given = {"fallback_application_name": name, **_DEFAULTS, **conninfo_to_dict(conninfo)}
    connection = await AsyncConnection.connect(autocommit=True, **{**given, **options})
    try:
        if connection.info.parameter_status("in_hot_standby") == "on":
            raise OperationalError(_STANDBY)
        if "prepare_threshold" not in options and await is_pooled(connection):
            connection.prepare_threshold = None
        read_what_can_be_read(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


async def is_pooled(connection: AsyncConnection[Any]) -> bool:
    """Whether there is a pooler between, which does not tell the process that serves."""
    async with connection.cursor(row_factory=scalar_row) as cursor:
        await cursor.execute("select pg_backend_pid()")
        return await cursor.fetchone() != connection.info.backend_pid


class Keeping(AsyncClient):
    """A client that keeps its cursor, which knows from the last call how to write and read values.

    That takes a third off a call for one job. The connection is the pool's own: nobody changes how
    it reads.
    """

    _cursor: AsyncCursor[TupleRow] | None = None

    async def _fetch(self, statement: bytes, values: list[Any]) -> list[TupleRow]:
        cursor, self._cursor = self._cursor, None
        if cursor is None:
            cursor = AsyncCursor(self._connection, row_factory=tuple_row)
            read_json_quickly(cursor)
        with translated():
            await cursor.execute(statement, values, binary=True)
            rows = await cursor.fetchall()
        if len(rows) <= 1:  # it keeps the result as well
            self._cursor = cursor
        return rows


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
            while (client := self._idle()) is not None:
                if not client.connection.closed:
                    return client
            return Keeping(await connect(self._conninfo, self._options, self._name))
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
        while (client := self._idle()) is not None:
            await client.connection.close()

    def _idle(self) -> AsyncClient | None:
        try:  # to look first whether there is one would let another thread take it in between
            return self._free.pop()
        except IndexError:
            return None


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
