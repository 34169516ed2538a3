"""Where the tests of Spark find their database, and what they do there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from support.session import Connect, Session
from support.stream import Stream

Location = tuple[str, dict[str, str]]


def location_of(dsn: str) -> Location:
    """A psycopg connection string as a JDBC URL and properties."""
    place = conninfo_to_dict(dsn)
    host, port = place.get("host", "localhost"), place.get("port", 5432)
    properties = {name: str(place[name]) for name in ("user", "password") if place.get(name)}
    return f"jdbc:postgresql://{host}:{port}/{place['dbname']}", properties


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
