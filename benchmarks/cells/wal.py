"""Bytes of write-ahead log, from empty tables and without a checkpoint on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.cells.base import Cell, Length
from benchmarks.harness import Bench
from benchmarks.pgbench import Load
from benchmarks.systems import System

__all__ = ["JobWal", "PublishWal"]


@dataclass(frozen=True, kw_only=True)
class PublishWal(Cell):
    """WAL of publishing in batches, with so many queues subscribed to the topic."""

    scripts: Mapping[str, str]
    queues: int = 0
    batch: int = 100
    transactions: int = 300

    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        database = self.fresh(bench, system)
        system.do(bench, database, "create_topic", partitions=8)
        if self.queues:
            system.do(bench, database, "subscribe", queues=self.queues)
        bench.checkpoint()
        load = Load(
            script=system.script(self.scripts[system.kind]),
            batch=self.batch,
            transactions=self.transactions,
        )
        bench.pgbench(database, load)  # the pages touched first are written to the WAL in full
        start = bench.wal_position()
        bench.pgbench(database, load)
        messages = self.transactions * self.batch
        size = (bench.wal_position() - start) / messages
        system.check(bench, database, "log", messages=2 * messages)
        return {"wal": size}

    def runs(self, system: str) -> bool:
        return system in self.scripts

    def scripts_of(self, system: str) -> Sequence[str]:
        return [self.scripts[system]]


@dataclass(frozen=True, kw_only=True)
class JobWal(Cell):
    """WAL of a job's life."""

    enqueue: str
    scripts: Mapping[str, str]
    body: int
    batch: int = 1
    clients: int = 4
    jobs: int = 20_000

    def measure(self, bench: Bench, system: System, length: Length) -> Mapping[str, float]:
        database = self.fresh(bench, system)
        system.do(bench, database, "create_queue")
        bench.checkpoint()
        transactions = self.jobs // self.clients // self.batch
        load = Load(
            script=system.script(self.enqueue),
            clients=self.clients,
            body=self.body,
            batch=self.batch,
            transactions=transactions + max(transactions // 10, 1),
        )
        start = bench.wal_position()
        enqueued = bench.pgbench(database, load).transactions * self.batch
        between = bench.wal_position()
        work = Load(
            script=system.script(self.scripts[system.kind]),
            clients=self.clients,
            batch=self.batch,
            transactions=transactions,
        )
        finished = bench.pgbench(database, work).transactions * self.batch
        end = bench.wal_position()
        system.check(bench, database, "queue", waiting=enqueued - finished, finished=finished)
        written, worked = (between - start) / enqueued, (end - between) / finished
        return {"enqueue": written, "finish": worked, "life": written + worked}

    def runs(self, system: str) -> bool:
        return system in self.scripts

    def scripts_of(self, system: str) -> Sequence[str]:
        return [self.enqueue, self.scripts[system]]
