"""Where the tests of Spark find their database, and what they do there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq.local_spark import SparkSetupError, find_java, find_jdbc_driver
from support.cluster import Cluster, Driver
from support.session import Connect, Session
from support.shards import location_of
from support.stream import Stream

Location = tuple[str, dict[str, str]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster for the tests of a module."""
    try:
        find_java()
        find_jdbc_driver()
    except SparkSetupError as error:
        pytest.skip(str(error))
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def driver(cluster: Cluster) -> Iterator[Driver]:
    """The driver on the cluster."""
    with Driver(cluster.url, cluster.folder / "driver.log") as started:
        yield started


@pytest.fixture
def local_driver(cluster: Cluster, tmp_path: Path) -> Iterator[Driver]:
    """A driver that is its own executor, for a test that kills it."""
    with Driver("local[2]", tmp_path / "driver.log") as started:
        yield started


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
    from pgq.spark import register

    register(spark)
    yield Stream(spark, location, dsn, tmp_path / "checkpoint")
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def save(spark: Any, location: Location) -> Any:
    """Write a DataFrame to the test's own database, by the data source."""
    from pgq.spark import register

    register(spark)
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
