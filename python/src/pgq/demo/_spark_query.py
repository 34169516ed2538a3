"""What Spark does in its demo: it adds flights up by route, in batch and as a stream."""

from __future__ import annotations

from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from pgq import Client
from pgq.demo._common import DemoError
from pgq.demo._spark_figures import FLIGHTS, ROUTES, ROUTES_LIVE, Outcome
from pgq.spark import Pgq

__all__ = ["Stream", "by_route", "location_of", "write_routes"]

PRODUCER = "pgq demo-spark"


def location_of(connection: psycopg.Connection[Any]) -> tuple[str, dict[str, str]]:
    """Where a psycopg connection leads, as JDBC names it: URL and properties."""
    info = connection.info
    # Java has no Unix sockets for this
    host = "localhost" if info.host.startswith("/") or not info.host else info.host
    host = f"[{host}]" if ":" in host else host
    sslmode = info.get_parameters().get("sslmode")
    properties = {"user": info.user, "password": info.password}
    return (
        f"jdbc:postgresql://{host}:{info.port}/{info.dbname}"
        + (f"?sslmode={sslmode}" if sslmode else ""),
        {name: value for name, value in properties.items() if value},
    )


def by_route(flights: DataFrame) -> DataFrame:
    """Add flights up: a message for each route, with columns that pgq publishes."""
    columns = "origin string, dest string, arr_delay int"
    flight = F.from_json(F.col("value").cast("string"), columns)
    return (
        flights.select(flight.alias("flight"))
        .select("flight.*")
        .groupBy("origin", "dest")
        .agg(
            F.count("*").alias("flights"),
            F.count("arr_delay").alias("timed"),
            F.coalesce(F.sum("arr_delay"), F.lit(0)).alias("minutes"),
        )
        .select(
            F.concat_ws("-", "origin", "dest").alias("key"),
            F.to_json(F.struct("origin", "dest", "flights", "timed", "minutes")).alias("payload"),
        )
    )


def write_routes(routes: DataFrame, location: tuple[str, dict[str, str]]) -> None:
    """Write by the data source, under a number: a second time it writes nothing."""
    url, properties = location
    (
        routes.write.format("pgq")
        .mode("append")
        .option("url", url)
        .options(**properties)
        .option("topic", ROUTES)
        .option("producer", PRODUCER)
        .option("seq", 1)
        .save()
    )


class _Crash(Exception):
    """Ends the stream in the middle."""


class Stream:
    """The streaming query: a topic, by routes, into another topic, batch by batch."""

    def __init__(
        self, session: SparkSession, client: Client, batch_size: int, outcome: Outcome
    ) -> None:
        url, properties = location_of(client.connection)
        self._source = (
            session.readStream.format("pgq")
            .option("url", url)
            .options(**properties)
            .option("topic", FLIGHTS)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(batch_size))
        )
        broker = Pgq(session, url, properties)
        self._write = broker.sink(topic=ROUTES_LIVE, producer=PRODUCER, transform=by_route)
        self._context = session.sparkContext
        self._outcome = outcome

    def start(self, checkpoint: str) -> StreamingQuery:
        """Start on what there is now; with a checkpoint that was used before, after that."""
        return (
            self._source.load()
            .writeStream.foreachBatch(self._write_batch)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )

    def _write_batch(self, frame: DataFrame, batch_id: int) -> None:
        self._write(frame, batch_id)
        self._outcome.batches[batch_id] += 1
        if batch_id == self._outcome.crashed_in and self._outcome.batches[batch_id] == 1:
            # The batch is written, and Spark has not noted that: no moment is worse. Spark would
            # tell about it in a hundred lines.
            self._context.setLogLevel("OFF")
            raise _Crash

    def has_written(self, batch_id: int) -> int:
        """How often Spark has had a batch written."""
        return self._outcome.batches[batch_id]

    def has_crashed(self, query: StreamingQuery) -> bool:
        """Whether the query has ended by the crash that was meant to be."""
        error = query.exception()
        if error is None:
            return False
        if _Crash.__name__ not in str(error):
            raise DemoError(f"the stream has failed: {error}")
        self._context.setLogLevel("ERROR")
        return True
