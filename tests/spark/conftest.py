"""One Spark session for the whole run: starting it takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgq.spark._local import SparkSetupError, local_session

Location = tuple[str, dict[str, str]]


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The session, with two threads; a task is tried up to four times, as on a cluster."""
    try:
        session = local_session("local[2,4]", "pgq tests", **{"spark.sql.shuffle.partitions": 2})
    except SparkSetupError as error:
        pytest.skip(str(error))
    yield session
    session.stop()


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
