"""Where the tests of Spark find their database."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

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
