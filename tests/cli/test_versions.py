"""What commands say of a database of another version, or without pgq."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from cli.test_help import ALL
from pgq.migrate import available_versions, migrate
from support.command import Run, Start
from support.databases import Databases
from support.house import refuse
from support.session import Session
from support.waiting import PATIENCE

NEWEST = available_versions()[-1]
# what makes its own database, or upgrades one; what needs a terminal
_OTHERS = {"server", "migrate", "demo", "demo-spark", "top"}


@pytest.fixture
def other(databases: Databases, connection: Session) -> Iterator[str]:
    """A database without pgq."""
    name = databases.name("cli_versions")
    connection.execute(
        sql.SQL("create database {} template template0").format(sql.Identifier(name))
    )
    yield databases.dsn_of(name)
    connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


_RUNNING = (
    ("work", "app:handlers"),
    ("work", "app:handlers", "--once"),
    ("housekeeping",),
    ("push", "--config", "push.toml"),
    ("ui", "--no-browser"),
    ("metrics", "--listen", "127.0.0.1:0"),
    ("doctor",),
)
_APP = """
from pgq.worker import Handlers

handlers = Handlers()


@handlers.handler("mail")
def handle(payload):
    pass
"""
_PUSH = """
[[push]]
topic = "orders"
consumer_group = "hook"
url = "https://hooks.example.com/orders"
"""


def _examples() -> Iterator[list[str]]:
    for path, node in ALL.items():
        if path[0] not in {*_OTHERS, *(one[0] for one in _RUNNING)}:
            yield shlex.split(node.help.partition("Examples:")[2].strip().splitlines()[0])[1:]
    yield ["top", "--count", "1"]


def _told(installed: str | None) -> str:
    if installed is None:
        return "pgq: pgq is not installed in this database; HINT: 'pgq migrate' installs it\n"
    do = "run pgq migrate" if installed == "0.9.0" else "upgrade the Python package"
    return f"pgq: pgq {installed} is installed here and this is {NEWEST}: {do}\n"


@pytest.fixture(params=["0.9.0", "99.0.0", None], ids=["older", "newer", "none"])
def version(other: str, request: pytest.FixtureRequest) -> str | None:
    """Have the database say that it has this version."""
    installed: str | None = request.param
    if installed is not None:
        migrate(other)
        with psycopg.connect(other) as connection:
            connection.execute(
                "create or replace function pgq.version() returns text language sql immutable"
                f" parallel safe as $$ select '{installed}' $$".encode()
            )
    return installed


def test_every_command_says_it_in_one_line(pgq: Run, other: str, version: str | None) -> None:
    def broken() -> Iterator[str]:
        for arguments in _examples():
            done = pgq(*arguments, "--database", other)
            if (done.status, done.out, done.err) != (1, "", _told(version)):
                yield f"{arguments}: {done}"

    assert len([*_examples()]) > 40
    refuse(broken())


@pytest.mark.slow
@pytest.mark.parametrize("command", _RUNNING, ids=" ".join)
def test_what_runs_for_long_does_not_begin(
    process: Start, other: str, version: str | None, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "app.py").write_text(_APP)
    (tmp_path / "push.toml").write_text(_PUSH)
    running = process(*command, cwd=tmp_path, env={"DATABASE_URL": other})
    out, err = running.communicate(timeout=2 * PATIENCE)
    if command == ("doctor",) and version is None:  # it finds more than that
        assert b"pgq migrate" in out
    else:
        assert (out, err.decode()) == (b"", _told(version))
    assert running.returncode == 1
