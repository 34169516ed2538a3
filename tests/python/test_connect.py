"""Clients with a connection of their own, and what is told of work that nobody has committed."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import warnings
from typing import Any

import psycopg
import pytest

import pgq
from pgq import AsyncClient, Client
from pgq.__main__ import main
from pgq.migrate import migrate
from pgq.worker import Handlers, Worker
from support.session import Connect


def test_a_client_with_a_connection_of_its_own(dsn: str, mail: Client) -> None:
    with pgq.connect(dsn, application_name="mine") as client:
        assert client.connection.autocommit
        assert client.connection.info.get_parameters()["application_name"] == "mine"
        client.enqueue("mail", 1)
        assert [job.payload for job in mail.claim_job("mail")] == [1]
    assert client.connection.closed


def test_in_tasks(dsn: str, mail: Client) -> None:
    async def steps() -> None:
        async with await pgq.connect_async(dsn) as client:
            await client.enqueue("mail", 1)
            assert [job.payload for job in mail.claim_job("mail")] == [1]
        assert client.connection.closed
        other = await pgq.connect_async(dsn)
        await other.close()
        assert other.connection.closed

    asyncio.run(steps())


def test_an_error_closes_it_too(dsn: str) -> None:
    with pytest.raises(KeyError), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pgq.connect(dsn, autocommit=False) as client:
            client.version()
            raise KeyError
    assert client.connection.closed


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda connection: Client("dbname=x"), r"Client takes a psycopg.Connection, not a str;"),
        (
            lambda connection: AsyncClient(connection),
            r"AsyncClient takes a psycopg.AsyncConnection, not a Session; pgq.connect_async\(con",
        ),
        (lambda connection: pgq.connect(connection), r"not a Session; Client\(connection\) uses"),
        (
            lambda connection: asyncio.run(pgq.connect_async(connection)),
            r"not a Session; AsyncClient\(connection\) uses",
        ),
        (lambda connection: pgq.connect("", encoder=3), "encoder is 3, must be a function"),
        (lambda connection: Client(connection, encoder="x"), "encoder is 'x', must be a function"),
        (lambda connection: Client(connection).close(), "is yours: close that"),
        (lambda connection: Client(connection).__enter__(), "is yours: close that"),
    ],
)
def test_what_is_refused(connection: Any, call: Any, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        call(connection)


def test_texts_that_come_as_bytes(dsn: str, mail: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "client_encoding of the connection is SQL_ASCII.*HINT: set it to UTF8"
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    with psycopg.connect(dsn) as connection, pytest.raises(psycopg.ProgrammingError, match=said):
        Client(connection)
    with pytest.raises(psycopg.ProgrammingError, match=said):
        pgq.connect(dsn)
    done: list[str] = []
    handlers = Handlers()
    handlers.handler("mail")(done.append)
    mail.enqueue("mail", "\u00e9")
    worker = Worker(dsn, handlers)  # its connections are its own
    worker.once = True
    worker.run()
    assert done == ["\u00e9"]


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("", "DATABASE_URL is not set, and no address was given"),
        ("postgresql://server", "no address was given: pass that of DATABASE_URL"),
    ],
)
def test_an_address_that_was_not_given(
    url: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOST", "/nowhere")
    monkeypatch.setenv("DATABASE_URL", url)
    for call in (pgq.connect, lambda: asyncio.run(pgq.connect_async()), lambda: migrate("")):
        with pytest.raises(psycopg.OperationalError, match="nowhere") as caught:
            call()
        assert str(caught.value).endswith(f"\nHINT:  {hint}")
    for options in ({"host": "/elsewhere"}, {"service": "none"}):
        with pytest.raises(psycopg.OperationalError) as caught:
            pgq.connect(**options)
        assert "HINT" not in str(caught.value)


def test_what_was_not_committed_is_told(dsn: str, mail: Client) -> None:
    client = pgq.connect(dsn, autocommit=False)
    client.enqueue("mail", 1)
    with pytest.warns(RuntimeWarning, match="nothing of it was committed"):
        client.close()
    assert mail.claim_job("mail") == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.close()
        with pgq.connect(dsn, autocommit=False) as client:
            client.enqueue("mail", 2)
            client.connection.commit()
    assert [job.payload for job in mail.claim_job("mail")] == [2]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_connection_that_is_forgotten(dsn: str) -> None:
    connections = [psycopg.connect(dsn)]
    for _ in range(2):
        Client(connections[0]).version()
    with pytest.warns(RuntimeWarning, match="nothing of it was committed") as told:
        connections.clear()
    assert len([one for one in told if one.category is RuntimeWarning]) == 1


def test_a_connection_that_ends_well(connect: Connect) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = connect()
        Client(session).version()
        session.commit()
        session.close()
        del session
        gc.collect()


def test_a_program_that_ends(dsn: str) -> None:
    script = "import sys, psycopg, pgq; c = psycopg.connect(sys.argv[1]); pgq.Client(c).version()"
    done = subprocess.run(
        [sys.executable, "-c", script, dsn], capture_output=True, text=True, check=True
    )
    assert "RuntimeWarning: a connection that pgq has used ends in a transaction" in done.stderr


PASSWORD = "shop%pw"


@pytest.mark.parametrize(
    ("conninfo", "wrong"),
    [
        (f"postgresql+psycopg://shop:{PASSWORD}@db/shop", "it begins with postgresql+psycopg://"),
        (f"mysql://shop:{PASSWORD}@db/shop", "it begins with mysql://"),
        (PASSWORD, "it is neither a URL nor of the form name=value"),
        (f"postgresql://shop:{PASSWORD}@db/shop", "in its user, its password or its options, %"),
        ("postgresql://shop:shop/pw@db/shop", "in its user, its password or its options, %"),
        ("postgresql://shop:x@shop:pw@db/shop", "in its user, its password or its options, %"),
    ],
)
def test_the_password_of_a_wrong_address_is_not_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], conninfo: str, wrong: str
) -> None:
    said = f"is no address of PostgreSQL: {wrong}"
    monkeypatch.setenv("DATABASE_URL", conninfo)
    handlers = Handlers()

    @handlers.handler("mail")
    def handle(payload: Any) -> None:
        """It is never called."""

    for refused in (
        lambda: pgq.connect(conninfo),
        lambda: asyncio.run(pgq.connect_async(conninfo)),
        lambda: migrate(conninfo),
        lambda: Worker(conninfo, handlers).run(),
    ):
        with pytest.raises(psycopg.ProgrammingError, match="PostgreSQL") as raised:
            refused()
        assert str(raised.value).startswith(f"DATABASE_URL {said}")
        assert "pw" not in str(raised.value)
    for command in ("migrate", "doctor", "status", "housekeeping", "demo"):
        assert main([command]) == 1
        err = capfd.readouterr().err
        assert err.startswith(f"pgq: DATABASE_URL {said}")
        assert err.endswith("; write postgresql://user@host/database\n")
        assert "pw" not in err.replace("psycopg", "")


def test_options_that_libpq_does_not_know_are_named() -> None:
    with pytest.raises(psycopg.ProgrammingError, match='invalid URI query parameter: "a"'):
        pgq.connect("postgresql://shop@db/shop?a=1")


def test_a_method_that_is_in_a_group(connection: Any) -> None:
    client: Any = Client(connection)
    with pytest.raises(AttributeError, match=r"is in a group: client\.admin\.create_queue$"):
        client.create_queue("mail")
    with pytest.raises(AttributeError, match=r"'Client' object has no attribute 'nothing'"):
        client.nothing()
