"""The demo of Spark: flights go through a topic to Spark, and come back added up by route.

Once as a batch, once as a stream that crashes in the middle; both must come to the figures of
the CSV file.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Table

from pgq import Client
from pgq.demo._common import (
    Belongings,
    Check,
    DemoError,
    conclude,
    installed,
    mark,
    reserved,
    target,
)
from pgq.demo._flights import (
    Expected,
    Figures,
    FlightsNotFoundError,
    expected,
    find_data,
    messages,
)
from pgq.local_spark import SparkSetupError, local_session
from pgq.spark import Pgq, WriteResult
from pgq.spark._source import PgqDataSource

__all__ = ["run"]

FLIGHTS = "demo.spark.flights"
ROUTES = "demo.spark.routes"
ROUTES_LIVE = "demo.spark.routes-live"
PARTITIONS = 4
BELONGINGS = Belongings("pgq demo-spark", "pgq_demo_spark", (FLIGHTS, ROUTES, ROUTES_LIVE))

PRODUCER = "pgq demo-spark"
PUBLISH_BATCH = 2000
MICRO_BATCHES = 8
SHOWN_ROUTES = 10
STALL = 120.0
"""Seconds without any progress of the stream after which the demo gives up."""


@dataclass
class Outcome:
    """What happened, for the checks."""

    rates: dict[str, tuple[int, float]] = field(default_factory=dict)
    """For each part its count and the seconds that it took."""
    first: WriteResult | None = None
    repeated: WriteResult | None = None
    routes_before: int = 0
    """How many messages the topic of routes had before the write was repeated."""
    crashed_in: int = 0
    """The micro-batch in which the stream was ended."""
    batches: Counter[int] = field(default_factory=Counter)
    """How often Spark ran each micro-batch."""


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
    place = nullcontext(database) if database else target()
    with place as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        client = Client(connection)
        with installed(connection), reserved(client, BELONGINGS), _session(console) as session:
            with connection.transaction():
                connection.execute("create schema pgq_demo_spark")
                for topic in BELONGINGS.topics:
                    client.create_topic(topic, partitions=PARTITIONS)
            version = connection.info.server_version // 10000
            console.print(
                f"PostgreSQL {version} with pgq {client.version()}, Spark {session.version}\n"
            )
            outcome = _perform(client, session, data, rows, wanted, console)
            batch, live = _figures(client, ROUTES), _figures(client, ROUTES_LIVE)
            checks = _checks(client, wanted, outcome, batch, live)
            _summary(console, wanted, outcome, batch, live)
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


def _location(connection: psycopg.Connection[Any]) -> tuple[str, dict[str, str]]:
    """Where a psycopg connection leads, as JDBC names it: URL and properties."""
    info = connection.info
    # Java has no Unix sockets for this
    host = "localhost" if info.host.startswith("/") or not info.host else info.host
    host = f"[{host}]" if ":" in host else host
    sslmode = info.get_parameters().get("sslmode")
    properties = {"user": info.user, "password": info.password}
    return (
        f"jdbc:postgresql://{host}:{info.port}/{info.dbname}"
        + (f"?sslmode={sslmode}" if sslmode else ""),
        {name: value for name, value in properties.items() if value},
    )


# -- what Spark does -------------------------------------------------------------------------------


def by_route(flights: DataFrame) -> DataFrame:
    """Add flights up: a message for each route, with the columns that pgq publishes."""
    columns = "origin string, dest string, arr_delay int"
    flight = F.from_json(F.col("value").cast("string"), columns)
    return (
        flights.select(flight.alias("flight"))
        .select("flight.*")
        .groupBy("origin", "dest")
        .agg(
            F.count("*").alias("flights"),
            F.count("arr_delay").alias("timed"),
            F.coalesce(F.sum("arr_delay"), F.lit(0)).alias("minutes"),
        )
        .select(
            F.concat_ws("-", "origin", "dest").alias("key"),
            F.struct("origin", "dest", "flights", "timed", "minutes").alias("payload"),
        )
    )


class _Crash(Exception):
    """Ends the stream in the middle."""


class _Stream:
    """The streaming query: a topic, by routes, into another topic, batch by batch."""

    def __init__(
        self, session: SparkSession, client: Client, batch_size: int, outcome: Outcome
    ) -> None:
        url, properties = _location(client.connection)
        session.dataSource.register(PgqDataSource)
        self._source = (
            session.readStream.format("pgq")
            .option("url", url)
            .options(**properties)
            .option("topic", FLIGHTS)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(batch_size))
        )
        broker = Pgq(session, url, properties)
        self._write = broker.sink(ROUTES_LIVE, producer=PRODUCER, transform=by_route)
        self._context = session.sparkContext
        self._outcome = outcome

    def start(self, checkpoint: str) -> StreamingQuery:
        """Start on what there is now; with a checkpoint that was used before, after that."""
        return (
            self._source.load()
            .writeStream.foreachBatch(self._write_batch)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )

    def _write_batch(self, frame: DataFrame, batch_id: int) -> None:
        self._write(frame, batch_id)
        self._outcome.batches[batch_id] += 1
        if batch_id == self._outcome.crashed_in and self._outcome.batches[batch_id] == 1:
            # The batch is written, and Spark has not noted that: no moment is worse. Spark would
            # tell about it in a hundred lines.
            self._context.setLogLevel("OFF")
            raise _Crash

    def has_written(self, batch_id: int) -> int:
        """How often Spark has had a batch written."""
        return self._outcome.batches[batch_id]

    def has_crashed(self, query: StreamingQuery) -> bool:
        """Whether the query has ended by the crash that was meant to be."""
        error = query.exception()
        if error is None:
            return False
        if _Crash.__name__ not in str(error):
            raise DemoError(f"the stream has failed: {error}")
        self._context.setLogLevel("ERROR")
        return True


# -- the performance -------------------------------------------------------------------------------


class _Bars:
    """A line for each part, with its rate."""

    def __init__(self, console: Console, outcome: Outcome) -> None:
        self._outcome = outcome
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
        task = self._progress.add_task(label, total=total, count="", rate="")
        self._begun[label] = task, time.monotonic()

    def update(self, label: str, count: int, total: int) -> None:
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
) -> Outcome:
    outcome = Outcome()
    with _Bars(console, outcome) as bars:
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
    """Read all, add up, publish in one transaction; and the same again, which changes nothing."""
    broker = Pgq(session, *_location(client.connection))
    label = "batch: read, added up by route, published"
    bars.begin(label, None)
    routes = by_route(broker.read(FLIGHTS))
    outcome.first = broker.publish(routes, ROUTES, producer=PRODUCER, seq=1)
    bars.update(label, wanted.flights, wanted.flights)

    outcome.routes_before = _stored(client, ROUTES)
    outcome.repeated = broker.publish(routes, ROUTES, producer=PRODUCER, seq=1)
    written = "nothing was written" if outcome.repeated.repeated else "it was written again"
    bars.say(f"the same write was repeated, as after a crash: {written}", "!")


def _run_stream(
    client: Client, session: SparkSession, wanted: Expected, outcome: Outcome, bars: _Bars
) -> None:
    """The stream, ended in the middle and started again from its checkpoint."""
    batch_size = max(1, -(-wanted.flights // MICRO_BATCHES))
    outcome.crashed_in = (-(-wanted.flights // batch_size) - 1) // 2
    label = f"stream: micro-batches of {batch_size:,}"
    bars.begin(label, wanted.flights)
    stream = _Stream(session, client, batch_size, outcome)
    with TemporaryDirectory(prefix="pgq-demo-") as checkpoint:
        while not _follow(stream.start(checkpoint), stream, label, wanted, bars):
            bars.say(
                f"ended the query when batch {outcome.crashed_in} was written, before Spark had "
                "noted that; starting it again from its checkpoint",
                "!",
            )


def _follow(
    query: StreamingQuery, stream: _Stream, label: str, wanted: Expected, bars: _Bars
) -> bool:
    """Show each micro-batch until the query has ended; returns whether it has read all."""
    shown = -1
    moved = time.monotonic()
    try:
        while True:
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


# -- the proof -------------------------------------------------------------------------------------


Routes = dict[tuple[str, str], Figures]


def _figures(client: Client, topic: str) -> Routes:
    """The routes in a topic added up, read without Spark."""
    routes: Routes = {}
    for row in client.topic_stats(topic):
        if row.messages == 0:
            continue
        for message in client.fetch_range(topic, row.partition, row.first_offset, row.tip):
            route = message.payload
            figures = routes.setdefault((route["origin"], route["dest"]), Figures())
            figures.flights += route["flights"]
            figures.timed += route["timed"]
            figures.minutes += route["minutes"]
    return routes


def _stored(client: Client, topic: str) -> int:
    return sum(row.messages for row in client.topic_stats(topic))


def _checks(
    client: Client, wanted: Expected, outcome: Outcome, batch: Routes, live: Routes
) -> list[Check]:
    first, repeated = outcome.first, outcome.repeated
    stored = _stored(client, ROUTES)
    crashed_in, ran = outcome.crashed_in, outcome.batches
    return [
        Check(
            _stored(client, FLIGHTS) == wanted.flights,
            f"{_stored(client, FLIGHTS):,} flights in the topic",
        ),
        Check(
            batch == wanted.routes,
            f"batch: {_total(batch):,} flights on {len(batch):,} routes, "
            "every sum of delays equals the CSV's",
        ),
        Check(
            first is not None
            and repeated is not None
            and (first.repeated, repeated.repeated) == (False, True)
            and first.messages == repeated.messages == outcome.routes_before == stored,
            f"batch: repeated with its number, it wrote nothing: {stored:,} messages as before",
        ),
        Check(
            live == wanted.routes,
            f"stream: {_total(live):,} flights on {len(live):,} routes, "
            "every sum of delays equals the CSV's",
        ),
        Check(
            set(ran) == set(range(len(ran))) and ran[crashed_in] == 2 and ran.total() > len(ran),
            f"stream: {len(ran)} micro-batches; batch {crashed_in} ran {ran[crashed_in]} times, "
            "before and after the crash, and was written once",
        ),
    ]


def _total(routes: Routes) -> int:
    return sum(figures.flights for figures in routes.values())


# -- the summary -----------------------------------------------------------------------------------


def _summary(
    console: Console, wanted: Expected, outcome: Outcome, batch: Routes, live: Routes
) -> None:
    console.print()
    table = Table(
        title=f"Average delay at arrival, the {SHOWN_ROUTES} busiest routes", title_style="bold"
    )
    for heading in ("route", "flights", "batch", "stream", "by the CSV", ""):
        table.add_column(heading, justify="left" if heading == "route" else "right")
    nothing = Figures()
    routes = []
    for route in wanted.routes.keys() | batch.keys() | live.keys():
        figures = [found.get(route, nothing) for found in (batch, live, wanted.routes)]
        right = figures[0] == figures[1] == figures[2]
        # a wrong one is always among those that are shown
        routes.append((right, -figures[2].flights, route, figures))
    for right, _, route, figures in sorted(routes, key=lambda row: row[:3])[:SHOWN_ROUTES]:
        table.add_row(
            "-".join(route),
            f"{figures[2].flights:,}",
            *(f"{found.average:.2f}" for found in figures),
            mark(console, right),
        )
    console.print(table)
    rates = Table(title="Rates", title_style="bold")
    rates.add_column("")
    for heading in ("flights", "seconds", "per second"):
        rates.add_column(heading, justify="right")
    for label, (count, seconds) in outcome.rates.items():
        rates.add_row(label, f"{count:,}", f"{seconds:.1f}", f"{count / seconds:,.0f}")
    console.print(rates)
