"""The command line, as a user runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgq
from pgq import Client
from pgq.__main__ import main
from pgq._extras import install
from pgq.migrate import Migration
from support.waiting import wait_until

PGQ = [sys.executable, "-m", "pgq"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PGQ, *arguments],
        env={**os.environ, "COLUMNS": "120", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def empty(connection: psycopg.Connection[Any]) -> Iterator[str]:
    """The connection string of a database without pgq."""
    name = f"{connection.info.dbname}_empty"
    connection.execute(f'create database "{name}" template template0'.encode())
    yield make_conninfo(connection.info.dsn, dbname=name, password=connection.info.password or None)
    connection.execute(f'drop database "{name}" with (force)'.encode())


def test_status(dsn: str, connection: psycopg.Connection[Any]) -> None:
    client = Client(connection)
    client.admin.create_topic("readings", partitions=2, no_limit=["retention"])
    client.admin.create_group("readings", "sums")
    client.publish_batch("readings", list(range(1234)))
    client.admin.create_queue("mail")
    client.enqueue_batch("mail", [1, 2, 3])
    client.claim_job("mail")
    client.admin.pause_queue("mail")
    shown = run("status", "--database", dsn)
    assert shown.returncode == 0, shown.stderr
    lines = [re.sub(r"[│┃|\s]+", " ", line).strip() for line in shown.stdout.splitlines()]
    assert "readings 2 1,234 1,234" in lines
    assert any(line.startswith("readings sums 1,234 ") for line in lines)
    assert any(line.startswith("mail 2 1 0 0 0 ") and line.endswith("paused") for line in lines)


def test_status_of_an_empty_pgq(dsn: str) -> None:
    shown = run("status", DATABASE_URL=dsn)
    assert shown.returncode == 0, shown.stderr
    assert "no topics" in shown.stdout
    assert "no queues" in shown.stdout


def test_status_without_pgq(empty: str) -> None:
    shown = run("status", "--database", empty)
    assert shown.returncode == 1
    assert "not installed" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_the_library_without_pgq(empty: str) -> None:
    hint = "\nHINT:  pgq is not installed in this database: 'pgq migrate' installs it"
    with pgq.connect(empty) as client:
        with pytest.raises(psycopg.errors.InvalidSchemaName, match=hint):
            client.enqueue("mail", 1)
        with pytest.raises(psycopg.errors.InvalidSchemaName) as other, pgq.translated():
            client.connection.execute("select elsewhere.f()")
    assert "HINT" not in str(other.value)


def test_status_without_a_server() -> None:
    shown = run("status", "--database", "host=127.0.0.1 port=1")
    assert shown.returncode == 1
    assert shown.stderr.startswith("pgq: ")
    assert "Traceback" not in shown.stderr


def test_migrate(empty: str) -> None:
    first = run("migrate", "--database", empty)
    assert (first.returncode, first.stdout.split()[:2]) == (0, ["installed", "pgq"])
    second = run("migrate", DATABASE_URL=empty)
    assert second.returncode == 0
    assert "already" in second.stdout
    with psycopg.connect(empty) as connection:
        assert Client(connection).version() in first.stdout


def test_an_upgrade_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    upgrade = Migration("1.0.0", "1.0.1", ("pgq--1.0.0--1.0.1",))
    monkeypatch.setattr("pgq.cli._programs.migrate", lambda database: upgrade)
    assert main(["migrate"]) == 0
    assert capsys.readouterr().out == "upgraded pgq from 1.0.0 to 1.0.1\n"


@pytest.mark.parametrize("command", ["migrate", "status", "demo"])
def test_a_foreign_pgq_is_not_touched(empty: str, command: str) -> None:
    with psycopg.connect(empty) as connection:
        connection.execute(
            """
            create schema pgq;
            create function pgq.version() returns text language sql as $$ select '3.5'::text $$
            """
        )
    answer = run(command, DATABASE_URL=empty)
    assert answer.returncode == 1
    assert "Traceback" not in answer.stderr
    with psycopg.connect(empty) as connection:
        assert connection.execute(
            "select count(*) from pg_proc where pronamespace = 'pgq'::regnamespace"
        ).fetchone() == (1,)


@pytest.mark.slow
def test_server_keeps_its_data() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        for version in range(2):
            process = subprocess.Popen(
                [*PGQ, "server", "--dir", str(Path(folder) / "pgq")],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
            try:
                assert process.stdout is not None
                dsn = process.stdout.readline().strip()
                assert dsn, process.communicate()[1]
                with psycopg.connect(dsn) as connection:
                    client = Client(connection)
                    assert len(client.admin.list_topics()) == version
                    client.admin.create_topic("readings")
            finally:
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=30)
            assert process.returncode == 0, errors
            assert "its data stays" in errors

            def closed(dsn: str = dsn) -> bool:
                try:
                    psycopg.connect(dsn).close()
                except psycopg.OperationalError:
                    return True
                return False

            wait_until(closed, what="for the server to stop")


def test_only_the_server_needs_what_the_server_needs(empty: str) -> None:
    without = "import sys; sys.modules['psutil'] = None; from pgq.__main__ import main"
    program = f"{without}; print(main(sys.argv[1:]))"

    def answer(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
        )

    assert answer("migrate", "--database", empty).stdout.splitlines()[-1] == "0"
    refused = answer("server")
    assert refused.stdout == "1\n"
    assert refused.stderr == f"pgq: the module psutil is missing: {install('embedded')}\n"


def test_help_and_mistakes() -> None:
    assert "demo" in run("--help").stdout
    for arguments in ([], ["nothing"], ["demo", "--rows", "0"], ["server", "--port", "0"]):
        assert run(*arguments).returncode == 2
