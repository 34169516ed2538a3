"""Runs the demo's processes, kills one of them, and shows how far they have come."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from pgq import Client
from pgq.demo._cast import Cast
from pgq.demo._common import (
    Belongings,
    DemoError,
    conclude,
    installed,
    one,
    reserved,
    target,
)
from pgq.demo._flights import (
    BADLY_DELAYED,
    Expected,
    FlightsNotFoundError,
    expected,
    find_data,
)
from pgq.demo._parts import (
    AIRLINES,
    AIRPORTS,
    CLOCK,
    CLOCKS,
    JOB_LEASE,
    LATE,
    MEMBERS,
    PARTITIONS,
    QUEUE,
    SCHEMA,
    TABLES,
    TOPIC,
    WORKERS,
    Setting,
    count_airlines,
    count_airports,
    keep_time,
    publish,
    work,
)
from pgq.demo._proof import LABELS, Outcome, checks, show

__all__ = ["DemoError", "run"]

STALL = 60.0
"""Seconds without any progress after which the demo gives up."""

BELONGINGS = Belongings(
    "pgq demo", SCHEMA, topics=(TOPIC,), queues=(QUEUE, CLOCK), schedules=(CLOCK,)
)


def run(
    rows: int | None = None, *, database: str | None = None, console: Console | None = None
) -> int:
    """Run the demo on a database, or DATABASE_URL, or a temporary server; returns the exit status.

    `rows` limits the flights to the first ones of the file. Everything it makes is removed at the
    end, and nothing else is touched; schedules that are there already are run meanwhile.
    """
    console = console or Console()
    try:
        data = find_data()
    except FlightsNotFoundError as error:
        raise DemoError(str(error)) from None
    with console.status("Counting straight from the CSV file, for the comparison at the end …"):
        wanted = expected(data, rows)
    console.print(
        f"[bold]{wanted.flights:,}[/] flights from New York, 2013; "
        f"[bold]{len(wanted.badly_delayed):,}[/] arrived {BADLY_DELAYED // 60} hours late or more"
    )
    with target(database) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        client = Client(connection)
        with installed(connection), reserved(client, BELONGINGS):
            with connection.transaction():
                connection.execute(TABLES)
                client.admin.create_topic(TOPIC, partitions=PARTITIONS)
                client.admin.create_group(TOPIC, AIRLINES)
                client.admin.create_group(TOPIC, AIRPORTS)
                client.admin.create_queue(QUEUE, lease=JOB_LEASE, notify=True, ordered=True)
                client.admin.subscribe(QUEUE, TOPIC, QUEUE, routing_key=LATE)
                client.admin.create_queue(CLOCK)
                client.schedules.create_schedule(
                    CLOCK,
                    queue=CLOCK,
                    payload="tick",
                    every=timedelta(seconds=1),
                    missed="all",
                )
            version = connection.info.server_version // 10000
            console.print(f"PostgreSQL {version} with pgq {client.version()}\n")
            outcome = _perform(dsn, data, rows, wanted, connection, console)
            found = checks(client, wanted, outcome)
            show(console, data, client, wanted, outcome)
            return conclude(console, found)


# -- the performance -------------------------------------------------------------------------------


def _perform(
    dsn: str,
    data: Path,
    rows: int | None,
    wanted: Expected,
    connection: psycopg.Connection[Any],
    console: Console,
) -> Outcome:
    outcome = Outcome()
    jobs = len(wanted.badly_delayed)
    cast = Cast()
    setting = Setting(dsn, data, rows, cast.stop)
    hears, tells = cast.pipe()
    try:
        hang_at = min(25, max(1, jobs // 10))
        victim = cast.start(work, setting, 1, cast.gate, tells, hang_at)
        for number in range(2, WORKERS + 1):
            cast.start(work, setting, number, cast.gate, None, 0)
        for _ in range(MEMBERS):
            cast.start(count_airlines, setting)
            cast.start(count_airports, setting)
        for _ in range(CLOCKS):
            cast.start(keep_time, setting)
        publisher = cast.start(publish, setting)
        with _Bars(console, outcome) as bars:
            bars.add("published", wanted.flights)
            bars.add("airlines", wanted.flights)
            bars.add("airports", wanted.flights)
            bars.add("jobs", jobs)
            while not bars.finished:
                time.sleep(0.2)
                cast.require_health()
                bars.update(_progress(connection))
                if outcome.victim_job is None and hears.poll():
                    pid, outcome.victim_job = hears.recv()
                    cast.gate.set()
                    time.sleep(0.2)
                    outcome.killed_at = time.monotonic()
                    cast.kill(victim)
                    bars.say(
                        f"killed worker 1 (process {pid}, signal 9) in the middle of "
                        f"job {outcome.victim_job}"
                    )
                if outcome.victim_job is not None and outcome.redelivered_after is None:
                    _look_for_redelivery(connection, outcome, bars)
            publisher.join(5.0)
            _wait_for_a_tick(connection)
            cast.require_health()
    finally:
        cast.dismiss()
    return outcome


def _wait_for_a_tick(connection: psycopg.Connection[Any]) -> None:
    """With few flights all is done before the first second is over."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        if one(connection, "select count(*) from pgq_demo.tick"):
            return
        time.sleep(0.1)


