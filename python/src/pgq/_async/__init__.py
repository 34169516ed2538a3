"""The asynchronous client. The synchronous one is generated from this folder: edit this one."""

from __future__ import annotations

from pgq._async._consuming import Consuming
from pgq._async._effects import Effects
from pgq._async._heartbeats import Heartbeats
from pgq._async._publishing import Publishing
from pgq._async._results import Results
from pgq._async._working import Working

__all__ = ["AsyncClient"]


class AsyncClient(Publishing, Consuming, Working, Results, Effects, Heartbeats):
    """pgq's functions as methods, on a connection that stays the caller's.

    A program's daily calls are methods of the client; the others are in its groups `admin`,
    `schedules`, `jobs`, `monitor` and `bulk`: ``client.admin.create_topic("orders")``.

    Every method is one call of the function of the same name, with the same arguments: it opens no
    transaction and commits nothing, so what it does is part of the caller's transaction, or
    commits at once on a connection in autocommit mode. The exceptions are `retry`, `wait`,
    `run_once` and `await_result`, which run transactions of their own and say so.

    An optional argument that is None, or not given, takes the default of the SQL function, which
    for a job's lease or delay is the queue's own setting. A limit is lifted by its name:
    ``client.admin.create_topic("readings", no_limit=["retention"])`` keeps messages for ever.

    Durations are timedeltas, times are timezone-aware datetimes.

    Payloads, headers and results are JSON values. To send JSON's own null, pass
    ``psycopg.types.json.Jsonb(None)``. A body is raw bytes, and stands in the place of the payload.

    The client needs no prepared statements: a connection with ``prepare_threshold=None`` behind a
    transaction pool works.

    All methods raise `pgq.errors` and psycopg's own exceptions: InvalidParameterValue (22023) for
    an argument that makes no sense, NullValueNotAllowed (22004) for a null that is not allowed,
    InsufficientPrivilege (42501) without the permission, and UnknownTopic, UnknownQueue,
    UnknownGroup, UnknownPartition, UnknownSchedule or UnknownSubscription for a name or number that
    does not exist. An enqueue raises QueueFull where the queue has as many jobs as it may have.
    """

    async def version(self) -> str:
        """The version of pgq that is installed in the database."""
        return await self._value(str, "version")
