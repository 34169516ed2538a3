"""Spark's ways to write to a database: the raw ones, and those of pgq."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Bench, Database

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "TOPIC",
    "Place",
    "copy_json",
    "copy_keyed",
    "copy_rows",
    "jdbc_rows",
    "pgq_publish",
    "pgq_save",
]

TOPIC = "bench"


@dataclass
class Place:
    """The database, the session and the rows of one measurement."""

    bench: Bench
    spark: SparkSession
    database: Database
    frame: DataFrame
    rows: int

    @property
    def url(self) -> str:
        """For the JDBC driver."""
        from psycopg.conninfo import conninfo_to_dict

        place = conninfo_to_dict(self.database.dsn)
        return f"jdbc:postgresql://{place['host']}:{place['port']}/{place['dbname']}"

    def broker(self) -> Any:
        """pgq in that database."""
        from pgq.spark import Pgq

        return Pgq(self.spark, self.url, {"user": "postgres"})

    def properties(self) -> dict[str, str]:
        """What the raw ways get as well: the settings that read fastest."""
        return {
            "user": "postgres",
            "driver": "org.postgresql.Driver",
            "prepareThreshold": "-1",
            "fetchsize": "10000",
        }


def copy_rows(place: Place, *columns: str) -> None:
    """Each task copies its rows into a table with one index, by psycopg and in binary form."""
    dsn = place.database.dsn
    columns = columns or ("body",)
    kinds = {"body": "bytea", "key": "text", "payload": "jsonb"}

    def copy(batches: Iterator[Any]) -> Iterator[Any]:
        import psycopg
        import pyarrow as pa

        types = [kinds[name] for name in columns]
        command = f"copy plain ({', '.join(columns)}) from stdin (format binary)"
        with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
            with cursor.copy(command.encode()) as stream:
                stream.set_types(types)
                for batch in batches:
                    for row in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                        stream.write_row(row)
        yield pa.RecordBatch.from_pydict({"done": pa.array([1], pa.int32())})

    given = {"body": "cast(value as binary)", "key": "key", "payload": "value"}
    rows = place.frame.selectExpr(*(f"{given[name]} as {name}" for name in columns))
    rows.mapInArrow(copy, "done int").collect()  # type: ignore[arg-type]


def copy_keyed(place: Place) -> None:
    """The same with a key for each row."""
    copy_rows(place, "key", "body")


def copy_json(place: Place) -> None:
    """The same into a column of JSON."""

    dsn = place.database.dsn

    def copy(batches: Iterator[Any]) -> Iterator[Any]:
        import psycopg
        import pyarrow as pa

        with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
            with cursor.copy(b"copy plain (payload) from stdin") as stream:
                for batch in batches:
                    for value in batch.column(0).to_pylist():
                        stream.write_row((value,))
        yield pa.RecordBatch.from_pydict({"done": pa.array([1], pa.int32())})

    rows = place.frame.select("value")
    rows.mapInArrow(copy, "done int").collect()  # type: ignore[arg-type]


def jdbc_rows(place: Place) -> None:
    """Spark's own JDBC writer, a row for each row, into a table with one index."""
    (
        place.frame.selectExpr("cast(value as binary) as body")
        .write.format("jdbc")
        .options(url=place.url, dbtable="plain", reWriteBatchedInserts="true", batchsize="5000")
        .options(**place.properties())
        .mode("append")
        .save()
    )


def pgq_publish(*columns: str, atomic: bool) -> Callable[[Place], None]:
    """Publish these columns: staged with one commit, or by chunks that are seen as they come."""

    def publish(place: Place) -> None:
        frame = place.frame.selectExpr(*columns)
        place.broker().publish(frame, topic=TOPIC, producer="bench", seq=1, atomic=atomic)

    return publish


def pgq_save(*columns: str, **options: str) -> Callable[[Place], None]:
    """Write these columns by the data source, which stages them by psycopg."""

    def save(place: Place) -> None:
        from pgq.spark import register

        register(place.spark)
        (
            place.frame.selectExpr(*columns)
            .write.format("pgq")
            .mode("append")
            .options(url=place.url, user="postgres", topic=TOPIC, producer="bench", seq=1)
            .options(**options)
            .save()
        )

    return save
