"""Fixtures for pytest: ``pytest_plugins = ["pgq.testing.plugin"]`` in the conftest.py at the root.

`pgq_database` is the connection string of a database of the test's own, in which pgq is installed;
`pgq_client` is a client of it in autocommit. The server is that of DATABASE_URL, whose role has to
be able to create databases, or else an embedded one for each process of the run.
"""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pgq
from pgq._conninfo import parsed
from pgq._extras import install
from pgq.migrate import migrate

if TYPE_CHECKING:
    from typing_extensions import LiteralString

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

Address = Callable[[str], str]
"""The connection string of the database of a name."""


@pytest.fixture(scope="session")
def _pgq_address() -> Iterator[Address]:
    url = os.environ.get("DATABASE_URL")
    if url:
        yield lambda name: _renamed(url, name)
        return
    try:
        from pgq.embedded import Server
    except ModuleNotFoundError as error:
        raise pytest.fail.Exception(f"{error}, or set DATABASE_URL", pytrace=False) from None
    with Server(settings=FAST) as server:
        yield server.dsn_for


@pytest.fixture(scope="session")
def _pgq_template(_pgq_address: Address) -> Iterator[str]:
    with _database(_pgq_address) as name:
        migrate(_pgq_address(name))
        yield name


@pytest.fixture
def pgq_database(_pgq_address: Address, _pgq_template: str) -> Iterator[str]:
    """The connection string of a database with pgq that is dropped after the test."""
    with _database(_pgq_address, _pgq_template) as name:
        yield _pgq_address(name)


@pytest.fixture
def pgq_client(pgq_database: str) -> Iterator[pgq.Client]:
    """A client of `pgq_database`."""
    with pgq.connect(pgq_database) as client:
        yield client


def _renamed(url: str, name: str) -> str:
    if "://" in url:
        return urlsplit(url)._replace(path=f"/{name}").geturl()
    return make_conninfo(url, dbname=name)


@contextmanager
def _database(address: Address, template: str | None = None) -> Iterator[str]:
    """Create a database, and drop it in the end."""
    name = f"pgq_test_{secrets.token_hex(8)}"
    place = os.environ.get("DATABASE_URL") or address("postgres")
    parsed(place)
    with psycopg.connect(place, autocommit=True) as connection:
        # copied as files: through the log, hundreds of small tables take five times as long
        files = connection.info.server_version >= 150000
        statement = sql.SQL("create database {} template {} {} {}").format(
            sql.Identifier(name),
            sql.Identifier(template or "template0"),
            sql.SQL("strategy file_copy" if files else ""),
            sql.SQL("" if template else _encoding(connection)),
        )
        try:
            connection.execute(statement)
        except psycopg.errors.InsufficientPrivilege:
            raise pytest.fail.Exception(
                f"the role {connection.info.user} of DATABASE_URL lacks CREATEDB: "
                f'alter role "{connection.info.user}" createdb, or unset DATABASE_URL, for a '
                f"server of the run's own: {install('embedded')}",
                pytrace=False,
            ) from None
        try:
            yield name
        finally:
            _drop(connection, name)


def _drop(connection: psycopg.Connection[Any], name: str) -> None:
    # Only a superuser may end autovacuum's worker, and the sessions of other roles. DROP without
    # FORCE cancels autovacuum, and waits 5 seconds for sessions to end.
    for force in ("with (force)", "", "with (force)"):
        try:
            connection.execute(
                sql.SQL("drop database {} {}").format(sql.Identifier(name), sql.SQL(force))
            )
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectInUse) as error:
            said = error.diag.message_primary
        else:
            return
    warnings.warn(f"the database {name} was not dropped: {said}", stacklevel=1)


def _encoding(connection: psycopg.Connection[Any]) -> LiteralString:
    """UTF8, and where the server was made with another encoding the locale that fits all."""
    [same] = connection.execute(
        "select encoding = pg_char_to_encoding('UTF8') from pg_database where datname = 'template0'"
    ).fetchone() or (True,)
    return "encoding 'UTF8'" + ("" if same else " lc_collate 'C' lc_ctype 'C'")
