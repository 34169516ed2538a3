"""The wheel and PGXS bring all that an installation needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

import pytest

from build import migration_path, version
from pgq.embedded import Server
from pgq.embedded._binaries import candidates
from support.house import ROOT

WORKER = ROOT / "python" / "WORKER.md"


@pytest.mark.slow
def test_a_wheel_migrates_from_a_fresh_environment(
    wheel: Path, server: Server, empty_database: str, tmp_path: Path
) -> None:
    assert wheel.name.startswith(f"pgq_sql-{version()}-")
    assert "pgq/testing/plugin.py" in ZipFile(wheel).namelist()
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", wheel],
        check=True,
        capture_output=True,
    )
    program = "import sys, pgq.testing, pgq.migrate as m; print(m.migrate(sys.argv[1]).after)"
    for _ in range(2):
        done = subprocess.run(
            [python, "-c", program, server.dsn_for(empty_database)],
            check=True,
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert done.stdout.strip() == version()


@pytest.mark.slow
def test_the_client_alone_brings_psycopg_and_says_what_the_rest_needs(
    wheel: Path, server: Server, empty_database: str, tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    programs = environment / "bin"
    install = [sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet"]
    subprocess.run([*install, wheel], check=True, capture_output=True)

    def ask(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=60
        )

    listed = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions()))"
    brought = {"pgq-sql", "psycopg", "psycopg-binary", "typing_extensions", "backports.zoneinfo"}
    assert set(ask(programs / "python", "-c", listed).stdout.split()) <= brought
    for program in ([programs / "pgq"], [programs / "python", "-m", "pgq"]):
        told = ask(*program, "topics", "list")
        assert (told.returncode, told.stdout) == (1, "")
        assert told.stderr.startswith("pgq: the module ")
        assert "install the extra cli: pip install 'rich>=13.8' 'typer<1,>=0.16'" in told.stderr
        assert len(told.stderr.splitlines()) == 1
    dsn = server.dsn_for(empty_database)
    for _ in range(2):
        migrated = ask(programs / "python", "-m", "pgq.migrate", dsn)
        assert migrated.stdout.startswith(f"pgq {version()} is installed"), migrated.stderr
    assert ask(programs / "python", "-m", "pgq.migrate", "--help").returncode == 2
    refused = ask(programs / "python", "-m", "pgq.migrate", "host=127.0.0.1 port=1")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1)

    # the examples of the page, but for those whose extra or library it names
    shown = re.findall(r"^```python\n(.*?)^```", WORKER.read_text(), re.MULTILINE | re.DOTALL)
    program = "\n".join(
        block for block in shown if "pgq.worker.hooks" not in block and "sentry_sdk" not in block
    )
    assert "@dataclass" in program
    worked = subprocess.run(
        [programs / "python", "-c", program], env={**os.environ, "DATABASE_URL": dsn},
        capture_output=True, text=True, cwd=tmp_path, check=False, timeout=60,
    )  # fmt: skip
    assert worked.returncode == 0, worked.stderr
    assert "does not fit Mail: to: a text is wanted, not a whole number" in worked.stdout

    subprocess.run([*install, f"{wheel}[cli]"], check=True, capture_output=True)
    made = ask(programs / "pgq", "topics", "create", "orders", "--database", dsn, "--json")
    assert made.returncode == 0, made.stderr
    assert " is missing: install the extra ui: pip install " in ask(programs / "pgq", "ui").stderr

    # the page needs nothing that is not in the wheel
    subprocess.run([*install, f"{wheel}[ui]"], check=True, capture_output=True)
    serving = subprocess.Popen(
        [programs / "pgq", "ui", "--no-browser", "--database", dsn],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path,
    )  # fmt: skip
    try:
        assert serving.stdout is not None
        address = serving.stdout.readline().strip()
        static = ROOT / "python" / "src" / "pgq" / "ui" / "static"
        for file in static.rglob("*.*"):
            with urlopen(f"{address}/static/{file.relative_to(static)}") as answer:
                assert answer.read() == file.read_bytes()
    finally:
        serving.terminate()
        serving.communicate()


@pytest.fixture(scope="module")
def make() -> str:
    program = shutil.which("make")
    if program is None:
        pytest.skip("no make on this machine")
    return program


def _pgxs_of(folder: Path) -> Path | None:
    """The folder of PGXS that belongs to a server's programs."""
    config = folder / "pg_config"
    if not config.exists():
        return None
    answer = subprocess.run([config, "--pgxs"], capture_output=True, text=True, check=False)
    path = Path(answer.stdout.strip())
    return path.parents[2] if path.is_file() else None


def test_make_install_puts_the_files_in_place(make: str, server: Server, tmp_path: Path) -> None:
    folders = [server.bin_dir, *(folder for folder, _ in candidates())]
    folder = next((folder for folder in folders if _pgxs_of(folder)), None)
    if folder is None:
        pytest.skip("no PostgreSQL with PGXS (its development files) on this machine")
    subprocess.run(
        [make, "install", f"PG_CONFIG={folder / 'pg_config'}", f"DESTDIR={tmp_path}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    installed = {path.name: path.read_text() for path in tmp_path.rglob("pgq*") if path.is_file()}
    assert installed["pgq.control"] == (ROOT / "pgq.control").read_text()
    assert installed[migration_path().name] == migration_path().read_text()


def test_make_installcheck_walks_the_tour(
    make: str, start_server: Callable[..., Server], tmp_path: Path
) -> None:
    for folder, _ in candidates():
        pgxs = _pgxs_of(folder)
        program = pgxs / "src" / "test" / "regress" / "pg_regress" if pgxs else None
        # the one in a wheel of PostgreSQL 18 crashes even when asked for its version
        if program and program.exists() and not subprocess.call([program, "--version"]):
            break
    else:
        pytest.skip("no PostgreSQL with a working pg_regress on this machine")
    server = start_server(bin_dir=folder, settings={"fsync": "off"})
    done = subprocess.run(
        [make, "installcheck", f"PG_CONFIG={folder / 'pg_config'}", f"REGRESS_OUTPUT={tmp_path}"],
        cwd=ROOT,
        env={**os.environ, "PGHOST": server.host, "PGPORT": str(server.port), "PGUSER": "postgres"},
        capture_output=True,
        text=True,
        check=False,
    )
    differences = tmp_path / "regression.diffs"
    assert done.returncode == 0, differences.read_text() if differences.exists() else done.stderr
