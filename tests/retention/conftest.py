"""A database for the tests of this folder: cleanup touches everything, so each finds it empty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from jobs import AnyConnection
from support import Clock


@pytest.fixture(scope="session")
def cleaned_dsn(postgresql_noproc: Any) -> Iterator[str]:
    """The connection string of that database; its clock can be moved."""
    place = {
        "host": postgresql_noproc.host,
        "port": postgresql_noproc.port,
        "user": postgresql_noproc.user,
        "password": postgresql_noproc.password or None,
    }
    name = f"{postgresql_noproc.dbname}_cleaned"
    drop = sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
    with psycopg.connect(
        make_conninfo("", dbname="postgres", **place), autocommit=True
    ) as connection:
        connection.execute(drop)
        connection.execute(
            sql.SQL("create database {} template {}").format(
                sql.Identifier(name), sql.Identifier(postgresql_noproc.template_dbname)
            )
        )
    dsn = make_conninfo("", dbname=name, **place)
    Clock(dsn).install()
    yield dsn
    with psycopg.connect(
        make_conninfo("", dbname="postgres", **place), autocommit=True
    ) as connection:
        connection.execute(drop)


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
    connection.execute("truncate pgq.message, pgq.job_archive")


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
