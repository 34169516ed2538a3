"""The tests of this folder share one database, in which nothing is left when a test begins."""

from __future__ import annotations

import pytest

from support.clock import Clock


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return emptied_dsn


@pytest.fixture
def clock(emptied_clock: Clock) -> Clock:
    """The database's clock; it is set right again at the end of the test."""
    return emptied_clock
