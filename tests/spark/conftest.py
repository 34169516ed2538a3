"""Where the tests of Spark find their database, and what they do there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.session import Connect, Session
from support.shards import location_of
from support.stream import Stream

Location = tuple[str, dict[str, str]]


@pytest.fixture
def location(dsn: str) -> Location:
    """The test's own database, as JDBC names it: URL and properties."""
    return location_of(dsn)


@pytest.fixture
def broker(spark: Any, location: Location) -> Any:
    """Pgq on the test's own database."""
    from pgq.spark import Pgq

    return Pgq(spark, *location)


@pytest.fixture
def stage(connect: Connect, location: Location) -> Any:
    """The test's database with a topic, and means to stop a write on its way."""
    from support.stage import Stage

    return Stage(connect, location)


@pytest.fixture
def own(connection: psycopg.Connection[Any]) -> Session:
    """The log in a database of the test's own."""
    return connection


@pytest.fixture
def stream(spark: Any, location: Location, dsn: str, tmp_path: Path) -> Iterator[Stream]:
    """A stream with a checkpoint of its own; its queries are stopped at the end."""
    from pgq.spark import PgqDataSource

    spark.dataSource.register(PgqDataSource)
    yield Stream(spark, location, dsn, tmp_path / "checkpoint")
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def save(spark: Any, location: Location) -> Any:
    """Write a DataFrame to the test's own database, by the data source."""
    from pgq.spark import PgqDataSource

    spark.dataSource.register(PgqDataSource)
    url, properties = location

    def write(frame: Any, mode: str = "append", **options: object) -> None:
        settings = {"url": url, **properties, **options}
        # in another thread Spark knows no data source before it has an active session there
        spark.createDataFrame([], "nothing int")
        frame.write.format("pgq").mode(mode).options(**settings).save()

    return write


@pytest.fixture
def plain(spark: Any) -> str:
    """The name of the source as Spark before 4.2 gets it."""
    from pgq.spark import PgqDataSource
    from pgq.spark._source import _PlainStreamReader
    from pgq.spark._spread import _PlainSpreadReader

    class PlainSource(PgqDataSource):
        # so that the workers get it by value
        __module__ = "__main__"

        @classmethod
        def name(cls) -> str:
            return "pgq_plain"

        def streamReader(self, schema: Any) -> Any:  # noqa: N802
            shards = self._parsed(schema)
            readers = [_PlainStreamReader(options) for options in shards]
            return readers[0] if len(readers) == 1 else _PlainSpreadReader(readers, shards)

    spark.dataSource.register(PlainSource)
    return PlainSource.name()
