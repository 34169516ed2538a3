"""The checkout, and what its files are for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from build import migration_path

__all__ = ["MIGRATIONS", "ROOT", "install_script", "load_pgq", "refuse"]

ROOT = Path(__file__).resolve().parents[2]
MIGRATIONS = ROOT / "migrations"


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