def _look_for_redelivery(
    connection: psycopg.Connection[Any], outcome: Outcome, bars: _Bars
) -> None:
    row = connection.execute(
        "select worker, attempt from pgq_demo.report where job_id = %s", [outcome.victim_job]
    ).fetchone()
    if row:
        outcome.redelivered_after = time.monotonic() - outcome.killed_at
        bars.say(
            f"job {outcome.victim_job} came back after {outcome.redelivered_after:.1f} s: "
            f"worker {row[0]} did it in attempt {row[1]}"
        )


def _progress(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """How far everything has come, by pgq's own figures and the table of reports."""
    lag = Client(connection).monitor.group_lag(TOPIC)
    airlines = [row for row in lag if row.consumer_group == AIRLINES]
    airports = [row for row in lag if row.consumer_group == AIRPORTS]
    return {
        "published": sum(row.last_offset for row in airlines),
        "airlines": sum(row.committed_offset for row in airlines),
        "airports": sum(row.committed_offset for row in airports),
        "jobs": one(connection, "select count(*) from pgq_demo.report"),
    }


class _Bars:
    """The progress bars, with a rate each, that stop the demo when nothing moves any more."""

    def __init__(self, console: Console, outcome: Outcome) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TextColumn("{task.completed:>7,.0f} of {task.total:,.0f}"),
            TextColumn("{task.fields[rate]:>8}"),
            console=console,
        )
        self._outcome = outcome
        self._tasks: dict[str, TaskID] = {}
        self._totals: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._still: dict[str, float] = {}
        self._moved = time.monotonic()

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def add(self, name: str, total: int) -> None:
        self._tasks[name] = self._progress.add_task(LABELS[name], total=total, rate="")
        self._totals[name] = total
        self._counts[name] = 0
        self._still[name] = time.monotonic()

    @property
    def finished(self) -> bool:
        return all(self._counts[name] >= total for name, total in self._totals.items())

    def say(self, text: str) -> None:
        self._progress.console.print(f"[yellow]![/] {escape(text)}")

    def update(self, counts: dict[str, int]) -> None:
        now = time.monotonic()
        for name, count in counts.items():
            if count == 0:
                self._still[name] = now
            if count == self._counts[name]:
                continue
            self._moved = now
            self._counts[name] = count
            seconds = now - self._still[name]
            self._outcome.rates[name] = (count, seconds)
            self._progress.update(
                self._tasks[name], completed=count, rate=f"{count / seconds:,.0f}/s"
            )
        if now - self._moved > STALL:
            raise DemoError(f"nothing has moved for {STALL:.0f} seconds")
