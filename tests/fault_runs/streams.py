"""The client of a fault run that copies topics by streams of Spark."""

from __future__ import annotations

import itertools
import tempfile
from typing import Any

from fault_runs.client import Client, Role
from pgq.local_spark import local_session
from support.java import JAVA_OPTIONS
from support.shards import location_of

__all__ = ["COPIED", "COPIES", "STREAMS"]

COPIED = ("log", "bulk")
"""The topics that are read."""

COPIES = ("by-writer", "by-sink")
"""The topics that they are copied into, a stream for each; also its producer, and its group."""

SLOW = "Python worker failed to connect back"
"""Spark's error on a busy machine: it gives a Python worker 10 seconds to start, and no more."""


class Driver(Role):
    """A driver with a stream for each way of writing, both from their checkpoints."""

    def __init__(self, client: Client) -> None:
        from pgq.spark import Pgq, register

        super().__init__(client)
        self.folder = client.path.parent.parent / "spark"
        self.folder.mkdir(exist_ok=True)
        # a driver that is killed leaves its files behind
        tempfile.tempdir = str(self.folder)
        options = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": JAVA_OPTIONS}
        # a task is tried up to four times, as on a cluster
        self.spark = local_session("local[2,4]", "pgq fault run", **options)
        register(self.spark)
        url, properties = location_of(client.dsn)
        properties["ApplicationName"] = "pgq_fault_run"
        self.place = {"url": url, **properties}
        self.broker = Pgq(self.spark, url, properties)
        self.numbers = itertools.count()
        self.queries: dict[str, tuple[str, Any]] = {}

    def step(self) -> None:
        """Start what does not run, and note how it ended."""
        for copy in COPIES:
            unit, query = self.queries.get(copy, ("", None))
            if query is not None and query.isActive:
                continue
            if query is not None:
                error = str(query.exception())
                code = "" if SLOW in error else "ended"
                self.client.journal.note("failed", unit=unit, code=code, sure=False, error=error)
            unit = f"{self.client.name}/{copy}{next(self.numbers)}"
            self.client.journal.note("begin", unit=unit, role="stream", copy=copy)
            self.queries[copy] = (unit, self.start(copy))
        self.rest()

    def start(self, copy: str) -> Any:
        """Start a stream: by ``writeStream.format("pgq")``, or by ``foreachBatch``."""
        rows = (
            self.spark.readStream.format("pgq")
            .options(**self.place, subscribe=",".join(COPIED), startingOffsets="earliest")
            .option("consumerGroup", copy)
            .load()
        )
        checkpoint = str(self.folder / copy)
        if copy == "by-writer":
            writer = rows.writeStream.format("pgq").options(
                **self.place, topic=copy, producer=copy, valueFormat="json"
            )
        else:
            sink = self.broker.sink(topic=copy, producer=copy, transform=in_order)

            def write(frame: Any, batch: int) -> None:
                with self.client.unit("spark", single=True, batch=batch):
                    sink(frame, batch)

            writer = rows.writeStream.foreachBatch(write)
        return writer.option("checkpointLocation", checkpoint).start()


def in_order(frame: Any) -> Any:
    """The rows of a batch, those of a partition in its order: one task has all of them."""
    frame = frame.sortWithinPartitions("topic", "partition", "offset")
    return frame.selectExpr("key", "cast(value as string) as payload", "headers", "partition")


STREAMS = {"spark": Driver}
