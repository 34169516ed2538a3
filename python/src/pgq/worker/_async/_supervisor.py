"""What the slots of a worker share."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from psycopg.errors import ReadOnlySqlTransaction
from psycopg.types.json import Jsonb

from pgq._async import AsyncClient
from pgq._runtime._async._due import seconds_until
from pgq._runtime._async._pool import Pool
from pgq._runtime._async._rights import explained, lacking
from pgq._runtime._async._slots import Slots
from pgq._runtime._heartbeats import missing
from pgq._runtime._rights import unseen
from pgq._runtime._tasks import caller
from pgq._runtime._times import SAY_AGAIN, TRY_AGAIN
from pgq.errors import UnknownQueue
from pgq.messages import Job, Queue
from pgq.worker._async._job import RunningJob
from pgq.worker._claims import Claim, Claims
from pgq.worker._grants import EXECUTE, refusal
from pgq.worker._handlers import Handler
from pgq.worker._reports import Reports, logger
from pgq.worker._tasks import kind_of_job

__all__ = ["Supervisor"]


class Supervisor(Slots):
    """The handlers, the schedule, the claims, and the connections; what `Keeper` keeps."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        pool: Pool,
        reports: Reports,
        poll: float | None,
        timeout: float | None,
        heartbeat: float | None,
    ) -> None:
        super().__init__(handlers, pool, poll, logger)
        self.handlers = handlers
        self.calls = {
            one: caller(one.function, one.timeout or timeout, self.abandoned)
            for handler in handlers.values()
            for one in handler.each()
        }
        self._kinds = {one: kind_of_job(one.function, RunningJob) for one in self.calls}
        self.reports = reports
        self.claims = Claims()
        self.working: set[object] = set()
        """The slots that call a handler, up to where they look again."""
        self._heartbeat = heartbeat
        self._notify: set[str] = set()
        self._restricted: set[str] = set()
        self._role = ""
        self._missing_said: dict[str, float] = {}
        self._tells_progress = True
        """Whether the last progress was not refused for want of a right."""
        self._progress_at = 0.0

    def running_job(self, handler: Handler, job: Job, claim: Claim, content: Any) -> Job:
        """A job as its handler sees it, with the payload that the handler gets."""
        kind: type[RunningJob] = self._kinds[handler]
        running = kind(job, claim, self.pool)
        if job.body is None:
            running.payload = content
        return running

    def running(self) -> int:
        """How many jobs the handlers have at this moment."""
        return sum(len(claim.running) for claim in self.claims.all())

    # ------------------------------------------------------------------------ keeping

    def tick(self) -> float:
        """Seconds between two looks at the leases."""
        return min(handler.lease_seconds for handler in self.handlers.values()) / 6

    async def refresh(self, client: AsyncClient) -> list[str]:
        """Read the settings of the queues again."""
        notify = self.learn(await client.admin.list_queues())
        if not self.once:  # then `run` ends with it
            self._tell_missing(time.monotonic())
        return ["pgq_queue"] if notify else []

    def learn(
        self, queues: Sequence[Queue], *, required_for: str | None = None, waits: bool = False
    ) -> bool:
        """Take over the settings of the queues; returns whether one of them sends notices.

        required_for: the role that has to see all of them, unless it waits for those that it does
        not.
        """
        known = {queue.queue: queue for queue in queues}
        self._notify = {name for name in self.handlers if name in known and known[name].notify}
        self._restricted = {name for name in self._notify if known[name].restricted}
        for name, handler in self.handlers.items():
            if name in known:
                try:
                    handler.learn(known[name])
                except ValueError as error:
                    if required_for is not None:
                        raise
                    logger.error("%s; claims are flushed from now on", error)
                    handler.flush_claims = True
        self._role = required_for or self._role
        missing = {
            name: unseen("queue", name, self._role, ", or pgq work --create")
            for name in self.handlers
            if name not in known
        }
        if missing and required_for is not None and not waits:
            raise UnknownQueue(next(iter(missing.values())))
        come = self.missing.keys() - missing
        self.missing = missing
        self.schedule.leave_out(missing)
        if come:
            logger.info("works on %s", ", ".join(sorted(come)))
            self.wake_all()
        return bool(self._notify)

    def _tell_missing(self, now: float) -> None:
        """Log which queues are missing, at once and each minute."""
        said = self._missing_said
        self._missing_said = {name: said.get(name, -math.inf) for name in self.missing}
        for name, at in self._missing_said.items():
            if now >= at + SAY_AGAIN:
                logger.warning("waits: %s", self.missing[name])
                self._missing_said[name] = now

    async def _ask_due(self, client: AsyncClient, name: str) -> float | None:
        handler = self.handlers[name]
        return await seconds_until(
            client,
            "pgq.next_due(queue => %s::text, label => %s::text)",
            [handler.queue, handler.label],
        )

    async def _refusal(self, client: AsyncClient) -> str | None:
        results = any(one.keep_results for one in self.handlers.values())
        return refusal(await lacking(client.connection, EXECUTE), results)

    def idle(self) -> bool:
        """Whether there is no job in hand."""
        return not self.claims.all()

    def exhausted(self) -> bool:
        """Whether there is no job in hand, and none is due."""
        return self.idle() and not self.working and self.schedule.exhausted()

    def hears(self, channels: Collection[str]) -> None:
        """These channels are listened to."""
        self.hear(self._notify if "pgq_queue" in channels else ())

    async def renew(self, client: AsyncClient, now: float) -> None:
        """Extend the leases that are due, and stop the handlers whose leases are gone."""
        for claim in self.claims.due(now):
            asked = ({*claim.open} | {*claim.done}) - claim.lost
            before = time.monotonic()
            extended = await client.extend_lease_batch(
                sorted(asked),
                claim.token,
                lease=claim.handler.lease,
                begun=sorted(claim.running & asked),
            )
            claim.renewed(before)
            self._lose(claim, asked - {*extended})
        if now >= self._progress_at:
            longest = 2 * self.tick()
            self._progress_at = now + min(longest, self._heartbeat or longest)
            await self._tell_progress(client, until=time.monotonic() + self.tick())

    async def _tell_progress(self, client: AsyncClient, until: float) -> None:
        """Store what handlers have said, until then: the leases must not wait for it."""
        for claim in self.claims.all():
            for job_id in [*claim.progress]:
                if time.monotonic() >= until:
                    return
                text = claim.take_progress(job_id)
                if text is None:
                    continue
                progress = None if text == "null" else Jsonb(text, str)
                try:
                    held = await client.set_progress(job_id, claim.token, progress)
                except Exception as error:
                    if client.connection.closed or isinstance(error, ReadOnlySqlTransaction):
                        claim.progress.setdefault(job_id, text)
                        raise
                    if missing(error):
                        await self.check_rights(client)
                        claim.progress.setdefault(job_id, text)
                        self._progress_at = time.monotonic() + TRY_AGAIN
                        if self._tells_progress:
                            why = await explained(client.connection, error, ["set_progress"])
                            logger.warning("stores no progress of jobs: %s", why)
                        self._tells_progress = False
                        return
                    logger.warning("progress of job %d was not stored: %s", job_id, error)
                else:
                    self._tells_progress = True
                    if not held:
                        self._lose(claim, {job_id})

    def expire(self, now: float) -> None:
        """Stop the handlers whose leases have run out because nobody could extend them."""
        for claim in self.claims.expired(now):
            self._lose(claim, {*claim.open})

    def _lose(self, claim: Claim, job_ids: set[int]) -> None:
        if claim.lose(job_ids):
            claim.slot.interrupt(claim)  # type: ignore[attr-defined]

    def heard(self, channel: str, name: str) -> None:
        """A job was enqueued, or is due earlier; a restricted queue does not tell its name."""
        if channel == "pgq_queue":
            woken = [self.schedule.wake(one) for one in ([name] if name else self._restricted)]
            if any(woken):
                self.wake()

    def connected(self) -> None:
        """Look at all queues: what was enqueued meanwhile was not heard."""
        self.schedule.wake()
        self.wake()
