"""``pgq status`` and ``pgq top``: what is there, and what goes on."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import psycopg
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from pgq import Client
from pgq._sampling import Sample, figures, queue_figures, sample
from pgq.cli._errors import CommandError, UsageError, interrupted, one_line
from pgq.cli._house import AsJson, Database, command, connected
from pgq.cli._output import ago, as_json, console, table_of, write_line
from pgq.cli._values import wait_of

__all__ = ["add"]

_VIEWS = ("topic_stats", "group_lag", "queue_stats")


def _sections(
    shown: dict[str, list[dict[str, Any]]], now: datetime, width: int, room: int | None = None
) -> Iterator[Any]:
    """A table for each kind of rows, with ages in place of times and a blank line before it."""
    for name, rows in shown.items():
        yield Text()
        busiest = sorted(rows, key=_weight, reverse=True)[:room] if room else rows
        if not rows:
            yield Text(f"no {name}", style="dim")
            continue
        aged = [
            {
                key.removesuffix("_at"): ago(value, now) if isinstance(value, datetime) else value
                for key, value in row.items()
                if key != "estimated"
            }
            | ({"queue": f"{sign} {row['queue']}"} if (sign := row.get("estimated")) else {})
            for row in busiest
        ]
        yield table_of(aged, width=width, title=name)
        # what does not fit is counted, so that nobody believes to see all
        if len(rows) > len(busiest):
            yield Text(f"… and {len(rows) - len(busiest)} more {name}", style="dim")


def _screen(
    shown: dict[str, list[dict[str, Any]]],
    now: Sample,
    out: Console,
    height: int,
    database: str,
    leave: str = "",
) -> Group:
    title = f"pgq, database {database}   {now.moment.astimezone():%H:%M:%S %Z}{leave}"
    room = max(1, (height - 1) // 3 - 5)
    return Group(Text(title, style="bold reverse"), *_sections(shown, now.moment, out.width, room))


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


def _state(client: Client) -> dict[str, list[dict[str, Any]]]:
    """What the database has: rows of topics, groups and queues."""
    topics = {
        one.topic: {
            "topic": one.topic,
            "partitions": one.partitions,
            "retention": one.retention,
            "messages": 0,
            "published_last_minute": 0,
        }
        for one in client.admin.list_topics()
    }
    for stats in client.monitor.topic_stats():
        for name in ("messages", "published_last_minute"):
            topics[stats.topic][name] += getattr(stats, name)
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    now = datetime.now(timezone.utc)
    for lag in client.monitor.group_lag():
        row = groups.setdefault(
            (lag.topic, lag.consumer_group),
            {
                "topic": lag.topic,
                "consumer_group": lag.consumer_group,
                "lag": 0,
                "oldest_published_at": None,
                "partitions_leased": 0,
            },
        )
        row["lag"] += lag.lag
        row["partitions_leased"] += lag.leased_until is not None and lag.leased_until > now
        times = [one for one in (row["oldest_published_at"], lag.oldest_published_at) if one]
        row["oldest_published_at"] = min(times, default=None)
    shown = ("queue", "ready", "leased", "delayed", "waiting", "expired", "dead")
    rows, estimated = queue_figures(client)
    queues = [
        {name: getattr(one, name) for name in (*shown, "oldest_ready_at", "held_by")}
        | {"estimated": estimated.get(one.queue)}
        for one in rows
    ]
    return {"topics": [*topics.values()], "groups": [*groups.values()], "queues": queues}


def _status(database: Database = "", json: AsJson = False) -> None:
    """Show the topics, groups and queues of a database."""
    needs = ("version", "list_topics", *_VIEWS)
    with (
        connected(database, read_only=True, needs=needs) as client,
        client.connection.transaction(),
    ):
        about = {"version": client.version(), "database": client.connection.info.dbname}
        shown = _state(client)
    if json:
        write_line(as_json({**about, **shown}))
        return
    out = console()
    out.print(Text(f"pgq {about['version']} in database {about['database']}", style="bold"))
    out.print(*_sections(shown, datetime.now(timezone.utc), out.width), sep="\n")


def add(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "status", examples=["pgq status", "pgq status --json"], table=True)(_status)

    @command(app, "top", examples=["pgq top", "pgq top --interval 5s", "pgq top --count 2 --json"])
    def top(
        interval: Annotated[
            timedelta,
            typer.Option("--interval", "-i", parser=wait_of, metavar="TIME", help="between looks"),
        ] = "2s",  # type: ignore[assignment]
        count: Annotated[
            int | None, typer.Option("--count", min=1, help="look so often, then end")
        ] = None,
        database: Database = "",
        as_lines: AsJson = False,
    ) -> None:
        """Watch rates, lags and depths; q or Ctrl-C leaves.

        Where the output is no terminal, say --count; with --json each look is a line.
        """
        terminal = sys.stdout.isatty() and not as_lines
        if not terminal and count is None:
            raise UsageError(
                "there is no terminal to draw on; HINT: --count says how often to look"
            )
        pause = max(interval.total_seconds(), 0.1)
        with connected(database, read_only=True, needs=_VIEWS) as client:
            name = client.connection.info.dbname
            if not terminal:
                _print(client, count or 1, pause, as_lines, name)
                return
            out = console()
            before: Sample | None = None
            looks = 0
            try:
                with _keys() as keys, Live(console=out, screen=True, auto_refresh=False) as live:
                    while True:
                        now = sample(client)
                        shown = figures(now, before)
                        screen = _screen(shown, now, out, out.height, name, "   q leaves")
                        live.update(screen, refresh=True)
                        before = now
                        looks += 1
                        if (count is not None and looks >= count) or _left(keys, pause):
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
            out.print(_screen(shown, now, out, 10_000, name))
        sys.stdout.flush()
