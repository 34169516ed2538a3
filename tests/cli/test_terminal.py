"""What needs a terminal: the live view, questions, completion, colours."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq import Client
from support.command import PGQ
from support.waiting import PATIENCE

pexpect: Any = pytest.importorskip("pexpect", reason="no pexpect: pip install pexpect")

Terminal = Callable[..., Any]
_CODES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9]|[=>78])")


@pytest.fixture
def terminal(dsn: str) -> Iterator[Terminal]:
    """Start a command in a terminal of 120 columns, or as many, and 40 lines."""
    opened: list[Any] = []

    def start(*arguments: str, columns: int = 120, **environment: str) -> Any:
        program, *rest = [*PGQ, *arguments]
        known = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
        child = pexpect.spawn(
            program,
            rest,
            env={**known, "DATABASE_URL": dsn, "TERM": "xterm-256color", **environment},
            dimensions=(40, columns),
            timeout=PATIENCE,
            encoding="utf-8",
        )
        opened.append(child)
        return child

    yield start
    for child in opened:
        child.close(force=True)


def ended(child: Any) -> int:
    """Its exit status, when it has written all."""
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus is not None
    return int(child.exitstatus)


@pytest.mark.parametrize(
    "leave",
    [pytest.param("q", id="q"), pytest.param("\x03", id="Ctrl-C", marks=pytest.mark.slow)],
)
def test_top(terminal: Terminal, client: Client, dsn: str, leave: str) -> None:
    client.admin.create_topic("orders", partitions=1)
    client.admin.create_group("orders", "billing")
    client.admin.create_queue("mail")
    client.enqueue_batch("mail", [1, 2, 3])
    client.admin.pause_queue("mail")
    child = terminal("top", "--interval", "0.2")
    child.expect("database pgq_")
    child.expect(r"q leaves")
    child.expect(r"orders +0")
    child.expect(r"orders +billing +0")
    child.expect(r"mail +0\.0 +3 +0 +0 +0 +0 +[\d.]+s ago +paused")
    done = threading.Event()

    def publish() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            publisher = Client(connection)
            while not done.wait(0.01):
                publisher.publish("orders", 1)
                publisher.consume("orders", "billing")

    working = threading.Thread(target=publish)
    working.start()
    try:
        # published and consumed per second, beside what is kept
        child.expect(r"orders +[1-9]\d*\.\d +\d+")
        child.expect(r"orders +billing +[1-9]\d*\.\d +")
    finally:
        done.set()
        working.join()
    child.send(leave)
    assert ended(child) == 0
    # the terminal is as it was: the other screen is left, the cursor is there, keys are echoed
    assert "\x1b[?1049l" in child.before
    assert "\x1b[?25h" in child.before


def test_a_table_chooses_columns(terminal: Terminal, client: Client, dsn: str) -> None:
    name = "a-topic-with-a-name-of-63-characters-that-does-not-fit-anywhere"
    client.admin.create_topic(name, partitions=1)
    client.admin.create_group(name, "billing")
    client.publish(name, 1)
    narrow = terminal("lag", columns=80, NO_COLOR="1", TERM="dumb")
    assert ended(narrow) == 0
    lines = narrow.before.splitlines()
    assert max(map(len, lines)) <= 80
    assert re.search(r"not shown: .*attempt; --wide shows them", " ".join(narrow.before.split()))
    assert "billing" in narrow.before
    wide = terminal("lag", "--wide", columns=80, NO_COLOR="1", TERM="dumb")
    assert ended(wide) == 0
    assert {"last", "error", "attempt", name} <= set(wide.before.split())
    piped = subprocess.run(
        [*PGQ, "lag"],
        env={**os.environ, "DATABASE_URL": dsn, "COLUMNS": "20"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert name in piped
    assert len(piped.splitlines()) == 3


@pytest.mark.slow
def test_a_question_is_asked(terminal: Terminal, client: Client) -> None:
    client.admin.create_topic("orders")
    no = terminal("topics", "drop", "orders")
    no.expect_exact('Drop topic "orders" with 0 messages and 0 groups? [y/N]: ')
    no.sendline("n")
    no.expect_exact("pgq: nothing was done")
    assert ended(no) == 1
    assert len(client.admin.list_topics()) == 1
    interrupted = terminal("topics", "drop", "orders")
    interrupted.expect_exact("[y/N]: ")
    interrupted.sendintr()
    assert ended(interrupted) in (1, 130)
    assert len(client.admin.list_topics()) == 1
    yes = terminal("topics", "drop", "orders")
    yes.expect_exact("[y/N]: ")
    yes.sendline("y")
    yes.expect_exact('dropped topic "orders"')
    assert ended(yes) == 0
    assert client.admin.list_topics() == []


@pytest.mark.slow
def test_colours_and_none(terminal: Terminal, client: Client) -> None:
    client.admin.create_topic("orders")
    coloured = terminal("topics", "list")
    assert ended(coloured) == 0
    assert "\x1b[1m" in coloured.before
    plain = terminal("topics", "list", NO_COLOR="1", TERM="dumb")
    assert ended(plain) == 0
    assert "\x1b[" not in plain.before
    # without colours the rest is the same
    assert _CODES.sub("", coloured.before).split() == plain.before.split()
    red = terminal("doctor", "--older-than", "0s", NO_COLOR="1")
    ended(red)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", red.before)


@pytest.mark.slow
def test_payloads_from_a_terminal(terminal: Terminal, client: Client) -> None:
    client.admin.create_topic("orders", partitions=1)
    child = terminal("publish", "orders", "--format", "values")
    child.expect_exact("reading values from the terminal; Ctrl-D ends it")
    child.sendline('"first"')
    # it is stored while more may come
    deadline = 200
    while not client.bulk.list_offsets("orders")[0].last_offset and deadline:
        deadline -= 1
        threading.Event().wait(0.05)
    assert client.bulk.fetch_range("orders", 0, 1, 1)[0].payload == "first"
    child.sendline("2")
    child.sendeof()
    child.expect_exact('stored 2 in topic "orders"')
    assert ended(child) == 0


@pytest.fixture
def bash(tmp_path: Path) -> str:
    """A script that has the completion of pgq, with a pgq on its path."""
    program = shutil.which("bash")
    if program is None:
        pytest.skip("no bash on this machine")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "pgq").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pgq "$@"\n')
    (folder / "pgq").chmod(0o755)
    shown = subprocess.run(
        [folder / "pgq"],
        env={**os.environ, "_PGQ_COMPLETE": "source_bash"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "complete -o default" in shown.stdout, shown
    script = tmp_path / "rc"
    script.write_text(f"PATH={folder}:$PATH\nPS1='> '\n{shown.stdout}\n")
    return f"{program} --noprofile --rcfile {script} -i"


@pytest.mark.slow
def test_completion(dsn: str, client: Client, bash: str) -> None:
    client.admin.create_topic("orders-of-today", partitions=1)
    client.admin.create_group("orders-of-today", "billing")
    client.admin.create_queue("mail-out")
    child = pexpect.spawn(
        bash,
        env={**os.environ, "DATABASE_URL": dsn, "TERM": "dumb"},
        dimensions=(40, 200),
        timeout=PATIENCE,
        encoding="utf-8",
    )
    try:
        for typed, completed in (
            ("pgq subsc", "riptions "),
            ("pgq topics show orde", "rs-of-today "),
            ("pgq consume orders-of-today bil", "ling "),
            ("pgq peek mai", "l-out "),
            ("pgq cancel --queue mai", "l-out "),
            ("pgq redrive mai", "l-out "),
            ("pgq jobs mail-out --state del", "ayed "),
        ):
            child.expect_exact("> ")
            child.send(f"{typed}\t")
            child.expect_exact(f"{typed}{completed}")
            child.sendcontrol("u")
            child.sendline()
        # a database that is not there is no reason to wait, nor to write into the prompt
        child.sendline("export DATABASE_URL='host=127.0.0.1 port=1'")
        child.send("pgq topics show x\t\x15echo still here\n")
        child.expect_exact("\nstill here")
        assert "refused" not in child.before
    finally:
        child.close(force=True)
