"""What others feel of a cleanup that carries living payloads out of a segment."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psycopg
from benchmarks.cells.base import JOB_BODY, Cell, Length, settle
from benchmarks.harness import Bench, Database
from benchmarks.pgbench import BenchmarkError, Latency, Load
from benchmarks.systems import System

__all__ = ["Carrying"]

SCRIPTS = ("publish", "claim")
WARM_UP = 1.0
"""Seconds in which sessions connect, compile and plan; they count for nothing."""
PATIENCE = 120.0
PAUSE = 0.02
AFTERMATH = 0.3
"""Seconds, and half of those that the cleanups took, until what waited for them is through."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """A stretch of the run, with cleanups and what they left behind, or without."""

    began: float
    ended: float
    cleaning: bool

    def holds(self, latency: Latency) -> bool:
        """Whether the transaction counts: it met a cleanup, or nothing but the control."""
        if self.cleaning:
            return latency.began < self.ended and latency.ended > self.began
        return self.began <= latency.began and latency.ended <= self.ended


@dataclass(frozen=True, kw_only=True)
class Carrying(Cell):
    """Worst latencies of a topic and a queue while cleanup carries the jobs of another queue.

    One session calls ``cleanup()`` again and again until the segment is gone, while pgbench offers
    a fixed rate of publishes and claims. The run is cut into windows that take turns: in one
    cleanup is called, in the next, just as long, it is not. The windows without are the control.
    What a transaction waited for its turn counts, so nothing is hidden by clients that stand still;
    those that had to wait because of a cleanup are given time to be through before the control.
    """

    carried: int = 200_000
    clients: int = 4
    rate: int = 300
    window: float = 1.0

    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        database = self.fresh(bench, system)
        jobs = int(self.rate * (PATIENCE + 20)) // 1000 * 1000
        system.do(bench, database, "carry", jobs=jobs, carried=self.carried, body="x" * JOB_BODY)
        settle(bench, database)
        load = Load(
            script=system.script(SCRIPTS[0]),
            also=[system.script(name) for name in SCRIPTS[1:]],
            clients=self.clients,
            rate=self.rate,
        )
        with ThreadPoolExecutor(1) as background:
            running = background.submit(
                bench.latencies, database, load, most_seconds=int(PATIENCE) + 10
            )
            try:
                windows, cleaned = self._clean(system, bench, database)
            finally:
                _terminate(database)
            found = running.result()
        system.check(bench, database, "carried", carried=self.carried)
        figures: dict[str, float] = {}
        for number, name in enumerate(SCRIPTS):
            own = [latency for latency in found if latency.script == number]
            alone = _worst(own, [window for window in windows if not window.cleaning])
            beside = _worst(own, [window for window in windows if window.cleaning])
            figures |= {
                f"{name} alone": alone,
                f"{name} beside": beside,
                f"{name} above": beside - alone,
            }
        return figures | {"seconds": cleaned}

    def _clean(
        self, system: System, bench: Bench, database: Database
    ) -> tuple[Sequence[Window], float]:
        place = system.do(bench, database, "segment_to_empty").split("|")
        if len(place) != 2:
            raise BenchmarkError(f"the carried jobs stand in no segment of their own: {place}")
        windows: list[Window] = []
        cleaned = 0.0
        quiet_first = random.random() < 0.5
        with database.connect() as connection:
            _wait_for_clients(connection, self.clients)
            time.sleep(WARM_UP)
            if quiet_first:
                windows.append(_wait(self.window))
            while _there(connection, place):
                if cleaned > PATIENCE / 2:
                    raise BenchmarkError(f"segment {place[1]} is still there after {cleaned:.0f} s")
                began = time.time()
                while time.time() < began + self.window and _there(connection, place):
                    connection.execute("select count(*) from pgq.cleanup()")
                    time.sleep(PAUSE)
                cleaned += time.time() - began
                time.sleep(AFTERMATH + (time.time() - began) / 2)
                ended = time.time()
                windows.append(Window(began=began, ended=ended, cleaning=True))
                windows.append(_wait(ended - began))
        return windows, cleaned

    def runs(self, system: str) -> bool:
        return system in self.systems


def _wait(seconds: float) -> Window:
    began = time.time()
    time.sleep(seconds)
    return Window(began=began, ended=time.time(), cleaning=False)


def _there(connection: psycopg.Connection[Any], place: Sequence[str]) -> bool:
    found = connection.execute(
        "select from pgq.segment where storage_class_id = %s and segment = %s", list(place)
    )
    return found.fetchone() is not None


def _wait_for_clients(connection: psycopg.Connection[Any], clients: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = connection.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and application_name = 'pgbench'"
        ).fetchone()
        if found is not None and found[0] >= clients:
            return
        time.sleep(0.01)
    raise BenchmarkError("pgbench did not connect")


def _terminate(database: Database) -> None:
    database.run(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and application_name = 'pgbench'"
    )


def _worst(latencies: Sequence[Latency], windows: Sequence[Window]) -> float:
    within = [
        latency.milliseconds
        for latency in latencies
        if any(window.holds(latency) for window in windows)
    ]
    if not within:
        raise BenchmarkError("nothing ran in these windows")
    return max(within)
