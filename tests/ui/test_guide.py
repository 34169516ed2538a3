"""What the guide shows is what happens."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from typing import Any

import pytest

from pgq import Client
from pgq.ui import _lists
from support.command import PGQ
from support.house import ROOT
from support.page import Page
from support.waiting import PATIENCE

GUIDE = (ROOT / "python" / "docs" / "ui.md").read_text()
BLOCK = re.compile(r"(<!-- not run: [^\n]+ -->\n)?```(\w+)\n(.*?)```", re.DOTALL)
BLOCKS = [found.groups() for found in BLOCK.finditer(GUIDE)]
COMMANDS = [
    line
    for skipped, language, text in BLOCKS
    if language == "sh" and not skipped
    for line in text.splitlines()
]
PAGES = (ROOT / "python" / "src" / "pgq" / "ui" / "static").glob("*.mjs")
SOURCE = "".join(file.read_text() for file in PAGES)


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_serves(line: str, dsn: str, tmp_path: object) -> None:
    """And prints the address as the guide says; the browser is one that does nothing."""
    assert len(COMMANDS) == 3
    command = [*PGQ, *shlex.split(line)[1:]]
    process = subprocess.Popen(
        command,
        env={**os.environ, "DATABASE_URL": dsn, "BROWSER": "true %s"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    [shown] = [text for _, language, text in BLOCKS if language == "text"]
    printed = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    if "8080" in line and "already in use" in err:
        pytest.skip("somebody listens at port 8080")
    wanted = re.escape(shown).replace("…", r"\S+")
    assert re.fullmatch(wanted, printed), err


def test_the_application(dsn: str, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", dsn)
    monkeypatch.setenv("PGQ_UI_TOKEN", "chosen-by-somebody")
    program = next(text for _, language, text in BLOCKS if language == "python")
    found: dict[str, Any] = {}
    exec(program, found)
    with Page(dsn, app=found["app"]) as page:
        given = {"Authorization": "Bearer chosen-by-somebody", "Host": "pgq.example.com"}
        assert page.client.get("/api/about", headers=given).json()["read_only"] is True
        given["Host"] = "127.0.0.1"
        assert page.client.get("/api/about", headers=given).status_code == 400
        assert page.client.get("/api/about", headers={"Host": "pgq.example.com"}).status_code == 401


def test_the_keys_are_those_of_the_page() -> None:
    views = re.findall(r'\["\w*", "(\w+)", "(\w)"\]', SOURCE)
    keys = re.search(r"\| `g` and then (.*?) \| (.*?) \|", GUIDE)
    assert keys is not None
    assert re.findall("`(.)`", keys[1]) == [key for _, key in views]
    assert keys[2].split(", ") == [title.lower() for title, _ in views]


def test_an_hour_is_remembered() -> None:
    from pgq.ui import _history

    assert _history.KEEP * _history.INTERVAL == 3600
    assert _history.SHARE == 20
    assert _lists.PAGE == 50
