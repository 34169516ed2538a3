"""An interrupt that strikes psycopg between two of its steps: another error takes its place."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import psycopg
import pytest
import typer

from pgq import Client
from pgq.cli._batches import Writer, write_all
from pgq.cli._house import command, connected
from pgq.cli._input import Format, Item


def interrupt(connection: psycopg.Connection[Any]) -> None:
    """Raise an interrupt, and have the way out of it fail."""
    try:
        raise KeyboardInterrupt
    finally:
        connection.execute("select pgq.publish('no topic', '1')")


@pytest.fixture
def app(dsn: str) -> typer.Typer:
    """Commands that fail: with and without an interrupt."""
    made = typer.Typer()

    @command(made, "interrupted")
    def _interrupted() -> None:
        with connected(dsn) as client:
            interrupt(client.connection)

    @command(made, "failing")
    def _failing() -> None:
        with connected(dsn) as client:
            client.publish("no topic", 1)

    return made


@pytest.mark.parametrize(("name", "status"), [("interrupted", 130), ("failing", 1)])
def test_the_exit_status(
    app: typer.Typer, name: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        app([name])
    assert ended.value.code == status
    assert bool(capsys.readouterr().err) == (status == 1)


def test_it_is_not_known_what_an_interrupted_publish_has_stored(client: Client) -> None:
    def write(client: Client, items: list[Item]) -> int:
        interrupt(client.connection)
        return len(items)

    writer = Writer(client, write, batch=2, skip_bad=False, all_or_none=False)
    outcome = write_all(writer, io.BytesIO(b"1\n2\n"), Format.values, ("key",), None)
    assert outcome.interrupted
    assert outcome.failure is not None
    assert "interrupted; " in outcome.failure
    assert "whether lines 1 to 2 are stored is not known" in outcome.failure


def test_warnings_of_psycopg_are_not_shown() -> None:
    """They are of what fails behind the error that is told."""
    program = (
        "import logging; from pgq.__main__ import main; main(['--version']);"
        " logging.getLogger('psycopg').warning('error ignored in rollback')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stderr == b""
