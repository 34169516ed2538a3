"""What the worker and the producer reach, beside the calls that they stand on.

The worker does filled queues, beside pgbench that calls finish_and_claim with as many clients. The
producer publishes for 100 tasks, beside single publishes on one connection. They take turns within
a round. Shown are the medians of the rounds: of rates, of their ratios within a round, which have
targets, and of the processor time that all processes together took for a job or message, which a
machine with other work changes less.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import psutil  # noqa: E402
import psycopg  # noqa: E402
from benchmarks.harness import Bench, BenchmarkError, Database, commit_of  # noqa: E402
from benchmarks.pgbench import Load  # noqa: E402
from benchmarks.report import plain_table  # noqa: E402
from benchmarks.systems import install_script  # noqa: E402

from pgq import AsyncClient, Client  # noqa: E402
from pgq.producer import AsyncProducer  # noqa: E402
from pgq.worker import AsyncWorker, Worker  # noqa: E402

__all__ = ["main"]

BODY = 200
CLIENTS = 4
TASKS = 100


def fill(database: Database, jobs: int) -> None:
    """A queue with so many jobs."""
    with database.connect() as connection:
        client = Client(connection)
        client.admin.create_queue("bench")
        for _ in range(jobs // 1000):
            client.enqueue_batch("bench", bodies=[b"x" * BODY] * 1000)
        connection.execute("vacuum analyze")


def by_pgbench(bench: Bench, database: Database, jobs: int, batch: int) -> float:
    """Jobs per second by pgbench."""
    name = "finish_and_claim" if batch == 1 else "finish_and_claim_batch"
    load = Load(
        script=HERE / "pgq" / f"{name}.sql",
        clients=CLIENTS,
        body=BODY,
        batch=batch,
        transactions=jobs // batch // CLIENTS - 1,
    )
    outcome = bench.pgbench(database, load)
    return (outcome.transactions - CLIENTS) * batch / outcome.seconds  # the first finish nothing


def _done(worker: Worker | AsyncWorker, jobs: int) -> tuple[Callable[[], None], list[float]]:
    """Counts jobs; the times of the first and the last one. Stops the worker at the end."""
    times: list[float] = []
    count = itertools.count(1)

    def done() -> None:
        reached = next(count)
        if reached == 1 or reached == jobs:
            times.append(time.perf_counter())
            if reached == jobs:
                worker.stop()

    return done, times


def _rate(times: Sequence[float], jobs: int, batch: int) -> float:
    # The first claims came before the first job, the last acks after the last one.
    return (jobs - CLIENTS * batch) / (times[-1] - times[0])


def by_threads(bench: Bench, database: Database, jobs: int, batch: int) -> float:
    """Jobs per second by the worker in threads."""
    worker = Worker(database.dsn, concurrency=CLIENTS)
    done, times = _done(worker, jobs)
    if batch == 1:
        worker.handler("bench")(lambda body: done())
    else:
        worker.handler("bench", prefetch=batch, idempotent=True)(lambda body: done())
    thread = threading.Thread(target=worker.run)
    thread.start()
    thread.join()
    return _rate(times, jobs, batch)


def by_tasks(bench: Bench, database: Database, jobs: int, batch: int) -> float:
    """Jobs per second by the worker in tasks."""

    async def run() -> list[float]:
        worker = AsyncWorker(database.dsn, concurrency=CLIENTS)
        done, times = _done(worker, jobs)

        async def handle(body: Any) -> None:
            done()

        if batch == 1:
            worker.handler("bench")(handle)
        else:
            worker.handler("bench", prefetch=batch, idempotent=True)(handle)
        await worker.run()
        return times

    return _rate(asyncio.run(run()), jobs, batch)


def singly(bench: Bench, database: Database, messages: int, _: int) -> float:
    """Messages per second by single publishes on one connection."""

    async def run() -> float:
        connection = await psycopg.AsyncConnection.connect(database.dsn, autocommit=True)
        client = AsyncClient(connection)
        start = time.perf_counter()
        for _ in range(messages):
            await client.publish("bench", body=b"x" * BODY)
        took = time.perf_counter() - start
        await connection.close()
        return messages / took

    return asyncio.run(run())


def by_producer(bench: Bench, database: Database, messages: int, _: int) -> float:
    """Messages per second by the producer, for tasks that each wait for their answer."""
    messages *= 5

    async def run() -> float:
        async with AsyncProducer("bench", conninfo=database.dsn, linger=0.005) as producer:

            async def caller() -> None:
                for _ in range(messages // TASKS):
                    await producer.publish(body=b"x" * BODY)

            await producer.publish(body=b"first")
            start = time.perf_counter()
            await asyncio.gather(*(caller() for _ in range(TASKS)))
            return messages / (time.perf_counter() - start)

    return asyncio.run(run())


def processor_seconds(server: int) -> float:
    """What this process, what it has started and waited for, and the server have computed."""
    own = os.times()
    seconds = own.user + own.system + own.children_user + own.children_system
    parent = psutil.Process(server)
    waited = parent.cpu_times()
    seconds += waited.children_user + waited.children_system
    for process in (parent, *parent.children()):
        with suppress(psutil.NoSuchProcess):  # it counts as one that the server has waited for
            times = process.cpu_times()
            seconds += times.user + times.system
    return seconds


Way = Callable[[Bench, Database, int, int], float]

WORKERS: dict[str, Way] = {"pgbench": by_pgbench, "threads": by_threads, "tasks": by_tasks}
PRODUCERS: dict[str, Way] = {"singly": singly, "producer": by_producer}
TARGETS: Mapping[str, float] = {"threads": 0.6, "tasks": 0.6, "producer": 5}


@dataclass(kw_only=True)
class Series:
    """The rounds of one way to do something."""

    what: str
    by: str
    rates: list[float] = field(default_factory=list)
    computed: list[float] = field(default_factory=list)
    """Seconds of processor time for a job."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A way beside the one that it is compared with, which is itself one of them."""

    own: Series
    base: Series

    @property
    def ratio(self) -> float:
        """The median of the ratios within a round."""
        pairs = zip(self.own.rates, self.base.rates, strict=True)
        return statistics.median(own / base for own, base in pairs)

    @property
    def target(self) -> float | None:
        """What the ratio is to be."""
        return TARGETS.get(self.own.by)

    @property
    def met(self) -> bool | None:
        """Whether it is reached."""
        return None if self.target is None else self.ratio >= self.target

    def row(self) -> list[str]:
        """A line of the table."""
        rate, computed = statistics.median(self.own.rates), statistics.median(self.own.computed)
        return [
            self.own.what,
            self.own.by,
            f"{rate:,.0f}",
            f"{self.ratio:.2f}",
            "" if self.target is None else f">= {self.target:g}",
            {None: "", True: "pass", False: "MISS"}[self.met],
            f"{computed * 1e6:,.1f}",
            f"{statistics.median(self.base.computed) / computed:.2f}",
        ]

    def written(self) -> Mapping[str, object]:
        """For JSON."""
        return {**vars(self.own), "ratio": self.ratio, "target": self.target, "met": self.met}


