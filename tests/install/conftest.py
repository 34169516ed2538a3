"""Databases without pgq, to install it into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from pgq.embedded import Server

_numbers = count(1)


@pytest.fixture
def create_database(server: Server) -> Iterator[Callable[[], str]]:
    """Create empty databases; they are dropped at the end of the test."""
    created: list[str] = []

    def create() -> str:
        name = f"install_{next(_numbers)}"
        server.run("psql", "-X", "-c", f"create database {name}")
        created.append(name)
        return name

    yield create
    for name in created:
        server.run("psql", "-X", "-c", f"drop database if exists {name} with (force)")


@pytest.fixture
def empty_database(create_database: Callable[[], str]) -> str:
    """The name of an empty database."""
    return create_database()
