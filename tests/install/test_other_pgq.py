"""Beside the distribution pgq of PyPI, whose files lie in the same folder."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from pgq.embedded import Server

pytestmark = pytest.mark.slow

THEIRS = "pgq==3.8"
WARNING = "RuntimeWarning: the distribution pgq of PyPI, the client of Skytools' PgQ,"


def _run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_both_orders(wheel: Path, server: Server, empty_database: str, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python, program = environment / "bin" / "python", environment / "bin" / "pgq"

    def pip(*arguments: str | Path) -> None:
        done = _run(sys.executable, "-m", "pip", "--python", python, *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr

    # ours comes last: it works, and says so
    pip("install", "--quiet", THEIRS)
    pip("install", "--quiet", f"{wheel}[cli]")
    imported = _run(python, "-c", "import pgq; pgq.Client", cwd=tmp_path)
    assert imported.returncode == 0, imported.stderr
    assert WARNING in imported.stderr
    assert imported.stderr.startswith("<string>:1: "), "the line is that of the import"
    dsn = server.dsn_for(empty_database)
    assert _run(program, "migrate", "--database", dsn, cwd=tmp_path).returncode == 0
    looked = _run(program, "doctor", "--database", dsn, cwd=tmp_path)
    assert "pip uninstall pgq pgq-sql" in looked.stdout

    # theirs comes last: nothing of ours is reached
    pip("install", "--quiet", "--force-reinstall", "--no-deps", THEIRS)
    broken = _run(python, "-c", "import pgq", cwd=tmp_path)
    assert broken.returncode == 1
    assert "No module named 'psycopg2'" in broken.stderr

    # the way out
    pip("uninstall", "--quiet", "--yes", "pgq", "pgq-sql")
    pip("install", "--quiet", f"{wheel}[cli]")
    repaired = _run(python, "-W", "error", "-c", "import pgq; pgq.Client", cwd=tmp_path)
    assert repaired.returncode == 0, repaired.stderr
    looked = _run(program, "doctor", "--database", dsn, cwd=tmp_path)
    assert "looked at installation" in looked.stdout
    assert "Skytools" not in looked.stdout
