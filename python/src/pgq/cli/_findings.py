"""What doctor finds, and what it could not look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import psycopg

from pgq import Client
from pgq.cli._catalog import Row, ask

__all__ = ["ERROR", "NOTE", "WARNING", "Examination", "Finding"]

ERROR, WARNING, NOTE = "error", "warning", "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or could not be looked at."""

    check: str
    severity: str
    what: str
    why: str
    fix: str
    since: datetime | None = None
    about: Mapping[str, str] = field(default_factory=dict)
    """What it is about, such as a queue and a job, by their names."""


@dataclass(slots=True)
class Examination:
    """A look at one database, and what was found."""

    connection: psycopg.Connection[Any]
    older_than: timedelta
    role: str | None = None
    server: Row = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)

    @property
    def client(self) -> Client:
        """The functions of pgq."""
        return Client(self.connection)

    def ask(self, question: str, *arguments: Any) -> list[Row]:
        """What the catalog says."""
        return ask(self.connection, question, arguments)

    def note(
        self,
        check: str,
        severity: str,
        what: str,
        why: str,
        fix: str,
        since: datetime | None = None,
        **about: str,
    ) -> None:
        """Note a finding."""
        self.findings.append(Finding(check, severity, what, why, fix, since, about))

    def unseen(self, check: str, what: str, fix: str) -> None:
        """Note that this role may not look at something."""
        self.note(check, NOTE, f"not looked at: {what}", "what is wrong there stays unseen", fix)
