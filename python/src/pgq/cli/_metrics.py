"""``pgq metrics`` and ``pgq workers``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pgq.cli._errors import UsageError
from pgq.cli._house import AsJson, Database, command, connected, refuse_other_version
from pgq.cli._output import show_rows, write_line

__all__ = ["add"]


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen {text} is not of the form HOST:PORT")
    return host.strip("[]") or "0.0.0.0", int(port)


def add(app: typer.Typer) -> None:
    """Add the commands."""

    @command(
        app,
        "metrics",
        examples=["pgq metrics", "pgq metrics --json", "pgq metrics --listen 127.0.0.1:9187"],
    )
    def metrics(
        listen: Annotated[
            str | None, typer.Option(metavar="HOST:PORT", help="serve them to Prometheus")
        ] = None,
        host: Annotated[
            list[str] | None,
            typer.Option(
                "--asked-as", metavar="NAME", help="a further name of this server; repeatable"
            ),
        ] = None,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Show all figures as text for Prometheus, or as JSON; or serve them, until Ctrl-C."""
        if listen is not None:
            address, port = _address(listen)
            from pgq.exporter import serve

            refuse_other_version(database)
            print(f"metrics at http://{address}:{port}/metrics", file=sys.stderr)
            serve(database, host=address, port=port, hosts=host or ())
            return
        with connected(database, read_only=True) as client:
            if json:
                show_rows(client.monitor.metrics(), json=True)
            else:
                write_line(client.monitor.metrics_text().rstrip("\n"))

    @command(app, "workers", examples=["pgq workers", "pgq workers --json"], table=True)
    def workers(database: Database = "", json: AsJson = False) -> None:
        """Show the workers, consumers and push workers that have told of themselves."""
        with connected(database, read_only=True) as client:
            show_rows(
                client.monitor.list_workers(),
                json=json,
                columns=(
                    "worker",
                    "role",
                    "kind",
                    "host",
                    "pid",
                    "sources",
                    "running",
                    "details",
                    "last_seen_at",
                    "stale",
                ),
                nothing="no workers",
            )
