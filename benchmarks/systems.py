"""The systems that are put side by side: each is a folder of SQL files.

A folder has the scripts that pgbench runs, and these, which psql runs; a file that is not there has
nothing to do:

- ``schema.sql`` installs the system,
- ``create_topic.sql``, ``create_queue.sql``, ``create_groups.sql`` make the log (with
  ``:partitions``), the queue, and the groups 1 … ``:groups`` at the beginning of the log,
- ``fill_log.sql``, ``fill_queue.sql`` write ``:messages`` or ``:jobs``, by the thousand, with the
  bytes ``:body``,
- ``check_log.sql``, ``check_queue.sql``, ``check_consumed.sql`` print what is wrong, and nothing
  when all is well: there are ``:messages`` with dense offsets, ``:waiting`` and ``:finished`` jobs,
  and no group could have got a message twice or not at all,
- ``consumed.sql`` prints how many messages all groups together have passed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Bench, Database
from benchmarks.pgbench import BenchmarkError, body_of

__all__ = ["PEER", "SYSTEMS", "System", "add_peer", "install_script"]

HERE = Path(__file__).resolve().parent


def install_script(root: Path = HERE.parent) -> Path:
    """The script that installs the pgq of a checkout, as `make build` leaves it."""
    control = (root / "pgq.control").read_text()
    version = re.search(r"^default_version\s*=\s*'([^']+)'", control, re.MULTILINE)
    if version is None:
        raise BenchmarkError("pgq.control names no default_version")
    return root / "migrations" / f"pgq--{version[1]}.sql"


@dataclass(frozen=True, kw_only=True)
class System:
    """One of the things compared."""

    name: str
    folder: Path
    installed_from: Path | None = None
    """A script elsewhere that takes the place of schema.sql."""
    version_of: str | None = None
    """The system whose names of scripts it has: it is another version of it, or a peer."""

    @property
    def kind(self) -> str:
        """The system by whose name cells know its scripts."""
        return self.version_of or self.name

    @property
    def schema(self) -> Path:
        """The script that installs it."""
        return self.installed_from or self.script("schema")

    def script(self, name: str) -> Path:
        """One of its scripts."""
        return self.folder / f"{name}.sql"

    def has(self, name: str) -> bool:
        """Whether there is such a script."""
        return self.script(name).exists()

    def do(self, bench: Bench, database: Database, name: str, **variables: int | str) -> str:
        """Run one of its psql scripts, if it has it, and return what it printed."""
        if not self.has(name):
            return ""
        return bench.psql(database, self.script(name), **variables)

    def fill(
        self,
        bench: Bench,
        database: Database,
        what: str,
        amount: int,
        body: int,
        **variables: int,
    ) -> None:
        """Write so many messages or jobs, a multiple of 1000, with bodies of so many bytes."""
        into = {"messages": "log", "jobs": "queue"}.get(what, what)
        self.do(bench, database, f"fill_{into}", **{what: amount}, **variables, body=body_of(body))

    def check(self, bench: Bench, database: Database, what: str, **expected: int) -> None:
        """Fail when the log, the queue or what was consumed is not as it should be."""
        wrong = self.do(bench, database, f"check_{what}", **expected)
        if wrong:
            raise BenchmarkError(f"{self.name}: {wrong}")


SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        System(name="bound", folder=HERE / "bound"),
        System(name="primitives", folder=HERE / "primitives"),
        System(name="pgq", folder=HERE / "pgq", installed_from=install_script()),
    )
}

PEER = "primitives"
"""The system whose names of scripts a peer has."""


def add_peer(name: str, folder: Path) -> System:
    """Have another system measured: a folder with scripts named like those of the primitives."""
    peer = System(name=name, folder=folder.resolve(), version_of=PEER)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in SYSTEMS:
        raise BenchmarkError(f'"{name}" cannot be the name of a system')
    if not peer.has("schema"):
        raise BenchmarkError(f"{folder} has no schema.sql, which would install {name}")
    SYSTEMS[name] = peer
    return peer
