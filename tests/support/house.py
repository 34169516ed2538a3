"""The checkout, and what its files are for."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from build import migration_path

__all__ = ["MIGRATIONS", "ROOT", "checked_in", "install_script", "load_pgq", "refuse"]

ROOT = Path(__file__).resolve().parents[2]
MIGRATIONS = ROOT / "migrations"


def checked_in() -> list[str]:
    """The files of the project, as git knows them; where there is no git, those that are there."""
    try:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        pass
    else:
        if listed.returncode == 0:
            return listed.stdout.splitlines()
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return [
        path.as_posix()
        for path in found
        if "__pycache__" not in path.parts
        and not any(part.startswith(".") for part in path.parts[:-1])
    ]


def install_script() -> str:
    """The script for a fresh install, without psql's lines."""
    lines = migration_path().read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("\\echo"))


def load_pgq(**parameters: Any) -> None:
    """Install pgq into a database, in one transaction."""
    with psycopg.connect(**parameters) as connection:
        connection.execute(install_script())


def refuse(broken: Iterable[object]) -> None:
    """Fail with all that is broken, one to a line; pass when nothing is."""
    found = [str(entry) for entry in broken]
    if found:
        pytest.fail("\n".join(found), pytrace=False)
