"""One batch of one partition, from the lease to the commit."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
from collections.abc import Sequence
from datetime import datetime, timezone
from enum import Enum

import psycopg

from pgq.errors import LeaseLost
from pgq.messages import LeasedMessage
from pgq.push._body import batch_id, encode, request_headers
from pgq.push._config import Push
from pgq.push._figures import Figures
from pgq.push._http import Answer, Sender
from pgq.push._lease import Lease
from pgq.push._logging import note

__all__ = ["Delivery", "Outcome", "pause_after"]


class Outcome(Enum):
    """How a delivery ended."""

    DONE = "done"
    GIVEN_BACK = "given back"
    LOST = "lost"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class _Interrupted(Exception):
    """The worker was told to stop."""


def pause_after(push: Push, attempt: int, answer: Answer) -> float:
    """Seconds to wait after the failed attempt of that number.

    The backoff doubles up to its maximum, at random from half of it; what the receiver asked for
    comes first, but it is never more than max_retry_after, nor less than half of the backoff.
    """
    if answer.retry_after is not None:
        return max(min(answer.retry_after, push.max_retry_after), push.backoff / 2)
    longest = min(push.backoff * 2.0 ** min(attempt - 1, 60), push.backoff_max)
    return longest * random.uniform(0.5, 1.0)


class Delivery:
    """Sends one batch until it is accepted, given back or taken away."""

    def __init__(
        self,
        push: Push,
        lease: Lease,
        sender: Sender,
        messages: Sequence[LeasedMessage],
        *,
        stop: asyncio.Event,
        figures: Figures,
    ) -> None:
        self._push = push
        self._lease = lease
        self._sender = sender
        self._messages = messages
        self._stop = stop
        self._figures = figures
        self.partition = lease.partition
        self.again_in = 0.0
        """Seconds after which what was given back can be claimed again."""

    @property
    def size(self) -> int:
        """How many messages it has."""
        return len(self._messages)

    async def run(self) -> Outcome:
        """Deliver the batch; whatever happens, no lease is kept beyond the end of this call."""
        keeping = asyncio.create_task(self._lease.keep())
        delivering = asyncio.create_task(self._deliver())
        outcome = Outcome.INTERRUPTED
        try:
            await asyncio.wait({keeping, delivering}, return_when=asyncio.FIRST_COMPLETED)
            if self._lease.committing:
                # what was accepted: whether the lease still counts is for the database to say
                await asyncio.wait({delivering})
            outcome = self._outcome(delivering if delivering.done() else keeping)
        finally:
            for task in (keeping, delivering):
                task.cancel()
            await asyncio.gather(keeping, delivering, return_exceptions=True)
            if outcome in (Outcome.INTERRUPTED, Outcome.FAILED):
                await self._lease.release()
        return outcome

    def _outcome(self, ended: asyncio.Task[Outcome]) -> Outcome:
        try:
            return ended.result()
        except LeaseLost as error:
            self._note(logging.WARNING, "lease lost", reason=str(error).partition("\n")[0])
            self._figures.count("pgq_push_leases_lost_total", push=self._push.name)
            return Outcome.LOST
        except _Interrupted:
            return Outcome.INTERRUPTED
        except psycopg.Error as error:
            reason = str(error.diag.message_primary or type(error).__name__)
            self._note(logging.ERROR, "delivery failed", reason=reason)
            return Outcome.FAILED

    async def _deliver(self) -> Outcome:
        push, messages = self._push, self._messages
        body = encode(push, messages)
        name = batch_id(push, messages)
        facts: dict[str, object] = {
            "first_offset": messages[0].log_offset,
            "last_offset": messages[-1].log_offset,
        }
        for attempt in itertools.count(messages[0].attempt or 1):
            if self._stop.is_set():
                raise _Interrupted
            # before the first one only if the process was held up since the claim
            if not self._lease.fresh:
                await self._lease.ensure()
            headers = request_headers(push, name, body, datetime.now(timezone.utc))
            answer = await self._sender.post(body, headers)
            self._count(answer)
            facts |= {
                "attempt": attempt,
                "status": answer.status,
                "seconds": round(answer.seconds, 3),
            }
            if answer.accepted:
                self._note(logging.INFO, "accepted", **facts)
                await self._lease.commit(messages[-1].log_offset)
                self._figures.count("pgq_push_messages_total", len(messages), push=push.name)
                return Outcome.DONE
            pause = pause_after(push, attempt, answer)
            self._note(
                logging.WARNING, "not accepted", error=answer.error, pause=round(pause, 3), **facts
            )
            if await self._lease.give_back(pause, answer.error):
                self.again_in = pause
                return Outcome.GIVEN_BACK
            await self._wait(pause)
            await self._lease.ensure()
        raise AssertionError("attempts are counted without an end")

    async def _wait(self, seconds: float) -> None:
        if self._stop.is_set():
            raise _Interrupted
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._stop.wait(), timeout=seconds)
            raise _Interrupted

    def _count(self, answer: Answer) -> None:
        outcome = "failed" if answer.status is None else "refused"
        if answer.accepted:
            outcome = "accepted"
        name = self._push.name
        self._figures.count("pgq_push_requests_total", push=name, outcome=outcome)
        self._figures.observe("pgq_push_request_seconds", answer.seconds, push=name)

    def _note(self, level: int, event: str, /, **fields: object) -> None:
        note(level, event, push=self._push.name, partition=self._lease.partition, **fields)
