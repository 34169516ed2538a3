"""A few connections for many slots."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from psycopg import AsyncConnection, AsyncCursor, OperationalError
from psycopg.errors import ReadOnlySqlTransaction
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, scalar_row, tuple_row

from pgq._async import AsyncClient
from pgq._conninfo import check_encoding, connecting, parsed
from pgq._encoding import DEFAULT, Encoding
from pgq._json import read_json_quickly
from pgq._runtime._tasks import Semaphore

__all__ = ["Borrowing", "Pool", "connect", "is_pooled"]

T = TypeVar("T")


_DEFAULTS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 30000,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
"""So that a server that does not answer any more is noticed, on an idle connection as well."""

_STANDBY = (
    "the server is a standby, which can only be read: connect to the primary, or give all hosts"
    " and target_session_attrs=read-write"
)
_READ_ONLY = "the database is read-only for now (default_transaction_read_only)"


_LOOK = """
    select pg_backend_pid(), current_setting('transaction_read_only')::boolean, pg_is_in_recovery()
"""


async def connect(conninfo: str, options: Mapping[str, Any], name: str) -> AsyncConnection[Any]:
    """Open a connection in autocommit, whose name in pg_stat_activity is `name`.

    Through a pooler nothing is prepared, unless the options say so: what one session has prepared,
    another one does not know, or knows as something else. A standby is refused: after a
    promotion, or once the name leads to another server, the next attempt finds the primary. So is
    a database that is read-only for a while: a session keeps that setting when it has gone.
    """
    given = {"fallback_application_name": name, **_DEFAULTS, **parsed(conninfo)}
    with connecting(conninfo, options):
        connection = await AsyncConnection.connect(autocommit=True, **{**given, **options})
    try:
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_LOOK)
            [(pid, read_only, standby)] = await cursor.fetchall()
        if read_only:
            raise OperationalError(_STANDBY if standby else _READ_ONLY)
        if "prepare_threshold" not in options and pid != connection.info.backend_pid:
            connection.prepare_threshold = None
        # JSON comes in the encoding of the client, and content in it that this one lacks not at all
        if connection.info.parameter_status("server_encoding") == "SQL_ASCII":
            check_encoding(connection)
        elif connection.info.encoding != "utf-8":
            await connection.execute("set client_encoding to 'UTF8'")
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

    async def _fetch(
        self, statement: bytes, values: list[Any], arguments: Mapping[str, Any]
    ) -> list[TupleRow]:
        cursor, self._cursor = self._cursor, None
        if cursor is None:
            cursor = AsyncCursor(self._connection, row_factory=tuple_row)
            read_json_quickly(cursor)
        rows = await self._answer(cursor, statement, values, arguments)
        if len(rows) <= 1:  # it keeps the result as well
            self._cursor = cursor
        return rows


class Pool:
    """Connections that are made when they are needed; the one used last is taken first."""

    def __init__(
        self,
        conninfo: str,
        options: Mapping[str, Any],
        name: str,
        size: int,
        encoding: Encoding = DEFAULT,
    ) -> None:
        self._conninfo = conninfo
        self._options = options
        self._name = name
        self._permits = Semaphore(size)
        self.encoding = encoding
        self._free: list[AsyncClient] = []

    async def take(self) -> AsyncClient:
        """Take a connection; give it back by `give`."""
        await self._permits.acquire()
        try:
            while (client := self._idle()) is not None:
                if not client.connection.closed:
                    return client
            connection = await connect(self._conninfo, self._options, self._name)
            return Keeping(connection, encoder=self.encoding.encoder)
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

    async def ask(self, call: Callable[[AsyncClient], Awaitable[T]]) -> T:
        """Call with a connection. One that refuses to write is lost: another one may not refuse."""
        client = await self.take()
        try:
            return await call(client)
        except ReadOnlySqlTransaction as error:
            await client.connection.close()
            raise OperationalError(_READ_ONLY) from error
        finally:
            await self.give(client)

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
        return await self._pool.ask(lambda client: client.retry(function, **options))

    def _require_idle(self, what: str) -> None:
        """Each of its transactions begins on a connection that is idle."""
