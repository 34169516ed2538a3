"""The consumer: it handles the messages of topics for a consumer group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import psycopg

from pgq._async import AsyncClient
from pgq._runtime._async._pool import Pool, connect
from pgq._runtime._async._rights import lacking
from pgq._runtime._async._runner import Runner
from pgq.consumer._async._member import Member
from pgq.consumer._async._supervisor import Members
from pgq.consumer._handlers import TopicHandlers
from pgq.consumer._reports import MessageReports, logger
from pgq.errors import UnknownGroup
from pgq.worker.hooks import Hook

__all__ = ["AsyncConsumer"]

F = TypeVar("F", bound=Callable[..., Any])


class AsyncConsumer(Runner):
    """Handles the messages of topics for a consumer group, until it is stopped.

    Its members share the partitions with all others of the group, in this process and elsewhere:
    each leases one after the other. concurrency: so many handlers are called at a time (8), each
    for another partition. The other arguments are those of a worker.
    """

    what = "consumer"

    def __init__(
        self,
        consumer_group: str,
        *,
        conninfo: str = "",
        concurrency: int = 8,
        connections: int | None = None,
        poll: timedelta | float | None = None,
        grace: timedelta | float | None = None,
        heartbeat: timedelta | float | None = 10.0,
        timeout: timedelta | float | None = None,
        hooks: Sequence[Hook] = (),
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            conninfo,
            concurrency=concurrency,
            connections=connections,
            poll=poll,
            grace=grace,
            heartbeat=heartbeat,
            timeout=timeout,
            connect=connect,
            logger=logger,
        )
        self._group = consumer_group
        self._handlers = TopicHandlers()
        self._reports = MessageReports(hooks)

    def handler(self, topic: str, **settings: Any) -> Callable[[F], F]:
        """Let the decorated function have the messages of a topic: see `TopicHandlers.handler`."""
        return self._handlers.handler(topic, **settings)

    async def _begin(self) -> Members:
        chosen = self._handlers.by_topic
        if not chosen:
            raise ValueError("there is no handler")
        pool = Pool(self._conninfo, self._options, "pgq consumer", self._connections)
        supervisor = Members(self._group, chosen, pool, self._reports, self._poll, self._timeout)
        connection = await connect(self._conninfo, self._options, "pgq consumer")
        try:
            client = AsyncClient(connection)
            role = (await lacking(connection, ())).role
            supervisor.learn(await client.admin.list_topics(), required_for=role)
            known = {(one.topic, one.consumer_group) for one in await client.admin.list_groups()}
        finally:
            await connection.close()
        for topic in chosen:
            if (topic, self._group) not in known:
                raise UnknownGroup(f'topic "{topic}" has no consumer group "{self._group}"')
        return supervisor

    def _new_slot(self, supervisor: Members) -> Member:
        return Member(supervisor)

    def _details(self, supervisor: Members) -> dict[str, Any]:
        return {"consumer_group": self._group, **super()._details(supervisor)}

    async def _give_back(self, supervisor: Members) -> None:
        left = supervisor.claims.all()
        if not left:
            return
        try:
            connection = await connect(self._conninfo, self._options, "pgq consumer: stop")
            try:
                client = AsyncClient(connection)
                for lease in left:
                    lease.lost = True  # whatever its handler still does, nothing is committed
                    message = lease.messages[0]
                    await client.release_poll(
                        lease.handler.topic,
                        supervisor.group,
                        message.partition,
                        message.lease_token,
                    )
            finally:
                await connection.close()
        except psycopg.Error as error:
            logger.error("could not release partitions, their leases will run out: %s", error)
