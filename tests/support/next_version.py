"""A version 7.1.0 that follows a released 7.0.0, on a copy of sql/ with samples of all changes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

import build
from support.house import ROOT

__all__ = ["AFTER", "BEFORE", "BY_HAND", "SAMPLES", "changes_of", "release", "run", "write_version"]

BEFORE, AFTER = "7.0.0", "7.1.0"
SAMPLES = ROOT / "tests" / "install" / "upgrade"
BY_HAND = (SAMPLES / "changes.sql").read_text()


def run(tool: ModuleType, tree: Path) -> int:
    """Run a tool as if the tree were this repository; the rest of the run still means this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "ROOT", tree)
        patch.setattr(build, "CONTROL", tree / "pgq.control")
        patch.setattr(build, "MANIFEST", tree / "sql" / "install.sql")
        status: int = tool.main()
    return status


def write_version(tree: Path, version: str, name: str) -> None:
    """Make the tree one of a version that is not released yet."""
    (tree / "pgq.control").write_text(
        re.sub(r"'\d+\.\d+\.\d+'", f"'{version}'", (ROOT / "pgq.control").read_text())
    )
    own = tree / "sql" / "core" / "version.sql"
    own.write_text(re.sub(r"'\d+\.\d+\.\d+'", f"'{version}'", own.read_text()))
    for part in ("", "_privileges"):
        shutil.copyfile(SAMPLES / f"{name}{part}.sql", tree / "sql" / f"sample{part}.sql")
    log = tree / "CHANGELOG.md"
    log.write_text(f"## {version} (unreleased)\n" + (log.read_text() if log.exists() else ""))
    assert run(build, tree) == 0


def release(tree: Path) -> None:
    """Have the changelog say that the newest version is out."""
    log = tree / "CHANGELOG.md"
    log.write_text(log.read_text().replace("(unreleased)", "(2026-01-01)"))


def changes_of(tree: Path) -> Path:
    """What is written by hand for the next version."""
    return tree / "migrations" / "changes" / AFTER / "01-sample.sql"
