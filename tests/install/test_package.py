"""The wheel and PGXS bring all that an installation needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from build import migration_path, version
from pgq.embedded import Server
from support import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the sources, by way of the source distribution."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", out, ROOT / "python"],
        check=True,
        capture_output=True,
        text=True,
    )
    return next(out.glob("*.whl"))


@pytest.mark.slow
def test_a_wheel_migrates_from_a_fresh_environment(
    wheel: Path, server: Server, empty_database: str, tmp_path: Path
) -> None:
    assert wheel.name.startswith(f"pgq-{version()}-")
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", wheel], check=True, capture_output=True
    )
    program = "import sys; from pgq.migrate import migrate; print(migrate(sys.argv[1]).after)"
    for _ in range(2):
        done = subprocess.run(
            [python, "-c", program, server.dsn_for(empty_database)],
            check=True,
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert done.stdout.strip() == version()


def test_make_install_puts_the_files_in_place(server: Server, tmp_path: Path) -> None:
    candidates = [server.bin_dir / "pg_config", Path(shutil.which("pg_config") or "/nowhere")]
    config = next((path for path in candidates if _has_pgxs(path)), None)
    if config is None:
        pytest.skip("no PostgreSQL with PGXS (its development files) on this machine")
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make on this machine")
    subprocess.run(
        [make, "install", f"PG_CONFIG={config}", f"DESTDIR={tmp_path}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    installed = {path.name: path.read_text() for path in tmp_path.rglob("pgq*") if path.is_file()}
    assert installed["pgq.control"] == (ROOT / "pgq.control").read_text()
    assert installed[migration_path().name] == migration_path().read_text()


def _has_pgxs(config: Path) -> bool:
    if not config.exists():
        return False
    answer = subprocess.run([config, "--pgxs"], capture_output=True, text=True, check=False)
    return Path(answer.stdout.strip()).is_file()
