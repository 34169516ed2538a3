"""One of the places in which a consumer handles messages, one lease after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg

from pgq._async import AsyncClient
from pgq._runtime._async._slots import with_details
from pgq._runtime._errors import failure
from pgq._runtime._tasks import Cancelled, Running
from pgq._runtime._times import LONGEST_TURN
from pgq.consumer._async._supervisor import Members
from pgq.consumer._handlers import TopicHandler
from pgq.consumer._leases import Lease
from pgq.consumer._reports import logger
from pgq.errors import LeaseLost, UnreadablePayload
from pgq.messages import LeasedMessage
from pgq.worker._outcomes import Misfit

__all__ = ["Member"]


class Member:
    """Leases messages, calls their handler, and commits."""

    def __init__(self, supervisor: Members) -> None:
        self.running: Running | None = None
        self._supervisor = supervisor
        self._wakeup = supervisor.new_wakeup()

    async def run(self) -> None:
        """Work until the consumer stops."""
        supervisor = self._supervisor
        while not supervisor.state.stopping:
            if supervisor.lacking is not None:
                await supervisor.wait_for_rights(self._wakeup)
                continue
            lease = supervisor.claims.retry(time.monotonic())
            if lease is None:
                name = supervisor.schedule.next(time.monotonic())
                if name is None:
                    await supervisor.wait_for_work(self._wakeup)
                    continue
                lease = await self._poll(supervisor.handlers[name])
            else:
                supervisor.wake()  # another one waits in the place of this one
            if lease is not None:
                lease.slot = self
                await self._work(lease)

    def interrupt(self, lease: Lease) -> None:
        """Stop the handler, where that can be done."""
        if self.running is not None and lease.running:
            self.running.interrupt()

    async def _poll(self, handler: TopicHandler) -> Lease | None:
        supervisor = self._supervisor
        before = time.monotonic()
        try:
            messages = await supervisor.ask(
                lambda client: client.poll(
                    handler.topic, supervisor.group, max_messages=handler.size, lease=handler.lease
                )
            )
        except psycopg.OperationalError as error:
            supervisor.schedule.looked(handler.topic, time.monotonic(), found=False, due_in=0.0)
            await supervisor.pause(self._wakeup, error)
            return None
        except Exception as error:
            supervisor.schedule.failed(handler.topic, time.monotonic())
            known = isinstance(error, psycopg.Error)
            logger.error("could not poll %s: %s", handler.topic, error, exc_info=not known)
            return None
        except BaseException:
            supervisor.schedule.looked(handler.topic, time.monotonic(), found=False)
            raise
        supervisor.state.reached()
        if not messages:
            await self._rest(handler.topic)
            return None
        # Other partitions may have more, however little there was in this one.
        supervisor.schedule.looked(handler.topic, time.monotonic(), found=True)
        lease = Lease(handler, messages, before)
        supervisor.claims.add(lease)
        supervisor.begun()
        supervisor.wake()
        return lease

    async def _rest(self, topic: str) -> None:
        """Nothing was found: ask how long to leave the topic alone."""
        due_in: float | None = None
        try:
            due_in = await self._supervisor.due_in(topic)
        finally:
            self._supervisor.schedule.looked(topic, time.monotonic(), found=False, due_in=due_in)

    # ------------------------------------------------------------------------ handlers

    async def _work(self, lease: Lease) -> None:
        """Handle the messages of a lease, and commit."""
        first = lease.next
        error: BaseException | None = None
        begun_at = rested = time.monotonic()
        while (
            lease.next < len(lease.messages)
            and not self._supervisor.state.stopping
            and not lease.lost
        ):
            end = len(lease.messages) if lease.handler.batch else lease.next + 1
            error = await self._handle(lease, lease.messages[lease.next : end])
            if error is not None:
                break
            lease.next = end
            if time.monotonic() - rested >= LONGEST_TURN:
                await asyncio.sleep(0)
                rested = time.monotonic()
        done = lease.messages[first : lease.next]
        took = time.monotonic() - begun_at
        if lease.lost:
            self._supervisor.claims.remove(lease)
            lost = [(one, "lost") for one in lease.messages[first:]]
            self._supervisor.reports.log(lease.handler.topic, lost, took, error)
            return
        if done:
            self._supervisor.reports.log(
                lease.handler.topic, [(one, "done") for one in done], took, None
            )
            await self._commit(lease, done[-1])
            lease.attempt = 1
        if lease.next == len(lease.messages) or lease.lost:
            self._supervisor.claims.remove(lease)
        elif error is not None and not self._supervisor.state.stopping:
            await self._failed(lease, error)
        else:
            await self._release(lease)

    async def _handle(
        self, lease: Lease, messages: Sequence[LeasedMessage]
    ) -> BaseException | None:
        handler, reports = lease.handler, self._supervisor.reports
        begun = reports.begin(handler.topic, messages)
        started = time.monotonic()
        error: BaseException | None = None
        lease.running = True
        try:
            payloads = [handler.read(message) for message in messages]
            arguments: list[Any] = [payloads] if handler.batch else payloads
            if handler.with_message:
                arguments.extend([messages] if handler.batch else messages)
            await self._supervisor.calls[handler.topic](*arguments)
        except Cancelled as cancelled:
            ours = self.running is not None and self.running.resume()
            if not ours and (self._supervisor.state.stopping or lease.lost):
                raise
            error = LeaseLost("the lease was lost") if ours else cancelled
        except BaseException as failed:
            error = failed
        finally:
            lease.running = False
        word = "lost" if lease.lost else "done" if error is None else "failed"
        took = time.monotonic() - started
        reports.tell(begun, handler.topic, [(message, word) for message in messages], took, error)
        return error

    async def _failed(self, lease: Lease, error: BaseException) -> None:
        """The one place that decides what becomes of messages whose handler has failed.

        They stay leased and are tried again after a while. A group with a `max_attempts` counts
        its failures in the database, and in the end moves on behind the message: there they are
        given back. So is what does not fit in any group, with its error: no later attempt will
        help, and somebody has to see it.
        """
        rest = lease.messages[lease.next :]
        self._supervisor.reports.log(
            lease.handler.topic, [(message, "failed") for message in rest], 0.0, error
        )
        wait = lease.failed()
        unfit = isinstance(error, (Misfit, UnreadablePayload))

        async def give_back(client: AsyncClient) -> float | None:
            groups = await client.admin.list_groups(lease.handler.topic)
            counts = any(
                one.max_attempts is not None
                for one in groups
                if one.consumer_group == self._supervisor.group
            )
            if not counts and not unfit:
                return None
            delay = wait
            if unfit:  # attempts that are counted need no waits, others must not be without end
                delay = 0.0 if counts else lease.handler.backoff_max
            nack = partial(
                client.nack_offsets,
                lease.handler.topic,
                self._supervisor.group,
                lease.partition,
                lease_token=rest[0].lease_token,
                delay=timedelta(seconds=delay),
            )
            await with_details(nack, error=failure(error))
            return delay

        # until then it is not to be tried again by another slot
        delay = await self._supervisor.report(self._wakeup, "give back what failed", give_back)
        if delay is not None or lease.lost:
            self._supervisor.claims.remove(lease)
            wait = wait if delay is None else delay
        else:
            lease.retry_at = time.monotonic() + wait
        logger.info("%s/%d is tried again in %.1f s", lease.handler.topic, lease.partition, wait)

    async def _commit(self, lease: Lease, last: LeasedMessage) -> None:
        async def commit(client: AsyncClient) -> bool:
            try:
                await client.commit_offset(
                    lease.handler.topic,
                    self._supervisor.group,
                    last.partition,
                    last.log_offset,
                    lease_token=last.lease_token,
                )
            except LeaseLost:
                lease.lost = True
                logger.warning(
                    "the lease on %s/%d was lost, its messages are repeated",
                    lease.handler.topic,
                    last.partition,
                    extra={"topic": lease.handler.topic, "partition": last.partition},
                )
            return True

        await self._supervisor.report(self._wakeup, "commit", commit)

    async def _release(self, lease: Lease) -> None:
        self._supervisor.claims.remove(lease)
        await self._supervisor.report(
            self._wakeup,
            "release a partition",
            lambda c: c.release_poll(
                lease.handler.topic,
                self._supervisor.group,
                lease.partition,
                lease.messages[0].lease_token,
            ),
        )
