"""The asynchronous client. The synchronous one is generated from this folder: edit this one."""

from __future__ import annotations

from types import TracebackType
from typing import Any, TypeVar

from psycopg import AsyncConnection

from pgq._async._consuming import Consuming
from pgq._async._effects import Effects
from pgq._async._heartbeats import Heartbeats
from pgq._async._publishing import Publishing
from pgq._async._results import Results
from pgq._async._working import Working
from pgq._conninfo import check_encoding, connecting, parsed
from pgq._encoding import Encoder, Encoding, encode
from pgq._open_work import warn_if_open, watch

__all__ = ["AsyncClient", "connect_async"]

C = TypeVar("C", bound="AsyncClient")


class AsyncClient(Publishing, Consuming, Working, Results, Effects, Heartbeats):
    """pgq's functions as methods, on a connection that stays the caller's.

    `pgq.connect_async` makes one with a connection of its own.

    A program's daily calls are methods of the client; the others are in its groups `admin`,
    `schedules`, `jobs`, `monitor` and `bulk`: ``client.admin.create_topic("orders")``.

    Every method is one call of the function of the same name, with the same arguments: it opens no
    transaction and commits nothing, so what it does is part of the caller's transaction, or
    commits at once on a connection in autocommit mode. The exceptions are `retry`, `wait`,
    `run_once` and `await_result`, which run transactions of their own and say so.

    An optional argument that is None, or not given, takes the default of the SQL function, which
    for a job's lease or delay is the queue's own setting. A limit is lifted by its name:
    ``client.admin.create_topic("readings", no_limit=["retention"])`` keeps messages for ever.

    Durations are timedeltas; for a lease, a delay, a backoff or a timeout a number is seconds.
    Times are timezone-aware datetimes.

    Payloads, headers and results are JSON values, and what the `encoder` makes of others:
    `pgq.encode` by default, which knows dataclasses and times. To send JSON's own null, pass
    ``psycopg.types.json.Jsonb(None)``. A body is raw bytes, and stands in the place of the payload.

    The client needs no prepared statements: a connection with ``prepare_threshold=None`` behind a
    transaction pool works.

    All methods raise `pgq.errors` and psycopg's own exceptions: InvalidParameterValue (22023) for
    an argument that makes no sense, NullValueNotAllowed (22004) for a null that is not allowed,
    InsufficientPrivilege (42501) without the permission, and UnknownTopic, UnknownQueue,
    UnknownGroup, UnknownPartition, UnknownSchedule or UnknownSubscription for a name or number that
    does not exist. An enqueue raises QueueFull where the queue has as many jobs as it may have.
    """

    _owns_connection = False

    def __init__(self, connection: AsyncConnection[Any], *, encoder: Encoder = encode) -> None:
        if not isinstance(connection, AsyncConnection):
            raise TypeError(
                "AsyncClient takes a psycopg.AsyncConnection, not a"
                f" {type(connection).__name__}; pgq.connect_async(conninfo) makes both"
            )
        check_encoding(connection)
        super().__init__(connection, Encoding(encoder))
        watch(connection)

    async def __aenter__(self: C) -> C:
        self._require_own()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            await self._connection.close()
        else:
            await self.close()

    async def close(self) -> None:
        """Close the connection that `pgq.connect_async` has made.

        Without autocommit, a transaction that is open is rolled back, with a RuntimeWarning.
        """
        self._require_own()
        if not self._connection.closed:
            warn_if_open(self._connection.pgconn)
        await self._connection.close()

    def _require_own(self) -> None:
        if not self._owns_connection:
            raise TypeError("the connection of this client is yours: close that")

    async def version(self) -> str:
        """The version of pgq that is installed in the database."""
        return await self._value(str, "version")


async def connect_async(
    conninfo: str = "", *, encoder: Encoder = encode, **options: Any
) -> AsyncClient:
    """Connect, and return a client that closes its connection at the end of its block.

    The connection is in autocommit: what a call has done is committed when it returns. Other
    options are those of psycopg's connect; with ``autocommit=False`` call
    ``client.connection.commit()``.
    """
    if not isinstance(conninfo, str):
        raise TypeError(
            f"connect_async takes a connection string, not a {type(conninfo).__name__};"
            " AsyncClient(connection) uses a connection that is there"
        )
    parsed(conninfo)
    Encoding(encoder)  # one that is none is refused before there is a connection
    with connecting(conninfo, options):
        connection = await AsyncConnection.connect(conninfo, **{"autocommit": True, **options})
    try:
        client = AsyncClient(connection, encoder=encoder)
    except BaseException:
        await connection.close()
        raise
    client._owns_connection = True
    return client
