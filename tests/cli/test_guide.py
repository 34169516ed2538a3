"""The commands of the guide, in the order in which it shows them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.house import ROOT

GUIDE = ROOT / "python" / "docs" / "command-line.md"
_BLOCK = re.compile(r"(<!-- not run: [^\n]+ -->\n)?```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_guide(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "pgq").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pgq "$@"\n')
    (tmp_path / "pgq").chmod(0o755)
    blocks = [text for skipped, text in _BLOCK.findall(GUIDE.read_text()) if not skipped]
    assert len(blocks) > 8
    done = subprocess.run(
        ["sh", "-eux", "-c", "\n".join(blocks)],
        env={**os.environ, "DATABASE_URL": dsn, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "pgq: " not in done.stderr
    assert 'stored 1,000 in topic "orders"' in done.stdout
    assert 'in topic "copies"' in done.stdout


def test_it_names_every_command() -> None:
    from typer.main import get_command

    from pgq.cli._app import app

    text = GUIDE.read_text()
    others = {"server", "work", "housekeeping", "push", "demo", "demo-spark", "ui"}  # have guides
    told = [name for name in get_command(app).commands if name not in others]
    assert [name for name in told if f"pgq {name}" not in text] == []
