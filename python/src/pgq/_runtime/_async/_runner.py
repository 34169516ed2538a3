"""How a worker or a consumer begins, waits and ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol

import psycopg

from pgq._durations import seconds
from pgq._runtime._async._keeper import Keeper
from pgq._runtime._async._slots import Slots
from pgq._runtime._errors import Logger, refused
from pgq._runtime._heartbeats import Heartbeats
from pgq._runtime._tasks import Running, Wakeup, signals, spawn
from pgq._runtime._times import LOOK_FOR, SAY_AGAIN, Backoff
from pgq.errors import UnknownGroup, UnknownQueue, UnknownTopic

__all__ = ["LONGEST_CALM", "Runner", "Slot"]

LONGEST_CALM = 120.0
"""Seconds between two heartbeats, and between two looks at settings, of one that has nothing to do:
its `poll`, and this at most."""


class Slot(Protocol):
    """One of the places in which something is done, one after the other."""

    running: Running | None

    async def run(self) -> None:
        """Work until the state says to stop."""


class Runner:
    """Slots, and a connection beside them that keeps their leases."""

    what = ""
    """The word for it in logs and in pg_stat_activity."""

    def __init__(
        self,
        conninfo: str,
        *,
        concurrency: int,
        connections: int | None,
        poll: timedelta | float | None,
        grace: timedelta | float | None,
        heartbeat: timedelta | float | None,
        timeout: timedelta | float | None,
        connect: Mapping[str, Any] | None,
        logger: Logger,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}, must be at least 1")
        if connections is not None and connections < 1:
            raise ValueError(f"connections is {connections}, must be at least 1")
        self._conninfo = conninfo
        self._options = dict(connect or {})
        self._concurrency = concurrency
        self._connections = connections or min(concurrency, 8)
        self._poll = None if poll is None else seconds("poll", poll)
        self._grace = None if grace is None else seconds("grace", grace, zero=True)
        self._heartbeat = None if heartbeat is None else seconds("heartbeat", heartbeat)
        self._timeout = None if timeout is None else seconds("timeout", timeout)
        self._logger = logger
        self._supervisor: Any = None
        self._keeper: Keeper | None = None
        self._stops = 0
        self._changed = Wakeup()
        self.hurried = False
        """Whether the last run gave back what its handlers had not ended."""
        self.waits = False
        """Whether `run` waits for what is not there at its start (a topic or group, or a server
        that lets it in) and meanwhile works on the queues that are; else it raises the error."""
        self.create = False
        """Whether a worker creates queues; unless it waits, those that are there must have the
        settings that its handlers name."""
        self.strict = False
        """Whether `run` raises InsufficientPrivilege when its role loses rights that it needs; else
        it claims nothing until it has them again."""
        self.once = False
        """Whether a worker stops when no job is due any more; UnknownQueue: one was not there."""

    @property
    def running(self) -> bool:
        """Whether it works."""
        return self._supervisor is not None

    @property
    def ready(self) -> bool:
        """Whether it works, has its connection to the database and its rights, and goes on."""
        keeper, supervisor = self._keeper, self._supervisor
        if keeper is None or supervisor is None or self._stops:
            return False
        return keeper.connected and supervisor.lacking is None and not supervisor.missing

    def stop(self) -> None:
        """Begin nothing new, and let `run` return when what runs has ended.

        Called once more: give back what runs, and return at once.
        """
        self._stops += 1
        if self._stops == 1:
            self._logger.info("stops when what runs has ended")
        self._changed.wake()
        if self._supervisor is not None:
            self._supervisor.state.stopping = True
            self._supervisor.wake_all()

    async def run(self) -> None:
        """Work until `stop`, SIGTERM or Ctrl-C; a second one of them gives back what runs.

        Signals are heard in the main thread only. A database that cannot be reached is waited for,
        at the start too. Raises UnknownQueue, UnknownTopic or UnknownGroup when one of those is not
        there, and OperationalError for a wrong password or an unknown role or database at the
        start, or waits where it is not `strict`.
        """
        if self._supervisor is not None:
            raise RuntimeError(f"this {self.what} runs already")
        with signals(self.stop):
            supervisor = await self._begin_when_reached()
            if supervisor is None:
                self._stops = 0
            else:
                await self._run(supervisor)

    async def _begin_when_reached(self) -> Any:
        """None: it was told to stop before the database could be reached."""
        backoff, said, again_at = Backoff(0.1, 5.0), "", 0.0
        while True:
            try:
                return await self._begin()
            except psycopg.OperationalError as error:
                if refused(error) and not self.waits:
                    raise
                wait, text = backoff.next(), str(error).strip()
                message = f"database unavailable, again in {wait:.1f} s: {text}"
            except (UnknownTopic, UnknownGroup) as error:
                if not self.waits:
                    raise
                wait, text = LOOK_FOR, f"{error}"
                message = f"waits: {text}"
            level = logging.WARNING
            if text == said and time.monotonic() < again_at:
                level = logging.DEBUG
            else:
                again_at = time.monotonic() + SAY_AGAIN
            self._logger.log(level, "%s", message)
            said = text
            if self._stops or (await self._changed.wait(wait) and self._stops):
                return None

    async def _run(self, supervisor: Any) -> None:
        self._supervisor = supervisor
        supervisor.once, supervisor.strict = self.once, self.strict
        self.hurried = False
        supervisor.state.stopping = self._stops > 0
        name = f"pgq {self.what}: leases"
        calm = min(self._poll or 0.0, LONGEST_CALM)
        heartbeats = Heartbeats(
            self.what,
            supervisor.handlers,
            supervisor.running,
            self._heartbeat,
            lambda: self._details(supervisor) or None,
            calm,
        )
        supervisor.name = heartbeats.name
        keeper = Keeper(
            supervisor, self._conninfo, self._options, name, heartbeats, self._logger, calm
        )
        supervisor.begun = keeper.begun
        self._keeper = keeper
        keeping = spawn(keeper.run, name="pgq-leases", then=self._changed.wake)
        slots = [self._new_slot(supervisor) for _ in range(self._concurrency)]
        for number, slot in enumerate(slots):
            slot.running = spawn(slot.run, name=f"pgq-slot-{number}", then=self._changed.wake)
        beside = [spawn(one.run, name="pgq-beside") for one in self._beside(supervisor)]
        there = sorted({*supervisor.handlers} - {*supervisor.missing})
        if there:
            self._logger.info("works on %s", ", ".join(there))
        try:
            await self._wait(supervisor, slots, keeping)
        except BaseException:  # a slot has failed, or this task was cancelled
            self._stops = 2
            raise
        finally:
            supervisor.state.stopping = True
            supervisor.wake_all()
            if self._stops > 1:
                await self._hurry(supervisor, slots)
            await self._give_back(supervisor)
            keeper.stop()
            for running in (keeping, *beside):
                await running.join(5.0)
            await supervisor.pool.close()
            self._supervisor = self._keeper = None
            self._stops = 0
        for slot in slots:
            assert slot.running is not None
            await slot.running.join(0)
        self._logger.info("has stopped")
        if self.once and supervisor.missing:
            raise UnknownQueue("\n".join(supervisor.missing.values()))

    async def _begin(self) -> Any:
        """Look whether all is there, and make what the slots share."""
        raise NotImplementedError

    def _new_slot(self, supervisor: Any) -> Slot:
        raise NotImplementedError

    def _details(self, supervisor: Any) -> dict[str, Any]:
        """What heartbeats say beside the usual."""
        return {"abandoned": supervisor.abandoned.count} if supervisor.abandoned.count else {}

    def _beside(self, supervisor: Any) -> Sequence[Any]:
        """What else runs until the state says to stop, and never fails."""
        return ()

    async def _give_back(self, supervisor: Any) -> None:
        """Give back what is still held."""
        raise NotImplementedError

    async def _wait(self, supervisor: Slots, slots: Sequence[Slot], keeping: Running) -> None:
        """Until all slots have ended, or whoever stops it loses patience."""
        patience: float | None = None
        while True:
            ended = 0
            for slot in slots:
                assert slot.running is not None
                ended += await slot.running.join(0)
            if ended == len(slots):
                return
            if ended and not supervisor.state.stopping:
                raise RuntimeError("a slot has ended")
            if await keeping.join(0):
                raise RuntimeError("the heartbeats have ended")
            if self._stops and patience is None and self._grace is not None:
                patience = time.monotonic() + self._grace
            left = None if patience is None else patience - time.monotonic()
            if self._stops > 1 or (left is not None and left <= 0):
                self._stops = max(self._stops, 2)
                return
            await self._changed.wait(left)

    async def _hurry(self, supervisor: Any, slots: Sequence[Slot]) -> None:
        """Stop what runs, where that can be done."""
        supervisor.state.at_once = True
        supervisor.wake_all()
        for held in supervisor.claims.all():
            if held.running:
                self.hurried = True
                held.slot.interrupt(held)
        end = time.monotonic() + 0.5
        for slot in slots:
            if slot.running is not None:
                with suppress(Exception):  # which `_wait` has raised
                    await slot.running.join(max(end - time.monotonic(), 0))