HEADING = ["what", "by", "per second", "ratio", "target", "", "µs of processor", "ratio"]


def measure(
    bench: Bench, what: str, ways: dict[str, Way], prepare: Callable[[Database], None],
    chosen: argparse.Namespace, batch: int,
) -> list[Figure]:  # fmt: skip
    """The rounds of each way, each time in a fresh database; compared with the first."""
    found = {name: Series(what=what, by=name) for name in ways}
    server = bench.server_process
    for _ in range(chosen.rounds):
        for name in random.sample(list(ways), len(ways)):
            database = bench.fresh("worker", template="template_worker")
            prepare(database)
            bench.checkpoint()
            jobs = chosen.jobs if batch > 1 else chosen.jobs // 4
            before = processor_seconds(server)
            rate = ways[name](bench, database, jobs, batch)
            time.sleep(0.2)  # until the sessions have ended, and count
            took = processor_seconds(server) - before
            computed = took / jobs / (5 if name == "producer" else 1)
            found[name].rates.append(rate)
            found[name].computed.append(computed)
            print(f"  {what}, {name}: {rate:,.0f} per second, {computed * 1e6:,.1f} µs",
                  file=sys.stderr)  # fmt: skip
    base = next(iter(found.values()))
    return [Figure(own=series, base=base) for series in found.values()]


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="worker.py", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--wal", type=int, default=1, help="gigabytes of WAL to write before")
    parser.add_argument("--pg-bin", type=Path, help="folder with the PostgreSQL programs to use")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    chosen = parser.parse_args(arguments)
    if chosen.jobs < 2000 or chosen.jobs % 1000 or chosen.rounds < 1:
        parser.error("jobs are thousands, two at least; rounds start at 1")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 0 when every run was sound, whatever the targets."""
    chosen = options(arguments)
    figures: list[Figure] = []

    def topic(database: Database) -> None:
        with database.connect() as connection:
            Client(connection).admin.create_topic("bench")

    try:
        with Bench(bin_dir=chosen.pg_bin, wal_gigabytes=chosen.wal) as bench:
            description = {
                "revision": commit_of(HERE),
                **bench.description(),
                "runs": f"{chosen.rounds} rounds of {chosen.jobs} jobs, a quarter one at a time",
            }
            bench.install("template_worker", install_script())
            for batch, jobs in ((1, chosen.jobs // 4 // 1000 * 1000 + 1000), (100, chosen.jobs)):
                figures += measure(
                    bench, f"{batch} at a time, {CLIENTS} clients", WORKERS,
                    lambda database, jobs=jobs: fill(database, jobs), chosen, batch,
                )  # fmt: skip
            figures += measure(bench, f"publish, {TASKS} tasks", PRODUCERS, topic, chosen, 1)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    print(*(f"- {name}: {value}" for name, value in description.items()), "", sep="\n")
    print(plain_table([HEADING, *(one.row() for one in figures)], numbers={2, 3, 6, 7}))
    if chosen.json is not None:
        written = {"machine": description, "figures": [one.written() for one in figures]}
        chosen.json.write_text(json.dumps(written, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
