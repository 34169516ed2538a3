"""``pgq top``: what goes on, as it goes on."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any

import psycopg
import typer
from rich import box
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pgq import Client
from pgq._sampling import Sample, figures, sample
from pgq.cli._house import (
    AsJson,
    CommandError,
    Database,
    command,
    connected,
    interrupted,
    one_line,
)
from pgq.cli._output import as_json, console, span, write_line

__all__ = ["add"]


def _table(title: str, rows: list[dict[str, Any]], moment: datetime) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False,
        expand=False, show_edge=False,
    )  # fmt: skip
    names = list(rows[0]) if rows else []
    for name in names:
        words = name.removesuffix("_at").replace("_per_second", "/s").replace("_", " ")
        text = name in ("topic", "consumer_group", "queue", "held_by")
        table.add_column(words, justify="left" if text else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row[name], moment)) for name in names))
    return table


def _cell(value: Any, moment: datetime) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{span(max(moment - value, moment - moment))} ago"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _screen(
    shown: dict[str, list[dict[str, Any]]], now: Sample, height: int, database: str
) -> Group:
    title = f"pgq, database {database}   {now.moment.astimezone():%H:%M:%S %Z}   q leaves"
    parts: list[Any] = [Text(title, style="bold reverse")]
    # what does not fit is counted, so that nobody believes to see all
    room = max(1, (height - 2) // 3 - 4)
    for name, rows in shown.items():
        busiest = sorted(rows, key=_weight, reverse=True)[:room]
        parts.append(_table(name, busiest, now.moment) if rows else Text(f"no {name}", style="dim"))
        if len(rows) > len(busiest):
            parts.append(Text(f"… and {len(rows) - len(busiest)} more {name}", style="dim"))
    return Group(*parts)


def _weight(row: dict[str, Any]) -> float:
    return sum(
        float(row.get(name) or 0)
        for name in (
            "published_per_second", "consumed_per_second", "finished_per_second", "lag", "ready",
        )
    )  # fmt: skip


@contextmanager
def _keys() -> Iterator[int | None]:
    """The terminal's keys one by one, without echo; None where there are none."""
    try:
        import termios
        import tty
    except ImportError:
        yield None
        return
    if sys.stdin is None or not sys.stdin.isatty():
        yield None
        return
    place = sys.stdin.fileno()
    before = termios.tcgetattr(place)
    try:
        tty.setcbreak(place)
        yield place
    finally:
        termios.tcsetattr(place, termios.TCSADRAIN, before)


def _left(keys: int | None, seconds: float) -> bool:
    """Wait so long; true when somebody wants to leave."""
    if keys is None:
        time.sleep(seconds)
        return False
    end = time.monotonic() + seconds
    while (rest := end - time.monotonic()) > 0:
        if select.select([keys], [], [], rest)[0]:
            pressed = os.read(keys, 64)
            if not pressed or pressed[:1] in (b"q", b"Q", b"\x03", b"\x04"):
                return True
    return False


def add(app: typer.Typer) -> None:
    """Add the command."""

    @command(app, "top", examples=["pgq top", "pgq top --interval 5", "pgq top --count 2 --json"])
    def top(
        interval: Annotated[
            float, typer.Option("--interval", "-i", min=0.1, help="seconds between two looks")
        ] = 2.0,
        count: Annotated[
            int | None, typer.Option("--count", "-n", min=1, help="look so often, then end")
        ] = None,
        database: Database = "",
        as_lines: AsJson = False,
    ) -> None:
        """Watch rates, lags and depths; q or Ctrl-C leaves.

        Where the output is no terminal, say --count; with --json each look is a line.
        """
        terminal = sys.stdout.isatty() and not as_lines
        if not terminal and count is None:
            raise CommandError(
                "there is no terminal to draw on; HINT: --count says how often to look"
            )
        with connected(database, read_only=True) as client:
            name = client.connection.info.dbname
            if not terminal:
                _print(client, count or 1, interval, as_lines, name)
                return
            out = console()
            before: Sample | None = None
            looks = 0
            try:
                with _keys() as keys, Live(console=out, screen=True, auto_refresh=False) as live:
                    while True:
                        now = sample(client)
                        shown = figures(now, before)
                        live.update(_screen(shown, now, out.height, name), refresh=True)
                        before = now
                        looks += 1
                        if (count is not None and looks >= count) or _left(keys, interval):
                            return
            except KeyboardInterrupt:
                return
            except psycopg.OperationalError as error:
                if interrupted(error):
                    return
                raise CommandError(one_line(error)) from None


def _print(client: Client, count: int, interval: float, as_lines: bool, name: str) -> None:
    before: Sample | None = None
    for number in range(count):
        if number:
            time.sleep(interval)
        now = sample(client)
        shown = figures(now, before)
        before = now
        if as_lines:
            write_line(as_json({"taken_at": now.moment, **shown}))
        else:
            out = console()
            out.print(_screen(shown, now, 10_000, name))
        sys.stdout.flush()
