"""What the slots of a worker or a consumer share: how they wait, and how they ask the database."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.errors import InsufficientPrivilege, ReadOnlySqlTransaction

from pgq._async import AsyncClient
from pgq._runtime._async._pool import Pool
from pgq._runtime._errors import Logger
from pgq._runtime._heartbeats import missing
from pgq._runtime._rights import MissingRights
from pgq._runtime._schedule import Schedule
from pgq._runtime._state import Abandoned, State
from pgq._runtime._tasks import Wakeup
from pgq._runtime._times import TRY_AGAIN

__all__ = ["Slots", "with_details"]

POLL = 1.0
"""The longest wait by default, in seconds."""
POLL_HEARD = 5.0
"""The same where notifications are heard."""


class Slots:
    """The schedule, the connections, and the wakeups of those who wait."""

    def __init__(
        self, sources: Iterable[str], pool: Pool, poll: float | None, logger: Logger
    ) -> None:
        self.pool = pool
        self.schedule = Schedule(sources, poll or POLL, poll or POLL_HEARD)
        self.begun: Callable[[], None] = lambda: None
        """Called when a slot has got something to do."""
        self._asks_at = 0.0
        self.once = False
        """Whether to stop when nothing more is due."""
        self.lacking: str | None = None
        """The rights that the role has lost: nothing is claimed until it has them again."""
        self.missing: Mapping[str, str] = {}
        """The queues that are not there, with what to do: they are left out until they are."""
        self.strict = False
        """Whether lost rights end it."""
        self.state = State()
        self.abandoned = Abandoned(logger)
        self.logger = logger
        self.name: str | None = None
        """Its name in `list_workers`."""
        self._idle: list[Wakeup] = []
        self._wakeups: list[Wakeup] = []

    def _longest_wait(self) -> float:
        return self.schedule.pause(time.monotonic())

    # ------------------------------------------------------------------------ waiting

    def new_wakeup(self) -> Wakeup:
        """The wakeup of a slot."""
        wakeup = Wakeup()
        self._wakeups.append(wakeup)
        return wakeup

    async def wait_for_work(self, wakeup: Wakeup) -> None:
        """Wait until there may be something to do."""
        self._idle.append(wakeup)
        try:
            if not self.state.stopping:
                await wakeup.wait(self._longest_wait())
        finally:
            with suppress(ValueError):  # it may have been woken
                self._idle.remove(wakeup)

    async def pause(self, wakeup: Wakeup, error: BaseException) -> None:
        """Wait for a server that has failed."""
        wait = self.state.backoff.next()
        if isinstance(error, MissingRights):  # which `check_rights` has said
            await wakeup.wait(wait)
        elif not self.state.at_once:
            text = str(error).strip()
            level = logging.WARNING if self.state.is_news(text) else logging.DEBUG
            self.logger.log(level, "database unavailable, again in %.1f s: %s", wait, text)
            await wakeup.wait(wait)

    def hear(self, names: Iterable[str], *, lost: bool = False) -> None:
        """Notifications of these queues or topics are heard, and of no others."""
        if self.schedule.hear(names, time.monotonic(), lost=lost):
            self.wake()

    def disconnected(self) -> None:
        """No notifications are heard until the next `connected`."""
        self.hear((), lost=True)

    def wake(self) -> None:
        """There may be something for one more slot, or an earlier time to wait for."""
        with suppress(IndexError):
            self._idle.pop().wake()

    def wake_all(self) -> None:
        """Everybody looks what has changed."""
        for wakeup in self._wakeups:
            wakeup.wake()

    # ------------------------------------------------------------------------ asking

    async def ask(self, call: Callable[[AsyncClient], Any]) -> Any:
        """As `pool.ask`; MissingRights: it was refused for want of a right that all work needs."""
        return await self.pool.ask(lambda client: self._checked(client, call))

    async def _checked(self, client: AsyncClient, call: Callable[[AsyncClient], Any]) -> Any:
        try:
            return await call(client)
        except InsufficientPrivilege:
            await self.check_rights(client)
            return await call(client)  # the right may have been granted since

    async def check_rights(self, client: AsyncClient) -> None:
        """Look whether the role has all rights that it needs; MissingRights: it has not."""
        lacking = await self._refusal(client)
        before, self.lacking = self.lacking, lacking
        if lacking is None:
            if before is not None:
                self.logger.info("has its rights again")
            return
        if lacking != before and not self.strict:
            self.logger.error("%s", lacking)
        raise MissingRights(lacking)

    async def _refusal(self, client: AsyncClient) -> str | None:
        """Why the role cannot do the work; None: it can, or nobody knows."""

    async def wait_for_rights(self, wakeup: Wakeup) -> None:
        """Look whether lost rights are there again; wait if not."""
        if self.strict:
            raise InsufficientPrivilege(self.lacking or "")
        try:
            await self.pool.ask(self.check_rights)
        except psycopg.OperationalError as error:
            await self.pause(wakeup, error)

    async def due_in(self, name: str) -> float | None:
        """Seconds until something is due, infinity: nothing is; None: nobody needs to know."""
        if self.state.stopping or time.monotonic() < self._asks_at or not self.schedule.asks(name):
            return None
        try:
            left = await self.ask(lambda client: self._ask_due(client, name))
        except Exception as error:  # it is looked at again before long
            if missing(error):
                self._asks_at = time.monotonic() + TRY_AGAIN
            self.logger.debug("could not ask when %s has something to do: %s", name, error)
            return None
        return math.inf if left is None else left

    async def _ask_due(self, client: AsyncClient, name: str) -> float | None:
        """Seconds until something is due, by the clock of the database."""
        raise NotImplementedError

    async def report(self, wakeup: Wakeup, what: str, call: Callable[[AsyncClient], Any]) -> Any:
        """Tell the database what became of a job, until it answers; None: in vain.

        Each of these calls may be repeated: a second one finds that the lease token is gone.
        """
        while True:
            try:
                answer = await self.ask(call)
            except psycopg.OperationalError as error:
                hopeless = self.lacking is not None and (self.strict or self.state.stopping)
                if hopeless or self.state.gives_up():
                    self.logger.error("could not %s, the lease will run out: %s", what, error)
                    return None
                await self.pause(wakeup, error)
            except Exception:
                self.logger.exception("could not %s, the lease will run out", what)
                return None
            else:
                self.state.reached()
                return answer


async def with_details(call: Callable[..., Any], **told: Any) -> Any:
    """Call with what is told beside; where that is refused, without it."""
    try:
        return await call(**told)
    except (psycopg.OperationalError, ReadOnlySqlTransaction):
        raise
    except Exception:
        return await call()
