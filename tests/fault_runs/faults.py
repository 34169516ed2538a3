"""What is killed and broken in a fault run, at random."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psycopg

from fault_runs.house import PARTS
from fault_runs.journal import Journal
from fault_runs.scenes import SPARK
from fault_runs.wire import CUTS
from support.waiting import wait_until

if TYPE_CHECKING:
    from fault_runs.stage import Stage

__all__ = ["Breaker"]

FAR = 3600
"""Seconds by which the clock is stepped at most."""


class Breaker:
    """Breaks one thing after the other; ``counts`` says what, ``journal`` also when."""

    def __init__(self, stage: Stage, seed: str, journal: Journal) -> None:
        self.stage = stage
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._journal = journal
        self._ahead = 0.0
        self._latest = 0.0

    def break_something(self) -> None:
        """Break one thing, of those that the scene has."""
        ways = self.stage.scene.faults
        [name] = self.rng.choices(list(ways), list(ways.values()))
        self._journal.note("fault", kind=name)
        try:
            done = getattr(self, name.replace(" ", "_"))()
        except psycopg.Error:
            # the server is about to come back from the fault before
            done = ""
        self._journal.note("fault over", kind=name, done=done or "")
        if done:
            self.counts[done] += 1

    @property
    def latest(self) -> float:
        """By how many seconds the clock was ahead at most."""
        return self._latest

    # ------------------------------------------------------------------ processes

    def client(self) -> str:
        """Kill a program."""
        names = [name for name in self.stage.names() if name != SPARK]
        return f"{self.stage.restart(self.rng.choice(names))} killed"

    def driver(self) -> str:
        """Kill a Spark driver with its JVM and workers, some time after its first batch."""
        if not self.stage.begun("spark"):
            return ""
        return f"{self.stage.restart(SPARK)} killed"

    def backend(self) -> str:
        """Kill a server process in the middle of a call: all others end, too."""
        return "backend killed" if self._strike(_kill) else ""

    def postmaster(self) -> str:
        """Kill the whole server."""
        self.stage.crash()
        return "server killed"

    def pooler(self) -> str:
        """Kill PgBouncer."""
        self.stage.pooler.kill()
        self.stage.pooler.start()
        return "PgBouncer killed"

    def failover(self) -> str:
        """Kill the primary; its standby takes its place, and gets one of its own."""
        self.stage.fail_over()
        return "failover"

    def cleanup(self) -> str:
        """Kill a cleanup at the end of one of its parts, and its session, or the server."""
        part = self.rng.choice(PARTS)
        with self.stage.observe() as observer:
            victim = psycopg.connect(
                self.stage.direct, autocommit=True, options=f"-c fault_run.stop_behind={part}"
            )
            pid = victim.info.backend_pid
            victim.pgconn.send_query(b"select pgq.cleanup()")

            def stopped() -> Any:
                victim.pgconn.consume_input()
                if not victim.pgconn.is_busy():
                    return "ended"
                [found] = observer.execute(
                    "select count(*) from pg_stat_activity"
                    " where pid = %s and wait_event = 'PgSleep'",
                    [pid],
                ).fetchall()
                return found[0]

            try:
                if wait_until(stopped, 60, f"for cleanup to do {part}") == "ended":
                    return ""  # that part met a lock
                if self.rng.random() < 0.4:
                    os.kill(pid, signal.SIGKILL)
                else:
                    observer.execute("select pg_terminate_backend(%s, 10000)", [pid])
            finally:
                victim.close()
        return f"cleanup killed behind {part}"

    # ------------------------------------------------------------------ calls

    def cut(self) -> str:
        """Cut a connection."""
        where = self.rng.choice(CUTS)
        wire = self.rng.choice(self.stage.wires)
        before = wire.cuts[where]
        wire.cut(where)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: wire.cuts[where] > before, 5)
        return f"connection cut {where}"

    def cancel(self) -> str:
        """Cancel a call."""
        return "call cancelled" if self._strike(_cancel) else ""

    def terminate(self) -> str:
        """End a session."""
        return "session terminated" if self._strike(_terminate) else ""

    def _strike(self, how: Callable[[psycopg.Connection[Any], int], None]) -> bool:
        with self.stage.observe() as observer:
            found = observer.execute(
                "select pid from pg_stat_activity"
                " where application_name = 'pgq_fault_run' and state = 'active'"
            ).fetchall()
            if found:
                with contextlib.suppress(ProcessLookupError):
                    how(observer, self.rng.choice(found)[0])
        return bool(found)

    # ------------------------------------------------------------------ surroundings

    def clock(self) -> str:
        """Step the clock of pgq, ahead or back."""
        by = self._step()
        self.stage.clock.advance(f"{by} seconds")
        return "clock stepped ahead" if by > 0 else "clock stepped back"

    def server_clock(self) -> str:
        """Step the clock of the server, ahead or back."""
        by = self._step()
        self.stage.step_server_clock(self._ahead)
        return "server's clock stepped ahead" if by > 0 else "server's clock stepped back"

    def _step(self) -> float:
        by = self.rng.choice([1, 5, 60, FAR]) * self.rng.random()
        if self._ahead > 0 and self.rng.random() < 0.5:
            by = -by
        self._ahead += by
        self._latest = max(self._latest, self._ahead)
        return by

    def disk(self) -> str:
        """Fill the disk for a while."""
        with self.stage.full_disk():
            time.sleep(0.3 + self.rng.random())
        return "disk full"


def _kill(observer: psycopg.Connection[Any], pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def _cancel(observer: psycopg.Connection[Any], pid: int) -> None:
    observer.execute("select pg_cancel_backend(%s)", [pid])


def _terminate(observer: psycopg.Connection[Any], pid: int) -> None:
    observer.execute("select pg_terminate_backend(%s)", [pid])
