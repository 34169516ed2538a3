"""Growth with clients: what a call costs when more and more ask at once."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil
from benchmarks.growing import Measured, Part
from benchmarks.harness import Bench, Database
from benchmarks.pgbench import BenchmarkError, Load
from benchmarks.systems import SYSTEMS

__all__ = ["CROWDS", "Crowd"]

PGQ = SYSTEMS["pgq"]
BODY = 200
MESSAGES = 200_000
GROUPS = 40


@dataclass(frozen=True, kw_only=True)
class Crowd(Part):
    """Loads by pgbench, with as many clients as the step says; all in one database.

    What a call takes of the processor is that of the sessions of the server. The time that passes
    for one while all clients are at work falls until the cores are busy, and should not rise from
    there. Each call waits for its flush.
    """

    partitions: int
    loads: Sequence[tuple[str, str, int]]
    """Scripts, what they are called, and how many messages each call takes."""

    def build(self, bench: Bench, database: Database, step: int) -> None:
        """A filled topic and a queue."""
        PGQ.do(bench, database, "create_topic", partitions=self.partitions)
        PGQ.do(bench, database, "create_queue")
        PGQ.fill(bench, database, "messages", MESSAGES, BODY)

    def measure(
        self, bench: Bench, database: Database, step: int, seconds: float, luck: random.Random
    ) -> Sequence[Measured]:
        """One run of each load."""
        length = max(1, round(3 * seconds))
        found = []
        for script, name, batch in self.loads:
            if script == "consume":
                # each group reads the log once; a run that is faster than this finds its end
                PGQ.do(bench, database, "create_groups", groups=GROUPS)
            if script == "claim_ack":
                PGQ.fill(bench, database, "jobs", 10_000 * length, BODY)
            bench.checkpoint()
            load = Load(
                script=PGQ.script(script), clients=step, body=BODY, batch=batch, seconds=length
            )
            before = _computed(bench)
            outcome = bench.pgbench(database, load)
            _wait_for_the_end(bench, database)
            used = (_computed(bench) - before) / outcome.transactions
            found.append(Measured(name, "µs of processor for a call", used * 1e6, None))
            found.append(
                Measured(f"{name}, all", "µs that pass for a call", 1e6 / outcome.rate, None)
            )
        return found


def _computed(bench: Bench) -> float:
    """Seconds of processor that sessions of the server have taken which have ended."""
    times = psutil.Process(bench.server_process).cpu_times()
    return float(times.children_user + times.children_system)


def _wait_for_the_end(bench: Bench, database: Database, seconds: float = 10) -> None:
    """Until the sessions of the database are gone, and count."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        titles = []
        for child in psutil.Process(bench.server_process).children():
            with suppress(psutil.Error):
                titles.append(" ".join(child.cmdline()))
        if not any(f" {database.name} " in title for title in titles):
            return
        time.sleep(0.02)
    raise BenchmarkError(f"sessions of {database.name} do not end")


LOG = (("publish", "publish", 1), ("consume", "consume 10", 10))
QUEUE = (("enqueue", "enqueue", 1), ("claim_ack", "claim and ack", 1))

CROWDS: Sequence[Crowd] = (
    Crowd(
        name="clients",
        title="Clients at work at once, 16 partitions",
        axis="clients",
        picture="clients",
        steps=(1, 2, 4, 8, 16, 32, 64),
        apart=False,
        partitions=16,
        loads=(*LOG, *QUEUE),
    ),
    Crowd(
        name="wide",
        title="Clients at work at once, 64 partitions",
        axis="clients",
        picture="clients",
        steps=(1, 2, 4, 8, 16, 32, 64),
        apart=False,
        partitions=64,
        loads=LOG,
    ),
)
