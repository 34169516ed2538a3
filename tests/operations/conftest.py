"""A database for the tests of this folder: cleanup touches everything, so each finds it empty."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from databases import Databases
from jobs import AnyConnection
from support import Clock


@pytest.fixture(scope="session")
def cleaned_dsn(databases: Databases) -> Iterator[str]:
    """The connection string of that database; its clock can be moved."""
    with databases.copy("cleaned") as dsn:
        Clock(dsn).install()
        yield dsn


def _empty(connection: AnyConnection) -> None:
    """Remove all rows, but no leaf that was added."""
    connection.execute("set session_replication_role = replica")
    tables = connection.execute(
        "select relname from pg_class where relnamespace = 'pgq'::regnamespace"
        " and relkind = 'r' and not relispartition and relname not in ('leaf', 'view_key')"
    ).fetchall()
    for (table,) in tables:
        connection.execute(sql.SQL("delete from pgq.{}").format(sql.Identifier(table)))
    connection.execute("update pgq.leaf set free = true")
    used = connection.execute(
        "select relname from pg_class where relnamespace = 'pgq'::regnamespace"
        " and relkind = 'r' and relispartition and pg_relation_size(oid) > 0"
    ).fetchall()
    for (leaf,) in used:
        connection.execute(sql.SQL("truncate pgq.{}").format(sql.Identifier(leaf)))


@pytest.fixture
def dsn(cleaned_dsn: str) -> str:
    """In place of a fresh database for each test."""
    with psycopg.connect(cleaned_dsn) as connection:
        _empty(connection)
    return cleaned_dsn


@pytest.fixture
def clock(cleaned_dsn: str) -> Iterator[Clock]:
    """The database's clock; it is set right again at the end of the test."""
    clock = Clock(cleaned_dsn)
    yield clock
    clock.reset()
