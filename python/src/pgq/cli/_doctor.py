"""``pgq doctor``."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

import psycopg
import typer
from rich.text import Text

from pgq.cli import _pgq_checks, _server_checks
from pgq.cli._errors import CommandError, one_line
from pgq.cli._findings import ERROR, NOTE, WARNING, Examination, Finding
from pgq.cli._house import AsJson, Database, command, connected
from pgq.cli._output import as_json, console, write_line
from pgq.cli._values import span_of

__all__ = ["add", "examine"]

_COLOURS = {ERROR: "bold red", WARNING: "yellow", NOTE: "cyan"}
_ORDER = (ERROR, WARNING, NOTE)


def examine(
    connection: psycopg.Connection[Any], older_than: timedelta, role: str | None = None
) -> Examination:
    """Do all checks that can be done."""
    look = Examination(connection, older_than, role)
    look.server = look.ask("server")[0]
    checks = list(_server_checks.CHECKS)
    if _pgq_checks.installed(look):
        checks += _pgq_checks.CHECKS
    else:
        checks = [(name, check) for name, check in checks if name != "locks"]
    for name, check in checks:
        look.checked.append(name)
        try:
            with connection.transaction():  # what is refused leaves one around it as it was
                check(look)
        except psycopg.errors.UndefinedObject:  # there is no such role
            raise
        except (psycopg.errors.InsufficientPrivilege, psycopg.ProgrammingError) as error:
            look.unseen(
                name, one_line(error).partition("; HINT")[0],
                f"run pgq doctor as role {look.server['owner']}",
            )  # fmt: skip
    look.findings.sort(key=lambda one: _ORDER.index(one.severity))
    return look


def _show(finding: Finding, out: Any) -> None:
    line = Text(f"{finding.severity}: ", style=_COLOURS[finding.severity])
    line.append(f"{finding.what} ", style="bold").append(f"[{finding.check}]", style="dim")
    out.print(line)
    out.print(Text(f"    why: {finding.why}"))
    out.print(Text("    do:  " + finding.fix.replace("\n", "\n         ")))


def add(app: typer.Typer) -> None:
    """Add the command."""

    @command(
        app,
        "doctor",
        examples=[
            "pgq doctor",
            "pgq doctor --json | jq '.findings[].what'",
            "pgq doctor --role web --strict",
        ],
    )
    def doctor(
        strict: Annotated[
            bool, typer.Option("--strict", help="exit status 1 for warnings as well")
        ] = False,
        older_than: Annotated[
            timedelta,
            typer.Option(parser=span_of, metavar="TIME", help="what is open for so long is told"),
        ] = "5m",  # type: ignore[assignment]
        role: Annotated[
            str | None, typer.Option(help="look at the grants of this role; default: one's own")
        ] = None,
        database: Database = "",
        json: AsJson = False,
    ) -> int:
        """Look for what is wrong, and say what to do.

        Held snapshots, idle and prepared transactions, replication slots, missing cleanup, leases
        and jobs that nobody takes up, dead rows, foreign schemas, missing grants, wrong settings.
        It changes nothing. Exit status: 0 no error was found, 1 one was found (with --strict also
        for a warning), or nothing could be looked at.
        """
        with connected(database, read_only=True, any_version=True) as client:
            try:
                look = examine(client.connection, older_than, role)
            except psycopg.errors.UndefinedObject as error:
                raise CommandError(one_line(error)) from None
        counts = {
            severity: sum(1 for one in look.findings if one.severity == severity)
            for severity in _ORDER
        }
        if json:
            report = {
                "database": look.server["database"],
                "role": look.server["role"],
                "version": look.server.get("version"),
                "errors": counts[ERROR],
                "warnings": counts[WARNING],
                "notes": counts[NOTE],
                "checked": look.checked,
                "findings": [replace(one) for one in look.findings],
            }
            write_line(as_json(report))
        else:
            out = console()
            for finding in look.findings:
                _show(finding, out)
            told = ", ".join(
                f"{counts[one]} {one}{'' if counts[one] == 1 else 's'}" for one in _ORDER
            )
            out.print(
                f"database {look.server['database']}: {told}; looked at {', '.join(look.checked)}"
            )
        return 1 if counts[ERROR] or (strict and counts[WARNING]) else 0
