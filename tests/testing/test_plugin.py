"""The fixtures, in runs of pytest of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgq._extras import install
from pgq.embedded import Server

TESTS = """
import os
from pathlib import Path

import psycopg
import pytest


@pytest.mark.parametrize("number", range(4))
def test_alone(pgq_client, pgq_database, number):
    assert pgq_client.admin.list_queues() == []
    pgq_client.admin.create_queue("mail")
    pgq_client.enqueue("mail", {})
    with psycopg.connect(pgq_database) as connection:
        assert connection.execute("select ready from pgq.queue_stats").fetchall() == [(1,)]
        place = f"{connection.info.dbname} {connection.info.port} {os.getpid()}"
    Path(f"place-{number}").write_text(place)
"""


SESSIONS = """
import os
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

LEFT_OPEN = []


def leave_open(database, **options):
    LEFT_OPEN.append(psycopg.connect(make_conninfo(database, **options)))
    info = LEFT_OPEN[-1].info
    Path(f"place-{len(LEFT_OPEN)}").write_text(f"{info.dbname} {info.port} {os.getpid()}")


def test_own_session(pgq_database):
    leave_open(pgq_database)


def test_that_of_a_superuser_which_ends_soon(pgq_database):
    leave_open(pgq_database, user="postgres", options="-c idle_session_timeout=500")


def test_that_of_a_superuser_which_stays(pgq_database):
    leave_open(pgq_database, user="postgres")
"""


def run(
    folder: Path, *options: str, url: str | None = None, first: str = "", tests: str = TESTS
) -> str:
    """Run the tests in a folder, and return what pytest has printed."""
    (folder / "conftest.py").write_text(f'{first}pytest_plugins = ["pgq.testing.plugin"]\n')
    (folder / "test_mail.py").write_text(tests)
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**environment, **({} if url is None else {"DATABASE_URL": url})},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return done.stdout + done.stderr


def places(folder: Path) -> list[list[str]]:
    """The database, the port and the process of each test."""
    return [path.read_text().split() for path in sorted(folder.glob("place-*"))]


def databases(server: Server, names: set[str]) -> set[str]:
    """Those of these databases that are there."""
    with psycopg.connect(server.dsn) as connection:
        found = connection.execute("select datname from pg_database").fetchall()
    return {name for (name,) in found} & names


@pytest.mark.slow
def test_each_test_has_a_database_of_an_embedded_server(tmp_path: Path) -> None:
    assert "4 passed" in run(tmp_path)
    found = places(tmp_path)
    assert len({name for name, _, _ in found}) == 4
    (port,) = {port for _, port, _ in found}
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(host="127.0.0.1", port=port, user="postgres", connect_timeout=5)


@pytest.mark.parametrize("form", ["url", "pairs"])
def test_on_a_server_that_is_there(tmp_path: Path, server: Server, form: str) -> None:
    pairs = f"host={server.host} port={server.port} user=postgres dbname=postgres"
    assert "4 passed" in run(tmp_path, url=server.dsn if form == "url" else pairs)
    names = {name for name, _, _ in places(tmp_path)}
    assert len(names) == 4
    assert {int(port) for _, port, _ in places(tmp_path)} == {server.port}
    assert databases(server, names) == set()


@pytest.mark.slow
@pytest.mark.parametrize("there", [False, True], ids=["embedded", "DATABASE_URL"])
def test_with_xdist(tmp_path: Path, server: Server, there: bool) -> None:
    said = run(tmp_path, "-n2", "--dist=load", url=server.dsn if there else None)
    assert "4 passed" in said, said
    found = places(tmp_path)
    assert len({name for name, _, _ in found}) == 4
    assert len({process for _, _, process in found}) == 2
    assert len({port for _, port, _ in found}) == (1 if there else 2)


@pytest.mark.slow
def test_on_a_server_of_another_encoding(
    tmp_path: Path, start_server: Callable[..., Server]
) -> None:
    """As one of `initdb` without a locale, and one with a locale of Latin 1."""
    server = start_server()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for statement in (
            "alter database template1 is_template false",
            "drop database template1",
            "create database template1 template template0 encoding 'SQL_ASCII' locale 'C'",
            "update pg_database set encoding = pg_char_to_encoding('LATIN1'), datcollate = 'x.L1',"
            " datctype = 'x.L1' where datname = 'template0'",
        ):
            connection.execute(statement.encode())
    said = run(tmp_path, url=server.dsn)
    assert "4 passed" in said, said


def test_a_role_that_may_not_create_databases(tmp_path: Path, server: Server) -> None:
    role = f"reader_{os.getpid()}"
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"create role {role} login".encode())
        try:
            said = run(tmp_path, url=make_conninfo(server.dsn, user=role))
        finally:
            connection.execute(f"drop role {role}".encode())
    assert "4 errors" in said
    assert f"the role {role} of DATABASE_URL lacks CREATEDB: alter role" in said
    assert not re.search("another exception|InsufficientPrivilege", said)


def test_a_role_that_is_no_superuser(tmp_path: Path, server: Server) -> None:
    """It cannot end the sessions of others: it waits for those that end, and leaves the rest."""
    role = f"developer_{os.getpid()}"
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"create role {role} login createdb".encode())
        left = ""
        try:
            said = run(tmp_path, url=make_conninfo(server.dsn, user=role), tests=SESSIONS)
            own, soon, left = (name for name, _, _ in places(tmp_path))
            assert "3 passed, 1 warning" in said, said
            assert f"the database {left} was not dropped: permission denied" in said
            assert databases(server, {own, soon, left}) == {left}
        finally:
            if left:
                connection.execute(f"drop database {left}".encode())
            connection.execute(f"drop role {role}".encode())


def test_without_a_server(tmp_path: Path) -> None:
    said = run(tmp_path, first='import sys\nsys.modules["psutil"] = None\n')
    assert "4 errors" in said
    assert (
        f"pgq.embedded needs the module psutil: {install('embedded')}, or set DATABASE_URL"
        in said.splitlines()
    )
    assert "another exception" not in said


def test_it_costs_nothing_until_it_is_used() -> None:
    program = (
        "import sys, pgq\n"
        "assert not [name for name in sys.modules if name.startswith('pgq.testing')]\n"
        "import pgq.testing\n"
        "assert 'pytest' not in sys.modules and 'pgq.embedded' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
