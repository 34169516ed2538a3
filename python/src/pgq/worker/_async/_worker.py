"""The worker: its slots, its heartbeats, and how it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import psycopg

from pgq._async import AsyncClient
from pgq._running._async._keeper import Keeper
from pgq._running._async._pool import Pool, connect
from pgq._running._tasks import Bell, accepts, signals, spawn
from pgq._running._times import seconds
from pgq.worker._async._crew import Crew
from pgq.worker._async._slot import Slot
from pgq.worker._handlers import Handlers
from pgq.worker._reports import Hook, Reports, logger

__all__ = ["AsyncWorker"]

F = TypeVar("F", bound=Callable[..., Any])


class AsyncWorker:
    """Does the jobs of queues by calling handlers, until it is stopped.

    conninfo: where the database is, by default where libpq's own settings say; `connect` has
    further options of psycopg's connect. handlers: a `Handlers`; `handler` adds more. queues: only
    these of them.

    concurrency: so many handlers are called at a time (8). connections: so many connections do the
    claiming and finishing, one for each slot but 8 at most; one more keeps the leases and hears
    notices. poll: the longest wait between two looks at a queue in which nothing was (1 s); a queue
    with `notify` is looked at as soon as something comes.

    grace: when it is told to stop, it waits so long for the handlers that run (for ever), then
    gives their jobs back. hooks: see `pgq.worker.hooks`.
    """

    def __init__(
        self,
        conninfo: str = "",
        handlers: Handlers | None = None,
        *,
        concurrency: int = 8,
        connections: int | None = None,
        poll: timedelta | float = 1.0,
        grace: timedelta | float | None = None,
        queues: Iterable[str] | None = None,
        hooks: Sequence[Hook] = (),
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}, must be at least 1")
        if connections is not None and connections < 1:
            raise ValueError(f"connections is {connections}, must be at least 1")
        self._conninfo = conninfo
        self._options = dict(connect or {})
        self._handlers = Handlers()
        self._handlers.by_queue.update(handlers.by_queue if handlers is not None else {})
        self._queues = None if queues is None else [*queues]
        self._concurrency = concurrency
        self._connections = connections or min(concurrency, 8)
        self._poll = seconds("poll", poll)
        self._grace = None if grace is None else seconds("grace", grace, zero=True)
        self._reports = Reports(hooks)
        self._crew: Crew | None = None
        self._stops = 0
        self._changed = Bell()
        self.hurried = False
        """Whether the last run gave back what its handlers had not ended."""

    def handler(self, queue: str, **settings: Any) -> Callable[[F], F]:
        """Let the decorated function do the jobs of a queue: see `Handlers.handler`."""
        return self._handlers.handler(queue, **settings)

    @property
    def running(self) -> bool:
        """Whether it works."""
        return self._crew is not None

    def stop(self) -> None:
        """Begin nothing new, and let `run` return when what runs has ended.

        Called once more: give back what runs, and return at once.
        """
        self._stops += 1
        if self._stops == 1:
            logger.info("stops when what runs has ended")
        self._changed.ring()
        if self._crew is not None:
            self._crew.state.stopping = True
            self._crew.wake_all()

    async def run(self) -> None:
        """Work until `stop`, SIGTERM or Ctrl-C; a second one of them gives back what runs.

        Signals are heard in the main thread only. Raises UnknownQueue when one of the queues is not
        there, and psycopg.OperationalError when the database cannot be reached at the begin.
        """
        crew = await self._begin()
        keeper = Keeper(crew, self._conninfo, self._options, "pgq worker: leases", logger)
        keeping = spawn(keeper.run, name="pgq-leases")
        slots = [Slot(crew) for _ in range(self._concurrency)]
        for number, slot in enumerate(slots):
            slot.running = spawn(self._run_slot, slot, name=f"pgq-slot-{number}")
        logger.info("works on %s", ", ".join(sorted(crew.handlers)))
        with signals(self.stop):
            try:
                await self._wait(crew, slots)
            except BaseException:  # a slot has failed, or this task was cancelled
                self._stops = 2
                raise
            finally:
                crew.state.stopping = True
                crew.wake_all()
                if self._stops > 1:
                    await self._give_back(crew, slots)
                keeper.stop()
                await keeping.join(5.0)
                await crew.pool.close()
                self._crew = None
                self._stops = 0
        for slot in slots:
            assert slot.running is not None
            await slot.running.join(0)
        logger.info("has stopped")

    async def _begin(self) -> Crew:
        chosen = self._handlers.by_queue
        if self._queues is not None:
            missing = [queue for queue in self._queues if queue not in chosen]
            if missing:
                raise ValueError(f"there is no handler for {', '.join(missing)}")
            chosen = {queue: chosen[queue] for queue in self._queues}
        if not chosen:
            raise ValueError("there is no handler")
        for handler in chosen.values():
            accepts(handler.function)
        if self._crew is not None:
            raise RuntimeError("this worker runs already")
        pool = Pool(self._conninfo, self._options, "pgq worker", self._connections)
        crew = Crew(chosen, pool, self._reports, self._poll)
        connection = await connect(self._conninfo, self._options, "pgq worker")
        try:
            crew.learn(await AsyncClient(connection).list_queues(), required=True)
        finally:
            await connection.close()
        self._crew = crew
        self.hurried = False
        crew.state.stopping = self._stops > 0
        return crew

    async def _run_slot(self, slot: Slot) -> None:
        try:
            await slot.run()
        finally:
            self._changed.ring()

    async def _wait(self, crew: Crew, slots: Sequence[Slot]) -> None:
        """Until all slots have ended, or whoever stops the worker loses patience."""
        patience: float | None = None
        while True:
            running = [slot for slot in slots if slot.running is not None]
            ended = [slot for slot in running if await slot.running.join(0)]  # type: ignore[union-attr]
            if len(ended) == len(slots):
                return
            if ended and not crew.state.stopping:
                raise RuntimeError("a slot has ended")
            if self._stops and patience is None and self._grace is not None:
                patience = time.monotonic() + self._grace
            left = None if patience is None else patience - time.monotonic()
            if self._stops > 1 or (left is not None and left <= 0):
                self._stops = max(self._stops, 2)
                return
            await self._changed.wait(left)

    async def _give_back(self, crew: Crew, slots: Sequence[Slot]) -> None:
        """Stop what runs, where that can be done, and give its jobs back."""
        crew.state.at_once = True
        self.hurried = any(claim.running for claim in crew.claims.all())
        crew.wake_all()
        for claim in crew.claims.all():
            if claim.running:
                claim.slot.interrupt(claim)  # type: ignore[attr-defined]
        end = time.monotonic() + 0.5
        for slot in slots:
            if slot.running is not None:
                await slot.running.join(max(end - time.monotonic(), 0))
        left = crew.claims.all()
        self.hurried = self.hurried or bool(left)
        if not left:
            return
        try:
            connection = await connect(self._conninfo, self._options, "pgq worker: stop")
            try:
                client = AsyncClient(connection)
                for claim in left:
                    job_ids = sorted(claim.open - claim.lost)
                    claim.lost |= claim.open  # whatever its handler still does, nothing is written
                    if claim.handler.max_attempts == 1:
                        text = "the worker was stopped"
                        await client.nack_batch(job_ids, claim.token, error=text)
                    else:
                        await client.release_job_batch(job_ids, claim.token)
                    await client.ack_batch(claim.take_done(), claim.token)
            finally:
                await connection.close()
        except psycopg.Error as error:
            logger.error("could not give jobs back, their leases will run out: %s", error)
