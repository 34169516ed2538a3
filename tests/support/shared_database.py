"""Fixtures for a folder whose tests share one database and keep apart by names.

Its conftest.py imports them, and they stand in place of those for a fresh database.
"""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.queue import new_queue
from support.session import Session

__all__ = ["clock", "dsn", "queue"]


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
