"""The same messages in topics of few and of many partitions, read by streams and in batches."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.spark_writing import Place

__all__ = ["fill", "read", "stream"]

BATCH = 100_000
"""How many messages a micro-batch has at most."""


def fill(*counts: int) -> Callable[[Place], None]:
    """A topic for each number of partitions, with all rows."""

    def publish(place: Place) -> None:
        with place.database.connect() as connection:
            for count in counts:
                connection.execute("select pgq.create_topic(%s, %s)", [_name(count), count])
                connection.execute(
                    "select pgq.publish_batch(%(topic)s, partition => p, bodies => array("
                    " select convert_to('{\"id\": ' || i || repeat('x', 180) || '}', 'UTF8')"
                    " from generate_series(1, least(%(each)s, c + 9999) - c + 1) as i))"
                    " from generate_series(0, %(count)s - 1) as p,"
                    " generate_series(1, %(each)s, 10000) as c",
                    {"topic": _name(count), "count": count, "each": place.rows // count},
                )
        place.database.run("vacuum analyze")

    return publish


def stream(partitions: int) -> Callable[[Place], None]:
    """A stream from the beginning to the end."""

    def consume(place: Place) -> None:
        from pgq.spark import register

        register(place.spark)
        reader = place.spark.readStream.format("pgq").option("maxOffsetsPerTrigger", BATCH)
        query = (
            _located(reader, place, partitions)
            .option("startingOffsets", "earliest")
            .load()
            .writeStream.format("noop")
            .trigger(availableNow=True)
        )
        with tempfile.TemporaryDirectory() as folder:
            running = query.option("checkpointLocation", str(Path(folder))).start()
            running.awaitTermination()

    return consume


def read(partitions: int) -> Callable[[Place], None]:
    """All of it by Spark's JDBC source."""

    def fetch(place: Place) -> None:
        frame = place.broker().read(topic=_name(partitions))
        frame.write.format("noop").mode("overwrite").save()

    return fetch


def _located(reader: Any, place: Place, partitions: int) -> Any:
    return (
        reader.option("url", place.url)
        .option("user", "postgres")
        .option("topic", _name(partitions))
    )


def _name(partitions: int) -> str:
    return f"of_{partitions}"
