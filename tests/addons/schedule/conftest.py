"""The tests of this folder share one database, in which no schedule is left when a test begins."""

from __future__ import annotations

import psycopg
import pytest

from support.clock import Clock
from support.queue import new_queue
from support.session import Session


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    with psycopg.connect(shared_dsn) as connection:
        connection.execute("delete from pgq.schedule")
    return shared_dsn


@pytest.fixture
def clock(shared_clock: Clock) -> Clock:
    """The database's clock; it is set right again at the end of the test."""
    return shared_clock


@pytest.fixture
def queue(connection: Session) -> str:
    """A queue for the jobs of schedules, which live for as long as the clock may go."""
    return new_queue(connection, no_limit=["job_ttl"])
