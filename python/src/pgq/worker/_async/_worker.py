"""The worker: it does the jobs of queues until it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import psycopg
from psycopg.errors import InsufficientPrivilege

from pgq._async import AsyncClient
from pgq._encoding import Encoder, Encoding, encode
from pgq._runtime._async._housekeeping import Housekeeping
from pgq._runtime._async._pool import Pool, connect
from pgq._runtime._async._rights import lacking
from pgq._runtime._async._runner import Runner
from pgq._runtime._rights import HOUSEKEEPING
from pgq.errors import AlreadyExists
from pgq.worker._async._slot import Slot
from pgq.worker._async._supervisor import Supervisor
from pgq.worker._claims import STOPPED
from pgq.worker._grants import KNOWN, refusal
from pgq.worker._handlers import Handlers
from pgq.worker._reports import Reports, logger
from pgq.worker.hooks import Hook

__all__ = ["AsyncWorker"]

F = TypeVar("F", bound=Callable[..., Any])
_NAMED = 200
"""Jobs that a heartbeat names, at most."""


class AsyncWorker(Runner):
    """Does the jobs of queues by calling handlers, until it is stopped.

    conninfo: where the database is, by default where libpq's own settings say; `connect` has
    further options of psycopg's connect. handlers: a `Handlers`; `handler` adds more. queues: only
    these of them.

    concurrency: so many handlers are called at a time (8). connections: so many connections do the
    claiming and finishing, one for each slot but 8 at most; one more keeps the leases and hears
    notices. poll: the longest wait between two looks at a queue in which nothing was, by default 5
    s for a queue with `notify`, which is looked at as soon as something comes or is due, and 1 s
    for another one. An idle worker with a long one (up to 10 min) leaves the database alone.

    grace: when it is told to stop, it waits so long for the handlers that run (for ever), then
    gives their jobs back. heartbeat: so often it tells that it is alive, for `list_workers` (10 s);
    None: never. timeout: of handlers that have none of their own (for ever). hooks: see
    `pgq.worker.hooks`. housekeeping: on one more connection it calls `cleanup` every minute, and
    `run_schedules` when a tick is due; with a `poll` that is longer, every 2 minutes at most.
    encoder: makes JSON of results and progress, as that of a client does.
    """

    what = "worker"

    def __init__(
        self,
        conninfo: str = "",
        handlers: Handlers | None = None,
        *,
        concurrency: int = 8,
        connections: int | None = None,
        poll: timedelta | float | None = None,
        grace: timedelta | float | None = None,
        heartbeat: timedelta | float | None = 10.0,
        timeout: timedelta | float | None = None,
        queues: Iterable[str] | None = None,
        hooks: Sequence[Hook] = (),
        housekeeping: bool = False,
        connect: Mapping[str, Any] | None = None,
        encoder: Encoder = encode,
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
        self._handlers = Handlers()
        self._handlers.by_queue.update(handlers.by_queue if handlers is not None else {})
        self._queues = None if queues is None else [*queues]
        self._reports = Reports(hooks)
        self._housekeeping = housekeeping
        self._encoding = Encoding(encoder)

    def handler(self, queue: str, **settings: Any) -> Callable[[F], F]:
        """Let the decorated function do the jobs of a queue: see `Handlers.handler`."""
        return self._handlers.handler(queue, **settings)

    async def _begin(self) -> Supervisor:
        chosen = self._handlers.by_queue
        if self._queues is not None:
            missing = [queue for queue in self._queues if queue not in chosen]
            if missing:
                raise ValueError(f"there is no handler for {', '.join(missing)}")
            chosen = {queue: chosen[queue] for queue in self._queues}
        if not chosen:
            raise ValueError("there is no handler")
        pool = Pool(self._conninfo, self._options, "pgq worker", self._connections, self._encoding)
        supervisor = Supervisor(
            chosen, pool, self._reports, self._poll, self._timeout, self._heartbeat
        )
        connection = await connect(self._conninfo, self._options, "pgq worker")
        try:
            admin = AsyncClient(connection).admin
            lacks = await lacking(connection, KNOWN)
            may_list = not lacks.grant(["list_queues"])
            queues = await admin.list_queues() if may_list else []
            known = {one.queue for one in queues}
            new = chosen.keys() - known if self.create else set()
            results = (
                not may_list  # nobody knows
                or any(one.keep_results for one in queues if one.queue in chosen)
                or any(chosen[name].settings.get("keep_results") for name in new)
            )
            beside = [*(["create_queue"] if new else ()), *(HOUSEKEEPING * self._housekeeping)]
            why = refusal(lacks, results, beside)
            if why is not None:  # handlers would run, and their jobs could not be finished
                raise InsufficientPrivilege(why)
            if self.create:
                queues += await self._created(admin, chosen, known)
            supervisor.learn(queues, required_for=lacks.role, waits=self.waits)
        finally:
            await connection.close()
        return supervisor

    async def _created(
        self, admin: Any, chosen: Mapping[str, Any], known: Collection[str]
    ) -> list[Any]:
        """The queues, made where they are not there; a warning where one is another."""
        made = []
        for name, one in chosen.items():
            try:
                made.append(await admin.create_queue(name, **one.settings))
            except AlreadyExists as error:
                if not self.waits:
                    raise
                facts = error.diag.message_primary, error.detail, error.hint
                logger.warning("%s, and stays as it is: %s HINT: %s", *facts)
            except InsufficientPrivilege:
                if name not in known:  # one that is there cannot be compared
                    raise
        return made

    def _new_slot(self, supervisor: Supervisor) -> Slot:
        return Slot(supervisor)

    def _details(self, supervisor: Supervisor) -> dict[str, Any]:
        held = sorted(
            job_id for claim in supervisor.claims.all() for job_id in claim.open - claim.lost
        )
        # pgq does not store who has a job: this is how the page of pgq ui knows
        return {**super()._details(supervisor), **({"jobs": held[:_NAMED]} if held else {})}

    def _beside(self, supervisor: Supervisor) -> Sequence[Housekeeping]:
        if not self._housekeeping:
            return []
        name, wakeup = "pgq worker: housekeeping", supervisor.new_wakeup()
        return [
            Housekeeping(
                self._conninfo, self._options, name, supervisor.state, wakeup, logger, self._poll
            )
        ]

    async def _give_back(self, supervisor: Supervisor) -> None:
        left = supervisor.claims.all()
        if not left:
            return
        self.hurried = True
        try:
            connection = await connect(self._conninfo, self._options, "pgq worker: stop")
            try:
                client = AsyncClient(connection)
                for claim in left:
                    tried, unused = claim.to_give_back()
                    claim.lost |= claim.open  # whatever its handler still does, nothing is written
                    if tried:
                        await client.nack_batch(
                            tried,
                            claim.token,
                            error=STOPPED,
                            worker=supervisor.name,
                            began_at=claim.began_at,
                        )
                    if unused:
                        await client.release_job_batch(unused, claim.token)
                    await client.ack_batch(claim.take_done(), claim.token)
            finally:
                await connection.close()
        except psycopg.Error as error:
            logger.error("could not give jobs back, their leases will run out: %s", error)
