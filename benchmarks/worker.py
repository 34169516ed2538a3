"""What the worker and the producer reach, beside the calls that they stand on.

The worker does filled queues, beside pgbench that calls finish_and_claim with as many clients. The
producer publishes for 100 tasks, beside single publishes on one connection. They take turns within
a round; the result is the median of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import psycopg  # noqa: E402
from benchmarks.harness import Bench, BenchmarkError, Database, commit_of  # noqa: E402
from benchmarks.pgbench import Load  # noqa: E402
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
        client.create_queue("bench")
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
    return bench.pgbench(database, load).rate * batch


def _done(worker: Worker | AsyncWorker, jobs: int) -> tuple[Callable[[int], None], list[float]]:
    """Counts jobs; the times of the first and the last one. Stops the worker at the end."""
    times: list[float] = []
    count = itertools.count(1)

    def done(number: int) -> None:
        for _ in range(number):
            reached = next(count)
        if not times:
            times.append(time.perf_counter())
        if reached >= jobs:
            times.append(time.perf_counter())
            worker.stop()

    return done, times


def by_threads(bench: Bench, database: Database, jobs: int, batch: int) -> float:
    """Jobs per second by the worker in threads."""
    worker = Worker(database.dsn, concurrency=CLIENTS)
    done, times = _done(worker, jobs)
    if batch == 1:
        worker.handler("bench")(lambda body: done(1))
    else:
        worker.handler("bench", prefetch=batch, idempotent=True)(lambda body: done(1))
    thread = threading.Thread(target=worker.run)
    thread.start()
    thread.join()
    return jobs / (times[-1] - times[0])


def by_tasks(bench: Bench, database: Database, jobs: int, batch: int) -> float:
    """Jobs per second by the worker in tasks."""

    async def run() -> list[float]:
        worker = AsyncWorker(database.dsn, concurrency=CLIENTS)
        done, times = _done(worker, jobs)

        async def handle(body: Any) -> None:
            done(1)

        if batch == 1:
            worker.handler("bench")(handle)
        else:
            worker.handler("bench", prefetch=batch, idempotent=True)(handle)
        await worker.run()
        return times

    times = asyncio.run(run())
    return jobs / (times[-1] - times[0])


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


Way = Callable[[Bench, Database, int, int], float]

WORKERS: dict[str, Way] = {"pgbench": by_pgbench, "threads": by_threads, "tasks": by_tasks}
PRODUCERS: dict[str, Way] = {"singly": singly, "producer": by_producer}


def measure(
    bench: Bench, ways: dict[str, Way], prepare: Callable[[Database], None], chosen: Any, batch: int
) -> dict[str, float]:
    """The median rate of each way, each time in a fresh database."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(chosen.rounds):
        for name in random.sample(list(ways), len(ways)):
            database = bench.fresh("worker", template="template_worker")
            prepare(database)
            bench.checkpoint()
            found[name].append(ways[name](bench, database, chosen.jobs, batch))
            print(f"{name}, {batch} at a time: {found[name][-1]:,.0f}", file=sys.stderr)
    return {name: statistics.median(rates) for name, rates in found.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 0 when every run was sound."""
    parser = argparse.ArgumentParser(prog="worker.py", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--wal", type=int, default=1, help="gigabytes of WAL to write before")
    parser.add_argument("--pg-bin", type=Path, help="folder with the PostgreSQL programs to use")
    chosen = parser.parse_args(arguments)
    lines = ["| what | by | per second | ratio |", "|---|---|---|---|"]

    def report(what: str, found: dict[str, float]) -> None:
        base = next(iter(found.values()))
        for name, rate in found.items():
            lines.append(f"| {what} | {name} | {rate:,.0f} | {rate / base:.2f} |")

    def topic(database: Database) -> None:
        with database.connect() as connection:
            Client(connection).create_topic("bench")

    try:
        with Bench(bin_dir=chosen.pg_bin, wal_gigabytes=chosen.wal) as bench:
            description = {"revision": commit_of(HERE), **bench.description()}
            bench.install("template_worker", install_script())
            for batch in (1, 100):
                found = measure(bench, WORKERS, lambda d: fill(d, chosen.jobs), chosen, batch)
                report(f"{batch} at a time, {CLIENTS} clients", found)
            report(f"publish, {TASKS} tasks", measure(bench, PRODUCERS, topic, chosen, 1))
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    print(*(f"- {name}: {value}" for name, value in description.items()), "", *lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
