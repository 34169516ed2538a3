"""The demo of Spark: flights go through a topic to Spark, and come back added up by route.

Once as a batch, once as a stream that crashes in the middle; both must come to the figures of
the CSV file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

import psycopg
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from pgq import Client
from pgq.demo._common import Belongings, DemoError, conclude, installed, reserved, target
from pgq.demo._flights import Expected, FlightsNotFoundError, expected, find_data, messages
from pgq.demo._spark_figures import (
    FLIGHTS,
    ROUTES,
    ROUTES_LIVE,
    Outcome,
    checks_of,
    figures_of,
    show,
    stored,
)
from pgq.demo._spark_query import Stream, by_route, location_of, write_routes
from pgq.demo._spark_thread import apart
from pgq.local_spark import SparkSetupError, local_session
from pgq.spark import Pgq, register

__all__ = ["run"]

PARTITIONS = 4
BELONGINGS = Belongings("pgq demo-spark", "pgq_demo_spark", (FLIGHTS, ROUTES, ROUTES_LIVE))

PUBLISH_BATCH = 2000
MICRO_BATCHES = 8
STALL = 120.0
"""Seconds without any progress of the stream after which the demo gives up."""


def run(
    rows: int | None = None, *, database: str | None = None, console: Console | None = None
) -> int:
    """Run the demo on a database, or DATABASE_URL, or a temporary server; returns the exit status.

    `rows` limits the flights to the first ones of the file. Everything it makes is removed at the
    end, and nothing else is touched.
    """
    console = console or Console()
    try:
        data = find_data()
    except FlightsNotFoundError as error:
        raise DemoError(str(error)) from None
    with console.status("Counting straight from the CSV file, for the comparison at the end …"):
        wanted = expected(data, rows)
    console.print(
        f"[bold]{wanted.flights:,}[/] flights from New York, 2013, "
        f"on [bold]{len(wanted.routes):,}[/] routes"
    )
    with target(database) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        client = Client(connection)
        with installed(connection), reserved(client, BELONGINGS), _session(console) as session:
            with connection.transaction():
                connection.execute("create schema pgq_demo_spark")
                for topic in BELONGINGS.topics:
                    client.admin.create_topic(topic, partitions=PARTITIONS)
            version = connection.info.server_version // 10000
            console.print(
                f"PostgreSQL {version} with pgq {client.version()}, Spark {pyspark.__version__}\n"
            )
            outcome = apart(
                session,
                lambda stopped: _perform(client, session, data, rows, wanted, console, stopped),
            )
            batch, live = figures_of(client, ROUTES), figures_of(client, ROUTES_LIVE)
            checks = checks_of(client, wanted, outcome, batch, live)
            show(console, wanted, outcome, batch, live)
            return conclude(console, checks)


@contextmanager
def _session(console: Console) -> Iterator[SparkSession]:
    """A session on this machine; one that was there before is left running."""
    found = SparkSession.getActiveSession()
    try:
        with console.status("Starting Spark …"):
            session = local_session("local[*,4]", "pgq demo")
    except SparkSetupError as error:
        raise DemoError(str(error)) from None
    try:
        yield session
    finally:
        if found is None:
            session.stop()


# -- the performance -------------------------------------------------------------------------------


class _Bars:
    """A line for each part, with its rate."""

    def __init__(self, console: Console, outcome: Outcome, stopped: Event) -> None:
        self._outcome = outcome
        self._stopped = stopped
        self._begun: dict[str, tuple[TaskID, float]] = {}
        self._progress = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[count]:>18}"),
            TextColumn("{task.fields[rate]:>10}"),
            console=console,
        )

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, label: str, total: int | None) -> None:
        self.check()
        task = self._progress.add_task(label, total=total, count="", rate="")
        self._begun[label] = task, time.monotonic()

    def check(self) -> None:
        """Go on only if nobody has stopped the demo."""
        if self._stopped.is_set():
            raise DemoError("the demo was stopped")

    def update(self, label: str, count: int, total: int) -> None:
        self.check()
        task, begun = self._begun[label]
        seconds = time.monotonic() - begun
        self._outcome.rates[label] = count, seconds
        self._progress.update(
            task,
            completed=count,
            total=total,
            count=f"{count:,} of {total:,}",
            rate=f"{count / seconds:,.0f}/s",
        )

    def say(self, text: str, sign: str = " ") -> None:
        self._progress.console.print(f"[yellow]{sign}[/] {escape(text)}", highlight=False)


def _perform(
    client: Client,
    session: SparkSession,
    data: Path,
    rows: int | None,
    wanted: Expected,
    console: Console,
    stopped: Event,
) -> Outcome:
    outcome = Outcome()
    register(session)
    # Spark looks for data sources in the active session, which a thread has only after this.
    session.createDataFrame([], "nothing int")
    with _Bars(console, outcome, stopped) as bars:
        _publish(client, data, rows, wanted, bars)
        _run_batch(client, session, wanted, outcome, bars)
        _run_stream(client, session, wanted, outcome, bars)
    return outcome


def _publish(client: Client, data: Path, rows: int | None, wanted: Expected, bars: _Bars) -> None:
    label = f"flights published, batches of {PUBLISH_BATCH:,}"
    bars.begin(label, wanted.flights)
    flights = messages(data, rows)
    published = 0
    while batch := list(islice(flights, PUBLISH_BATCH)):
        keys, payloads = zip(*batch, strict=True)
        client.publish_batch(FLIGHTS, payloads, keys=keys)
        published += len(batch)
        bars.update(label, published, wanted.flights)


def _run_batch(
    client: Client, session: SparkSession, wanted: Expected, outcome: Outcome, bars: _Bars
) -> None:
    """Read all, add up, write in one transaction; and the same again, which changes nothing."""
    location = location_of(client.connection)
    label = "batch: read, added up by route, written"
    bars.begin(label, None)
    routes = by_route(Pgq(session, *location).read(topic=FLIGHTS))
    write_routes(routes, location)
    bars.update(label, wanted.flights, wanted.flights)

    outcome.routes_before = stored(client, ROUTES)
    write_routes(routes, location)
    again = stored(client, ROUTES) > outcome.routes_before
    written = "it was written again" if again else "nothing was written"
    bars.say(f"the same write was repeated, as after a crash: {written}", "!")


def _run_stream(
    client: Client, session: SparkSession, wanted: Expected, outcome: Outcome, bars: _Bars
) -> None:
    """The stream, ended in the middle and started again from its checkpoint."""
    batch_size = max(1, -(-wanted.flights // MICRO_BATCHES))
    outcome.crashed_in = (-(-wanted.flights // batch_size) - 1) // 2
    label = f"stream: micro-batches of {batch_size:,}"
    bars.begin(label, wanted.flights)
    stream = Stream(session, client, batch_size, outcome)
    with TemporaryDirectory(prefix="pgq-demo-") as checkpoint:
        while not _follow(stream.start(checkpoint), stream, label, wanted, bars):
            bars.say(
                f"ended the query when batch {outcome.crashed_in} was written, before Spark had "
                "noted that; starting it again from its checkpoint",
                "!",
            )


def _follow(
    query: StreamingQuery, stream: Stream, label: str, wanted: Expected, bars: _Bars
) -> bool:
    """Show each micro-batch until the query has ended; returns whether it has read all."""
    shown = -1
    moved = time.monotonic()
    try:
        while True:
            bars.check()
            ended = not query.isActive  # before the last look at its progress
            for progress in query.recentProgress:
                done = _position(progress.sources[0].endOffset)
                if progress.batchId > shown and done is not None:
                    shown = progress.batchId
                    moved = time.monotonic()
                    bars.update(label, done, wanted.flights)
                    again = stream.has_written(shown) > 1
                    bars.say(_told(progress, done, again=again))
            if ended:
                return not stream.has_crashed(query)
            if time.monotonic() - moved > STALL:
                raise DemoError(f"the stream has not moved for {STALL:.0f} seconds")
            time.sleep(0.2)
    finally:
        with suppress(Exception):
            query.stop()


def _told(progress: Any, done: int, *, again: bool) -> str:
    seconds = progress.durationMs.get("triggerExecution", 0) / 1000
    if again:
        # pgq knows its number, so the flights are not even read
        return f"batch {progress.batchId} again: it was written already, {seconds:.1f} s"
    text = f"batch {progress.batchId}: {progress.numInputRows:,} flights in {seconds:.1f} s"
    latest = _position(progress.sources[0].latestOffset)
    return text if latest is None else f"{text}, {latest - done:,} behind"


def _position(offset: str | None) -> int | None:
    """How many messages lie before an offset in the JSON of Spark's checkpoint."""
    found = json.loads(offset or "null")
    return None if found is None else sum(next_one - 1 for next_one in found[FLIGHTS].values())
