"""One of the places in which a worker does jobs, one after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import psycopg

from pgq._async import AsyncClient
from pgq._runtime._tasks import Running
from pgq.errors import LeaseLost
from pgq.messages import Job
from pgq.worker._async._execution import Execution
from pgq.worker._async._supervisor import Supervisor
from pgq.worker._claims import Claim
from pgq.worker._handlers import Handler
from pgq.worker._reports import logger

__all__ = ["Slot"]


class Slot(Execution):
    """Claims jobs, calls their handler, and finishes them with the next claim."""

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__(supervisor)
        self.running: Running | None = None

    async def run(self) -> None:
        """Work until the worker stops."""
        done: Claim | None = None
        while True:
            if self._supervisor.state.stopping:
                if done is not None:
                    await self.settle(done)
                return
            if self._supervisor.lacking is not None:
                if done is not None:
                    await self.settle(done)
                    done = None
                await self._supervisor.wait_for_rights(self._wakeup)
                continue
            handler = self._next(done)
            if handler is None:
                if self._supervisor.once and self._supervisor.exhausted():
                    self._supervisor.state.stopping = True
                    self._supervisor.wake_all()
                    continue
                await self._supervisor.wait_for_work(self._wakeup)
                continue
            claim = await self._exchange(done, handler)
            if claim is None:
                done = None
                continue
            self._supervisor.working.add(self)
            done = await self.work(claim)
            if self._supervisor.once:
                self._supervisor.schedule.wake()  # its handler may have enqueued something
            self._supervisor.working.discard(self)

    def _next(self, done: Claim | None) -> Handler | None:
        """Whose jobs to claim now. Whoever finishes something claims in the same transaction."""
        name = self._supervisor.schedule.next(time.monotonic())
        if name is None and done is not None:
            name = done.handler.queue
            self._supervisor.schedule.begin(name)
        return None if name is None else self._supervisor.handlers[name]

    async def _exchange(self, done: Claim | None, handler: Handler) -> Claim | None:
        """Finish what is done and claim the next jobs."""
        schedule = self._supervisor.schedule
        before = time.monotonic()
        jobs: Sequence[Job]
        job_ids = done.take_done() if done is not None else []
        try:
            if done is not None:
                token = done.token
                jobs = await self._supervisor.ask(
                    lambda client: client.finish_and_claim(
                        handler.queue,
                        job_ids=job_ids,
                        lease_token=token,
                        max_jobs=handler.size,
                        lease=handler.lease,
                        label=handler.label,
                        prefetch=handler.prefetch,
                    )
                )
            else:
                jobs = await self._supervisor.ask(lambda client: _claim(client, handler))
        except Exception as error:
            now = time.monotonic()
            if done is not None:
                # Nobody knows whether it has committed: acking again tells.
                done.done = job_ids
            if isinstance(error, LeaseLost):
                schedule.looked(handler.queue, now, found=True)
            elif isinstance(error, psycopg.OperationalError):
                schedule.looked(handler.queue, now, found=False, due_in=0.0)
                await self._supervisor.pause(self._wakeup, error)
            else:
                schedule.failed(handler.queue, now)
                logger.exception("could not claim from %s", handler.queue)
            if done is not None:
                await self.settle(done)
            return None
        except BaseException:
            schedule.looked(handler.queue, time.monotonic(), found=False)
            raise
        self._supervisor.state.reached()
        if done is not None:
            self._supervisor.claims.remove(done)
        more = len(jobs) == handler.size or (bool(jobs) and jobs[-1].cut_short)
        if not jobs:
            await self._rest(handler.queue)
            return None
        schedule.looked(handler.queue, time.monotonic(), found=True, more=more)
        claim = Claim(handler, jobs, before, self)
        self._supervisor.claims.add(claim)
        self._supervisor.begun()
        # another one looks for more, or waits in the place of this one
        self._supervisor.wake()
        return claim

    async def _rest(self, queue: str) -> None:
        """Nothing was found: ask how long to leave the queue alone."""
        due_in: float | None = None
        try:
            due_in = await self._supervisor.due_in(queue)
        finally:
            self._supervisor.schedule.looked(queue, time.monotonic(), found=False, due_in=due_in)

    def interrupt(self, claim: Claim) -> None:
        """Stop the handler, where that can be done."""
        if self.running is not None and claim.running:
            self.running.interrupt()


async def _claim(client: AsyncClient, handler: Handler) -> Sequence[Job]:
    arguments: dict[str, Any] = {
        "max_jobs": handler.size,
        "lease": handler.lease,
        "label": handler.label,
        "prefetch": handler.prefetch,
    }
    if handler.flush_claims:
        return await client.claim_job(handler.queue, **arguments)
    async with client.connection.transaction():
        await client.connection.execute("set local synchronous_commit = off")
        jobs = await client.claim_job(handler.queue, **arguments)
        if any(job.max_attempts == 1 for job in jobs):
            # a crash must not forget that its attempt was used
            await client.connection.execute("set local synchronous_commit to default")
        return jobs
