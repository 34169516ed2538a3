"""The ways to install pgq and to upgrade it, which all lead to the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import pgq.migrate
from build import migration_path
from pgq.embedded import Server
from pgq.migrate import migrate

__all__ = ["ROUTES"]


def _as_extension(server: Server, database: str, script: Path | None = None) -> None:
    _, first, *then = (script or migration_path()).stem.split("--")
    command = f"alter extension pgq update to '{then[0]}'" if then else "create extension pgq"
    if script and not then:
        command += f" version '{first}'"
    server.run("psql", "-X", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", command)


def _with_psql(server: Server, database: str, script: Path | None = None) -> None:
    # ON_ERROR_STOP comes from the script itself
    server.run("psql", "-X", "-q", "-1", "-d", database, "-f", script or migration_path())


def _with_python(server: Server, database: str, script: Path | None = None) -> None:
    if script is None:
        migrate(server.dsn_for(database))
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pgq.migrate, "_folder", lambda: script.parent)
        done = migrate(server.dsn_for(database), version=script.stem.rpartition("--")[2])
    assert done.scripts == (script.stem,)


ROUTES: dict[str, Callable[..., None]] = {
    "extension": _as_extension,
    "psql": _with_psql,
    "python": _with_python,
}
"""Each runs one script, of a version or from one to the next; if none is named, the newest one."""
