"""From a fresh clone, without an environment: six ways to install, which give the same catalog."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from build import version
from catalog import GOLDEN, describe
from pgq.embedded import Server
from pgq.embedded._binaries import candidates
from support.house import ROOT, checked_in

pytestmark = pytest.mark.slow

MIGRATE = "import sys; from pgq.migrate import migrate; print(migrate(sys.argv[1]).after)"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What a commit of this checkout would have, cloned; nothing has been rendered there."""
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    for name in checked_in():
        if (ROOT / name).is_file():
            (origin / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, origin / name)
    _run("git", "init", "-q", origin)
    _run("git", "-C", origin, "add", "--all")
    who = ("-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false")
    _run("git", "-C", origin, *who, "commit", "-q", "-m", "all")
    _run("git", "clone", "-q", origin, clone)
    assert not list((clone / "migrations").glob("*.sql"))
    return clone


def _run(*command: str | Path, cwd: Path | None = None) -> str:
    # as in a shell where nothing of this run is active
    own = ("PYTHON", "VIRTUAL_ENV", "PYTEST", "PG", "DATABASE_URL", "MAKE", "MFLAGS")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _python(folder: Path) -> Path:
    """A new environment that has the packages of this one, and no pgq."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    [site] = folder.glob("lib/python*/site-packages")
    brought = Path(sysconfig.get_path("purelib"))
    for name in brought.iterdir():
        if not name.name.startswith(("pgq", "_editable_impl_pgq", "__editable__")):
            (site / name.name).symlink_to(name)
    return python


def _install(python: Path, *what: str | Path) -> None:
    _run(python, "-m", "pip", "install", "-q", "--no-deps", *what)


def _psql(server: Server, clone: Path, database: str) -> None:
    _run("make", "build", cwd=clone)
    script = clone / "migrations" / f"pgq--{version()}.sql"
    server.run("psql", "-X", "-q", "-1", "-d", database, "-f", script)


def _wheel(server: Server, clone: Path, database: str) -> None:
    python = _python(clone.parent / "environment")
    _run(python, "-m", "build", "-w", "-n", "-o", clone.parent / "dist", clone / "python")
    _install(python, *(clone.parent / "dist").glob("*.whl"))
    _migrate(server, python, database)


def _sdist(server: Server, clone: Path, database: str) -> None:
    python = _python(clone.parent / "environment")
    _run(python, "-m", "build", "-s", "-n", "-o", clone.parent / "dist", clone / "python")
    shutil.rmtree(clone)
    _install(python, *(clone.parent / "dist").glob("*.tar.gz"))
    _migrate(server, python, database)


def _git_address(server: Server, clone: Path, database: str) -> None:
    python = _python(clone.parent / "environment")
    _install(python, f"git+file://{clone}#subdirectory=python")
    _migrate(server, python, database)


def _editable(server: Server, clone: Path, database: str) -> None:
    python = _python(clone.parent / "environment")
    _install(python, "--editable", clone / "python")
    _migrate(server, python, database)


def _migrate(server: Server, python: Path, database: str) -> None:
    said = _run(python, "-c", MIGRATE, server.dsn_for(database), cwd=python.parent)
    assert said.strip() == version()


WAYS: dict[str, Callable[[Server, Path, str], None]] = {
    "psql": _psql,
    "wheel": _wheel,
    "source distribution": _sdist,
    "Git address": _git_address,
    "editable": _editable,
}


@pytest.mark.parametrize("way", WAYS)
def test_the_catalog_is_the_one_that_is_committed(
    server: Server, empty_database: str, clone: Path, way: str
) -> None:
    WAYS[way](server, clone, empty_database)
    with psycopg.connect(server.dsn_for(empty_database)) as connection:
        assert describe(connection, bodies=False) == GOLDEN.read_text()


@pytest.fixture
def with_pgxs(start_server: Callable[..., Server]) -> Iterator[tuple[Server, Path]]:
    """A server of the system's whose development files are there, and its pg_config."""
    for folder, _ in candidates():
        config = folder / "pg_config"
        if config.exists():
            shown = subprocess.run([config, "--pgxs"], capture_output=True, text=True, check=False)
            if Path(shown.stdout.strip()).is_file():
                yield start_server(bin_dir=folder, settings={"fsync": "off"}), config
                return
    pytest.skip("no PostgreSQL with PGXS (its development files) on this machine")


def test_make_install_and_create_extension(
    with_pgxs: tuple[Server, Path], clone: Path, tmp_path: Path
) -> None:
    server, config = with_pgxs
    to = tmp_path / "installed"
    _run("make", "install", f"PG_CONFIG={config}", f"DESTDIR={to}", cwd=clone)
    control = next(to.rglob("pgq.control"))
    server.install_extension(control, sorted(control.parent.glob("pgq--*.sql")))
    server.run("psql", "-X", "-c", "create extension pgq")
    with psycopg.connect(server.dsn) as connection:
        assert describe(connection, bodies=False) == GOLDEN.read_text()
