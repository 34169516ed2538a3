"""The tests of this folder share one database and keep apart by names."""

from __future__ import annotations

import pytest

from support.clock import Clock


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


@pytest.fixture
def clock(shared_clock: Clock) -> Clock:
    """The database's clock; it is set right again at the end of the test."""
    return shared_clock
