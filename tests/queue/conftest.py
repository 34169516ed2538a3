"""The tests of this folder share one database and keep apart by the names of their queues."""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.queue import new_queue
from support.session import Session


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


@pytest.fixture
def clock(shared_clock: Clock) -> Clock:
    """The database's clock; it is set right again at the end of the test."""
    return shared_clock


@pytest.fixture
def queue(connection: Session) -> str:
    """A queue with default settings but for the jitter, which would make delays random."""
    return new_queue(connection)
