"""A PgBouncer before the database of the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.pooler import PgBouncer


@pytest.fixture
def pgbouncer(dsn: str) -> Iterator[PgBouncer]:
    """One that leads to the database of the test by two server connections."""
    pgbouncer = PgBouncer(dsn)
    try:
        pgbouncer.start()
        yield pgbouncer
    finally:
        pgbouncer.close()
