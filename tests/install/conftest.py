"""Databases without pgq to install it into, and a version that follows a released one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

import upgrade
from pgq.embedded import Server
from support.house import ROOT
from support.next_version import (
    AFTER,
    BEFORE,
    BY_HAND,
    SAMPLES,
    changes_of,
    release,
    run,
    write_version,
)

_numbers = count(1)


@pytest.fixture
def create_database(server: Server) -> Iterator[Callable[[], str]]:
    """Create empty databases; they are dropped at the end of the test."""
    created: list[str] = []

    def create() -> str:
        name = f"install_{next(_numbers)}"
        server.run("psql", "-X", "-c", f"create database {name}")
        created.append(name)
        return name

    yield create
    for name in created:
        server.run("psql", "-X", "-c", f"drop database if exists {name} with (force)")


@pytest.fixture
def empty_database(create_database: Callable[[], str]) -> str:
    """The name of an empty database."""
    return create_database()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the sources, by way of the source distribution."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT / "python"],
        check=True,
        capture_output=True,
        text=True,
    )
    return next(out.glob("*.whl"))


# ---------------------------------------------------------------------------- a next version


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose version 7.0.0 is released, and 7.1.0 under way."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "sql", tree / "sql")
    shutil.copyfile(SAMPLES / "both.sql", tree / "sql" / "both.sql")
    manifest = tree / "sql" / "install.sql"
    text = manifest.read_text().replace(
        "\\ir functions.sql\n", "\\ir functions.sql\n\\ir sample.sql\n\\ir both.sql\n"
    )
    manifest.write_text(f"{text}\\ir sample_privileges.sql\n")
    write_version(tree, BEFORE, "before")
    release(tree)
    write_version(tree, AFTER, "after")
    return tree


@pytest.fixture(scope="module")
def script(tree: Path) -> Path:
    """The script from one to the other."""
    changes = changes_of(tree)
    changes.parent.mkdir(parents=True)
    changes.write_text(BY_HAND)
    assert run(upgrade, tree) == 0
    return tree / "migrations" / f"pgq--{BEFORE}--{AFTER}.sql"


@pytest.fixture(scope="module")
def running(tree: Path, script: Path) -> Iterator[Server]:
    """A server that knows both versions and the way between them."""
    with Server(settings={"fsync": "off"}) as server:
        server.install_extension(
            tree / "pgq.control", sorted((tree / "migrations").glob("pgq--*.sql"))
        )
        server.run("psql", "-X", "-c", "create role pgq_app")
        yield server


@pytest.fixture
def create(running: Server) -> Callable[[], str]:
    """Make an empty database there and return its name."""

    def database() -> str:
        name = f"upgrade_{next(_numbers)}"
        running.run("psql", "-X", "-c", f"create database {name}")
        return name

    return database
