"""A streaming query from a topic into a table, that tests run again and again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.log import new_topic
from support.session import Session

__all__ = ["PASSWORD", "Stream", "needs_limits", "remove"]

Location = tuple[str, dict[str, str]]
PASSWORD = "S3CRET-of-the-stream"


class Stream:
    """A query from a topic to the table ``public.got``, with a checkpoint, run again and again."""

    source = "pgq"

    def __init__(self, spark: Any, location: Location, dsn: str, checkpoint: Path) -> None:
        url, properties = location
        self._spark = spark
        self._dsn = dsn
        self._options = {"url": url, **properties, "password": PASSWORD}
        self.checkpoint = checkpoint
        self.before_commit: Callable[[int], None] = lambda batch_id: None
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "create table public.got (batch bigint, partition int, log_offset bigint,"
                " value text, primary key (partition, log_offset, value))"
            )

    def start(self, topic: str, *, available_now: bool = True, **options: object) -> Any:
        """Start the query."""
        frame = (
            self._spark.readStream.format(self.source)
            .options(**self._options)
            .option("topic", topic)
            .options(**options)
            .load()
        )
        trigger = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
        return (
            frame.writeStream.option("checkpointLocation", str(self.checkpoint))
            .trigger(**trigger)
            .foreachBatch(self._write)
            .start()
        )

    def run(self, topic: str, **options: object) -> list[list[tuple[int, int]]]:
        """Run the query to the end of what is there; partition and offset of all that it got."""
        query = self.start(topic, **options)
        query.awaitTermination()
        return self.batches()

    def fail(self, topic: str, **options: object) -> str:
        """Run the query, which must fail, and return the error."""
        query = self.start(topic, **options)
        with pytest.raises(Exception, match="pgq") as caught:
            query.awaitTermination()
        return str(caught.value)

    def _write(self, frame: Any, batch_id: int) -> None:
        rows = [
            (batch_id, row["partition"], row["offset"], bytes(row["value"]).decode())
            for row in frame.collect()
        ]
        with psycopg.connect(self._dsn) as connection:
            # a row that comes twice is an error here
            connection.cursor().executemany("insert into public.got values (%s, %s, %s, %s)", rows)
            self.before_commit(batch_id)

    def batches(self) -> list[list[tuple[int, int]]]:
        """What came so far, by batch."""
        with psycopg.connect(self._dsn) as connection:
            rows = connection.execute(
                "select batch, partition, log_offset from public.got order by 1, 2, 3"
            ).fetchall()
        found: dict[int, list[tuple[int, int]]] = {}
        for batch, partition, offset in rows:
            found.setdefault(batch, []).append((partition, offset))
        return list(found.values())


def remove(log: Session, clock: Clock) -> None:
    """Let all that is stored become older than its retention, and truncate its segments."""
    log.publish(topic=new_topic(log, groups=()), payload=0)
    for move in ("3 days", "0", "8 days", "0"):
        clock.advance(move)
        log.cleanup()


def needs_limits() -> None:
    """Skip a test of limits where Spark has none."""
    import pyspark

    from pgq.spark import _source

    if not _source.HAS_LIMITS:
        pytest.skip(f"Spark {pyspark.__version__} has no limits for Python sources, 4.2 has")
