"""What the slots of a worker or a consumer share: how they wait, and how they ask the database."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.errors import ReadOnlySqlTransaction

from pgq._async import AsyncClient
from pgq._running._async._pool import Pool
from pgq._running._errors import Logger
from pgq._running._schedule import Schedule
from pgq._running._state import Abandoned, State
from pgq._running._tasks import Bell

__all__ = ["Slots", "as_told"]


class Slots:
    """The schedule, the connections, and the bells of those who wait."""

    def __init__(self, sources: Iterable[str], pool: Pool, poll: float, logger: Logger) -> None:
        self.pool = pool
        self.schedule = Schedule(sources, poll)
        self.state = State()
        self.abandoned = Abandoned(logger)
        self.logger = logger
        self._idle: list[Bell] = []
        self._bells: list[Bell] = []

    def _longest_rest(self) -> float:
        return self.schedule.pause(time.monotonic())

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
                await bell.wait(self._longest_rest())
        finally:
            with suppress(ValueError):  # it may have been rung
                self._idle.remove(bell)

    async def pause(self, bell: Bell, error: BaseException) -> None:
        """Wait for a server that has failed."""
        wait = self.state.backoff.next()
        if not self.state.at_once:
            text = str(error).strip()
            level = logging.WARNING if self.state.is_news(text) else logging.DEBUG
            self.logger.log(level, "database unavailable, again in %.1f s: %s", wait, text)
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
                answer = await self.pool.ask(call)
            except psycopg.OperationalError as error:
                if self.state.gives_up():
                    self.logger.error("could not %s, the lease will run out: %s", what, error)
                    return None
                await self.pause(bell, error)
            except Exception:
                self.logger.exception("could not %s, the lease will run out", what)
                return None
            else:
                self.state.reached()
                return answer


async def as_told(call: Callable[..., Any], **told: Any) -> Any:
    """Call with what is told beside; where that is refused, without it."""
    try:
        return await call(**told)
    except (psycopg.OperationalError, ReadOnlySqlTransaction):
        raise
    except Exception:
        return await call()
