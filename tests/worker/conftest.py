"""Each test runs with the worker in threads and the one in tasks, in a database that they share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pgq.worker import AsyncWorker, Worker
from support.clock import Clock
from support.working import emptied, handler_for


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """The connection string of a database with pgq and no queue."""
    return emptied(shared_dsn)


@pytest.fixture(params=[Worker, AsyncWorker], ids=["threads", "tasks"])
def kind(request: pytest.FixtureRequest) -> type[Worker] | type[AsyncWorker]:
    """The class of the worker."""
    found: type[Worker] | type[AsyncWorker] = request.param
    return found


@pytest.fixture
def as_handler(kind: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a handler of a plain function."""
    return partial(handler_for, kind)


@pytest.fixture
def clock(dsn: str, shared_clock: Clock) -> Clock:
    """The clock of that database."""
    return shared_clock
