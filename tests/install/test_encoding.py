"""A database whose encoding is SQL_ASCII: nothing is installed in it, and clients say why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import psycopg
import pytest

import pgq
from pgq.__main__ import main
from pgq.embedded import Server
from pgq.migrate import MigrationError, migrate
from pgq.worker import Handlers, Worker
from support.install import ROUTES

SAID = "the database has the encoding SQL_ASCII, which cannot hold JSON escapes"
HINT = "HINT: create database NAME encoding 'UTF8' template template0;"


@pytest.fixture
def ascii_database(server: Server, empty_database: str) -> Iterator[str]:
    """The name of an empty database with that encoding."""
    name = f"{empty_database}_ascii"
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(
            f"create database {name} template template0 encoding 'SQL_ASCII' locale 'C'".encode()
        )
        yield name
        admin.execute(f"drop database {name} with (force)".encode())


@pytest.mark.parametrize("route", ROUTES)
def test_nothing_is_installed(server: Server, ascii_database: str, route: str) -> None:
    with pytest.raises((RuntimeError, MigrationError), match=SAID):
        ROUTES[route](server, ascii_database)
    with psycopg.connect(server.dsn_for(ascii_database)) as connection:
        assert connection.execute("select to_regnamespace('pgq')").fetchone() == (None,)
        with pytest.raises(psycopg.ProgrammingError, match=SAID):
            migrate(connection)


def test_commands(server: Server, ascii_database: str, capfd: pytest.CaptureFixture[str]) -> None:
    dsn = server.dsn_for(ascii_database)
    assert main(["migrate", "--database", dsn]) == 1
    assert capfd.readouterr().err == f"pgq: {SAID}; {HINT}\n"
    assert main(["doctor", "--json", "--database", dsn]) == 1
    found = [one["what"] for one in json.loads(capfd.readouterr().out)["findings"]]
    assert "the database has the encoding SQL_ASCII" in found


def test_clients(server: Server, ascii_database: str) -> None:
    """It may have been made by a restore."""
    dsn = server.dsn_for(ascii_database)
    handlers = Handlers()
    handlers.handler("mail")(lambda payload: None)
    for call in (
        lambda: pgq.connect(dsn),
        lambda: asyncio.run(pgq.connect_async(dsn)),
        lambda: Worker(dsn, handlers).run(),
    ):
        with pytest.raises(psycopg.ProgrammingError, match=f"{SAID}.*{HINT}"):
            call()
