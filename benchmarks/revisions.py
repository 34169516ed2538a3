"""The install script of a revision of this repository, which the revision's own build.py writes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from benchmarks.pgbench import BenchmarkError
from benchmarks.systems import install_script

__all__ = ["Installed", "installed"]

ROOT = Path(__file__).resolve().parents[1]

REQUIRED = ("sql", "pgq.control", "python/tools")
OPTIONAL = ("CHANGELOG.md", "migrations")
"""They tell build.py whether a version is released; then its script has to be there."""


@dataclass(frozen=True, kw_only=True)
class Installed:
    """An install script, and its name in a table."""

    name: str
    script: Path


@contextmanager
def installed(wanted: str, *, root: Path = ROOT) -> Iterator[Installed]:
    """The file, if there is one of this name; else the script of the revision, until the end."""
    if Path(wanted).is_file():
        yield Installed(name=wanted, script=Path(wanted))
        return
    found = _git(root, wanted, "rev-parse", "--verify", "--short", f"{wanted}^{{commit}}")
    commit = found.decode().strip()
    with tempfile.TemporaryDirectory(prefix="pgq-revision-") as folder:
        script = _built(root, wanted, commit, Path(folder))
        yield Installed(name=f"{wanted} ({commit})", script=script)


def _built(root: Path, wanted: str, commit: str, folder: Path) -> Path:
    listed = _git(root, wanted, "ls-tree", "--name-only", commit, *REQUIRED, *OPTIONAL)
    names = listed.decode().splitlines()
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise BenchmarkError(f"revision {wanted} has no {', '.join(missing)}")
    packed = _git(root, wanted, "archive", "--format=zip", commit, *names)
    with zipfile.ZipFile(BytesIO(packed)) as archive:
        archive.extractall(folder)
    done = subprocess.run(
        [sys.executable, folder / "python" / "tools" / "build.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BenchmarkError(f"revision {wanted} cannot be built: {done.stderr.strip()}")
    return install_script(folder)


def _git(root: Path, wanted: str, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=False)
    except FileNotFoundError:
        raise BenchmarkError(f"{wanted} is no file, and there is no git to look it up") from None
    if done.returncode != 0:
        raise BenchmarkError(f"{wanted} is neither a file nor a revision that git knows")
    return done.stdout
