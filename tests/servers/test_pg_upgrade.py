"""pg_upgrade from one major to a newer one, with everything that a database holds."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from catalog import describe
from pgq.embedded import EmbeddedServerError, Server, find_binaries
from pgq.embedded._account import Account
from support.install import ROUTES
from support.upgrade_load import Load, check, fill, finish

StartServer = Callable[..., Server]

BEFORE, AFTER = 16, 18


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short name, for sockets, that the owner of the servers can write to."""
    folder = Path(tempfile.mkdtemp(prefix="pgq-up-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def programs(major: int, place: Path) -> Path:
    """A copy of the programs of a major version, which the owner of the servers can read."""
    try:
        found = find_binaries(major)
    except EmbeddedServerError as error:
        pytest.skip(str(error))
    package = found.parents[1]
    for folder in (found.parent, package.with_name(f"{package.name}.libs")):
        at = place / folder.relative_to(package.parent)
        if folder.is_dir() and not at.exists():
            shutil.copytree(folder, at, symlinks=True, ignore=shutil.ignore_patterns("include"))
    return place / found.relative_to(package.parent)


def test_from_one_major_to_another(start_server: StartServer, place: Path) -> None:
    """Of a database with the extension and of one with the scripts: nothing is lost, all go on."""
    account = Account.current()
    old_bin, new_bin = programs(BEFORE, place), programs(AFTER, place)
    account.own(place)

    def run(*command: str | Path) -> None:
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, **account.process_options()
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr

    old = start_server(place / "old", bin_dir=find_binaries(BEFORE), settings={"fsync": "off"})
    old.run("psql", "-X", "-c", "create role app login")
    catalogs = {}
    for route in ("extension", "psql"):
        old.run("psql", "-X", "-c", f"create database {route}")
        ROUTES[route](old, route)
        with psycopg.connect(old.dsn_for(route), autocommit=True) as connection:
            fill(connection, "app")
            catalogs[route] = describe(connection, bodies=False)
    old.stop()

    new_data = place / "new" / "data"
    new_data.parent.mkdir()
    account.own(new_data.parent)
    run(
        new_bin / "initdb", "-D", new_data, "-U", "postgres", "-A", "trust", "-E", "UTF8",
        "--locale=C", "--no-data-checksums", "--no-sync",
    )  # fmt: skip
    run(
        new_bin / "pg_upgrade", "-b", old_bin, "-B", new_bin, "-d", place / "old" / "data",
        "-D", new_data, "-U", "postgres", "--no-sync", "-s", place,
    )  # fmt: skip

    with (new_data / "postgresql.conf").open("a") as configuration:
        configuration.write("\ninclude = 'pgq.conf'\n")
    new = start_server(place / "new", bin_dir=find_binaries(AFTER), settings={"fsync": "off"})
    for route, catalog in catalogs.items():
        load = Load(new.dsn_for(route).replace("postgres@", "app@"))
        load.start()
        load.wait_for_more(10)
        load.stop()
        with psycopg.connect(new.dsn_for(route), autocommit=True) as connection:
            finish(connection)
            check(connection)
            [[written]] = connection.execute(
                "select (pgq.commit_write(write_id)).messages from pgq.bulk_write"
            ).fetchall()
            assert written == 2
            assert describe(connection, bodies=False) == catalog
