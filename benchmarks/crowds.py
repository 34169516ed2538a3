"""Growth with clients: what a call costs when more and more ask at once."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
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

    What a call takes of the processor is that of the sessions of the server. A session takes some
    milliseconds for its first calls, which plan; so there is a short run and a longer one, and what
    counts is by how much they differ. The time that passes for a call while all clients are at work
    falls until the cores are busy, and should not rise from there. Each call waits for its flush.
    Autovacuum is off meanwhile: the server counts its workers with the sessions, and they come
    behind a filling, so in the short run.
    """

    partitions: int
    loads: Sequence[tuple[str, str, int]]
    """Scripts, what they are called, and how many messages each call takes."""

    def build(self, bench: Bench, database: Database, step: int) -> None:
        """A filled topic and a queue."""
        PGQ.do(bench, database, "create_topic", partitions=self.partitions)
        PGQ.do(bench, database, "create_queue")
        PGQ.fill(bench, database, "messages", MESSAGES, BODY)
        database.run("alter system set autovacuum = off", "select pg_reload_conf()")

    def measure(
        self, bench: Bench, database: Database, step: int, seconds: float, luck: random.Random
    ) -> Sequence[Measured]:
        """A short run of each load and a longer one."""
        short, length = (max(1, round(times * seconds)) for times in (1, 4))
        found = []
        for script, name, batch in self.loads:
            if script == "consume":
                # each group reads the log once; a run that is faster than this finds its end
                PGQ.do(bench, database, "create_groups", groups=GROUPS)
            if script == "claim_ack":
                PGQ.fill(bench, database, "jobs", 10_000 * (short + length), BODY)
            bench.checkpoint()
            _wait_for_the_end(bench, database)
            runs = []
            for time_of_run in (short, length):
                before = _computed(bench)
                outcome = bench.pgbench(
                    database,
                    Load(
                        script=PGQ.script(script),
                        clients=step,
                        body=BODY,
                        batch=batch,
                        seconds=time_of_run,
                    ),
                )
                _wait_for_the_end(bench, database)
                runs.append((_computed(bench) - before, outcome.transactions, outcome.rate))
            (used, calls, _), (more_used, more_calls, rate) = runs
            cost = (more_used - used) / max(more_calls - calls, 1)
            found.append(Measured(name, "µs of processor for a call", cost * 1e6, None))
            found.append(Measured(f"{name}, all", "µs that pass for a call", 1e6 / rate, None))
        return found

    def finish(self, database: Database, step: int) -> Sequence[Measured]:
        """Autovacuum comes again."""
        database.run("alter system reset autovacuum", "select pg_reload_conf()")
        return ()


def _computed(bench: Bench) -> float:
    """Seconds of processor that sessions of the server have taken which have ended."""
    times = psutil.Process(bench.server_process).cpu_times()
    return float(times.children_user + times.children_system)


def _wait_for_the_end(bench: Bench, database: Database, seconds: float = 10) -> None:
    """Until the sessions of the database are gone, and count.

    What has ended and has not been noticed by the server has no title any more, and does not count.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        titles = []
        for child in psutil.Process(bench.server_process).children():
            try:
                titles.append(" ".join(child.cmdline()))
            except psutil.ZombieProcess:
                titles.append("")
            except psutil.NoSuchProcess:
                continue
        if not any(not title or f" {database.name} " in title for title in titles):
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
