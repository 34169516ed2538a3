"""Those who are at work in a run of months: each a thread with a session and a rate of its own."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from benchmarks.months_ledger import Ledger, Recorder

__all__ = ["PACE", "Actor", "Cleaner", "Clock", "Pace", "World"]

PATIENCE = 2.0
"""Seconds behind its time after which an actor does not try to catch up."""
NOTE_EVERY = 10.0
TRIES = 20
PACE = "a commit without pgq"


@dataclass
class World:
    """What all actors share."""

    dsn: str
    seed: int
    ledger: Ledger = field(default_factory=Ledger)
    recorder: Recorder = field(default_factory=Recorder)
    producing: threading.Event = field(default_factory=threading.Event)
    """Set as long as something new may be written."""
    stopped: threading.Event = field(default_factory=threading.Event)
    errors: list[BaseException] = field(default_factory=list)
    pids: dict[str, int] = field(default_factory=dict)
    """The sessions that live as long as the run."""


class Actor(threading.Thread, ABC):
    """Does its step so many times a second, whatever the others do."""

    rate: float = 1.0
    produces = False

    def __init__(self, world: World, name: str, rate: float | None = None) -> None:
        super().__init__(name=name, daemon=True)
        self.world = world
        self.ledger = world.ledger
        self.rng = random.Random(f"{world.seed} {name}")
        self.rate = rate or self.rate
        self.connection: psycopg.Connection[Any]
        self._noted = 0.0

    @abstractmethod
    def step(self) -> None:
        """What it does again and again."""

    def run(self) -> None:
        """Work until told to stop; the first error stops everybody."""
        try:
            with psycopg.connect(self.world.dsn, autocommit=True) as self.connection:
                self.world.pids[self.name] = self.connection.info.backend_pid
                self._work()
        except BaseException as error:
            self.world.errors.append(error)
            self.world.stopped.set()
        finally:
            self.world.pids.pop(self.name, None)

    def _work(self) -> None:
        time.sleep(self.rng.random() / self.rate)
        due = time.monotonic()
        while self._goes_on():
            behind = time.monotonic() - due
            if behind < 0:
                time.sleep(-behind)
            elif behind > PATIENCE:
                self.world.recorder.late += behind
                due += behind
            self.step()
            self._note_memory()
            due += 1 / self.rate

    def _goes_on(self) -> bool:
        if self.world.stopped.is_set():
            return False
        return self.world.producing.is_set() or not self.produces

    def ask(
        self, kind: str, statement: str, arguments: Sequence[Any] = (), otherwise: str = ""
    ) -> list[tuple[Any, ...]]:
        """Make a call and note how long it took; as another kind when it has no rows."""
        for _ in range(TRIES):
            try:
                with self.world.recorder.timed() as kinds:
                    rows = self.connection.execute(statement.encode(), arguments).fetchall()
                    kinds.append(kind if rows or not otherwise else otherwise)
            except psycopg.errors.SerializationFailure:
                self.world.recorder.retries += 1
            else:
                return rows
        raise TimeoutError(f"{kind} met a conflict {TRIES} times")

    def _note_memory(self) -> None:
        now = time.monotonic()
        if now < self._noted + NOTE_EVERY:
            return
        self._noted = now
        row = self.connection.execute(
            "select sum(total_bytes)::float8 / 1048576 from pg_backend_memory_contexts"
        ).fetchone()
        if row is not None:
            self.world.recorder.notes["MB: memory contexts of a session"][self.name] = row[0]


class Cleaner(Actor):
    """Calls cleanup, again at once as long as it says that there is more."""

    rate = 2

    def step(self) -> None:
        for _ in range(20):
            found = self.ask("cleanup", "select action, amount from pgq.cleanup()")
            for action, amount in found:
                by_rows = action in ("payloads moved", "positions trimmed", "jobs died")
                self.ledger.done[f"cleanup: {action}"] += amount if by_rows else 1
            if not any(action == "more" for action, _ in found):
                return


class Clock(Actor):
    """Writes what schedules are due, as long as something new may be written."""

    rate = 4
    produces = True

    def step(self) -> None:
        for (error,) in self.ask("run_schedules", "select error from pgq.run_schedules()"):
            if error is not None:
                self.ledger.trouble(f"a tick was refused: {error}")


class Pace(Actor):
    """Writes something and commits, without pgq: how fast the machine is at this moment."""

    rate = 20

    def step(self) -> None:
        self.ask(PACE, "select pg_logical_emit_message(true, 'pace', repeat('x', 500))")
