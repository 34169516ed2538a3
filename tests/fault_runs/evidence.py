"""What a fault run leaves behind for its checks: journals, and what is stored in the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from fault_runs.journal import Entry, entries

__all__ = ["Evidence", "Unit", "Violation", "read_journals"]


@dataclass(frozen=True)
class Violation:
    """A promise that was broken."""

    kind: str
    told: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.told}"


@dataclass
class Unit:
    """A transaction of a client: what it was about, how it ended, and what it was told."""

    role: str
    about: Entry
    began: int
    ended: int = 2**63
    outcome: str = "unknown"
    told: Entry = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether its commit was acknowledged."""
        return self.outcome == "done"

    @property
    def undone(self) -> bool:
        """Whether it is sure that it was not committed."""
        return self.outcome == "undone"


@dataclass
class Evidence:
    """All that the checks look at."""

    units: list[Unit]
    faults: list[Entry]
    connection: psycopg.Connection[Any]
    violations: list[Violation] = field(default_factory=list)

    def of(self, *roles: str) -> Iterator[Unit]:
        """The units of these roles, as they began."""
        return (unit for unit in self.units if unit.role in roles)

    def ask(self, query: str, values: Iterable[Any] = ()) -> list[Any]:
        """What the database says."""
        return self.connection.execute(query.encode(), list(values)).fetchall()

    def violate(self, kind: str, told: str) -> None:
        """Note a promise that was broken."""
        self.violations.append(Violation(kind, told))

    def crashed(self, since: int, until: int) -> bool:
        """Whether the server may have crashed in that time."""
        return any(
            entry["from"] <= until and entry["to"] >= since
            for entry in self.faults
            if entry["kind"] in ("backend", "postmaster", "cleanup", "failover", "disk")
        )

    def stepped(self, since: int, until: int) -> bool:
        """Whether the clock may have been moved in that time."""
        return any(
            entry["from"] <= until and entry["to"] >= since
            for entry in self.faults
            if entry["kind"] in ("clock", "server_clock")
        )


def read_journals(folder: Path) -> list[Unit]:
    """The units of all clients, in the order in which they began."""
    units: dict[str, Unit] = {}
    for path in sorted(folder.iterdir()):
        for entry in entries(path):
            number = entry["unit"]
            if entry["what"] == "begin":
                units[number] = Unit(entry["role"], entry, entry["at"])
                continue
            unit = units[number]
            unit.ended = entry["at"]
            unit.told = entry
            if entry["what"] == "done":
                unit.outcome = "done"
            elif entry["sure"]:
                unit.outcome = "undone"
    return sorted(units.values(), key=lambda unit: unit.began)
