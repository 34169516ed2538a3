"""What the slots of a worker share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg

from pgq._async import AsyncClient
from pgq._running._async._pool import Pool
from pgq._running._schedule import Schedule
from pgq._running._tasks import Bell
from pgq.errors import UnknownQueue
from pgq.messages import Queue
from pgq.worker._claims import Claim, Claims, State
from pgq.worker._handlers import Handler
from pgq.worker._reports import Reports, logger

__all__ = ["Crew"]

T = TypeVar("T")


class Crew:
    """The handlers, the schedule, the claims, and the connections; what `Keeper` keeps."""

    def __init__(
        self, handlers: Mapping[str, Handler], pool: Pool, reports: Reports, poll: float
    ) -> None:
        self.handlers = handlers
        self.pool = pool
        self.reports = reports
        self.schedule = Schedule(handlers, poll)
        self.claims = Claims()
        self.state = State()
        self._idle: list[Bell] = []
        self._bells: list[Bell] = []

    # ------------------------------------------------------------------------ waiting

    def new_bell(self) -> Bell:
        """The bell of a slot."""
        bell = Bell()
        self._bells.append(bell)
        return bell

    async def rest(self, bell: Bell) -> None:
        """Wait until there may be something to do."""
        self._idle.append(bell)
        try:
            if not self.state.stopping:
                await bell.wait(self.schedule.pause(time.monotonic()))
        finally:
            if bell in self._idle:
                self._idle.remove(bell)

    async def pause(self, bell: Bell, error: BaseException) -> None:
        """Wait for a server that has failed."""
        wait = self.state.backoff.next()
        if not self.state.at_once:
            logger.warning("database unavailable, again in %.1f s: %s", wait, str(error).strip())
            await bell.wait(wait)

    def wake(self) -> None:
        """There may be something for one more slot."""
        with suppress(IndexError):
            self._idle.pop().ring()

    def wake_all(self) -> None:
        """Everybody looks what has changed."""
        for bell in self._bells:
            bell.ring()

    # ------------------------------------------------------------------------ asking

    async def tell(self, bell: Bell, what: str, call: Callable[[AsyncClient], Any]) -> Any:
        """Tell the database what became of a job, until it answers; None: in vain.

        Each of these calls may be repeated: a second one finds that the lease token is gone.
        """
        while True:
            try:
                client = await self.pool.take()
                try:
                    answer = await call(client)
                finally:
                    await self.pool.give(client)
            except psycopg.OperationalError as error:
                if self.state.gives_up():
                    logger.error("could not %s, the lease will run out: %s", what, error)
                    return None
                await self.pause(bell, error)
            except psycopg.Error:
                logger.exception("could not %s, the lease will run out", what)
                return None
            else:
                self.state.backoff.reset()
                return answer

    # ------------------------------------------------------------------------ keeping

    def tick(self) -> float:
        """Seconds between two looks at the leases."""
        return min(handler.lease_seconds for handler in self.handlers.values()) / 6

    async def refresh(self, client: AsyncClient) -> list[str]:
        """Read the settings of the queues again."""
        notify = self.learn(await client.list_queues(), required=False)
        return ["pgq_queue"] if notify else []

    def learn(self, queues: Sequence[Queue], *, required: bool) -> bool:
        """Take over the settings of the queues; returns whether one of them sends notices."""
        known = {queue.queue: queue for queue in queues}
        notify = False
        for name, handler in self.handlers.items():
            if name in known:
                try:
                    handler.learn(known[name])
                except ValueError as error:
                    if required:
                        raise
                    logger.error("%s; claims are flushed from now on", error)
                    handler.flush_claims = True
                notify = notify or known[name].notify
            elif required:
                raise UnknownQueue(f'queue "{name}" does not exist')
        return notify

    async def renew(self, client: AsyncClient, now: float) -> None:
        """Extend the leases that are due, and stop the handlers whose leases are gone."""
        for claim in self.claims.due(now):
            asked = ({*claim.open} | {*claim.done}) - claim.lost
            before = time.monotonic()
            extended = await client.extend_lease_batch(
                sorted(asked), claim.token, lease=claim.handler.lease
            )
            claim.renewed(before)
            self._lose(claim, asked - {*extended})

    def expire(self, now: float) -> None:
        """Stop the handlers whose leases have run out because nobody could extend them."""
        for claim in self.claims.expired(now):
            self._lose(claim, {*claim.open})

    def _lose(self, claim: Claim, job_ids: set[int]) -> None:
        if claim.lose(job_ids):
            claim.slot.interrupt(claim)  # type: ignore[attr-defined]

    def heard(self, channel: str, name: str) -> None:
        """A job was enqueued."""
        if channel == "pgq_queue" and self.schedule.ring(name):
            self.wake()

    def connected(self) -> None:
        """Look at all queues: what was enqueued meanwhile was not heard."""
        self.schedule.ring()
        self.wake()
