"""What the demo of Spark keeps in mind while it runs, and how that is held against the CSV file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from pgq import Client
from pgq.demo._common import Check, mark
from pgq.demo._flights import Expected, Figures

__all__ = [
    "FLIGHTS",
    "ROUTES",
    "ROUTES_LIVE",
    "Outcome",
    "Routes",
    "checks_of",
    "figures_of",
    "show",
    "stored",
]

FLIGHTS = "demo.spark.flights"
ROUTES = "demo.spark.routes"
ROUTES_LIVE = "demo.spark.routes-live"

SHOWN_ROUTES = 10

Routes = dict[tuple[str, str], Figures]
"""The figures of each route, by its two airports."""


@dataclass
class Outcome:
    """What happened, for the checks."""

    rates: dict[str, tuple[int, float]] = field(default_factory=dict)
    """For each part its count and the seconds that it took."""
    routes_before: int = 0
    """How many messages the topic of routes had before the write was repeated."""
    crashed_in: int = 0
    """The micro-batch in which the stream was ended."""
    batches: Counter[int] = field(default_factory=Counter)
    """How often Spark ran each micro-batch."""


def figures_of(client: Client, topic: str) -> Routes:
    """The routes in a topic added up, read without Spark."""
    routes: Routes = {}
    for row in client.monitor.topic_stats(topic):
        if row.messages == 0:
            continue
        for message in client.bulk.fetch_range(
            topic, row.partition, row.first_offset, row.last_offset
        ):
            route = message.payload
            figures = routes.setdefault((route["origin"], route["dest"]), Figures())
            figures.flights += route["flights"]
            figures.timed += route["timed"]
            figures.minutes += route["minutes"]
    return routes


def stored(client: Client, topic: str) -> int:
    """How many messages a topic has."""
    return sum(row.messages for row in client.monitor.topic_stats(topic))


def checks_of(
    client: Client, wanted: Expected, outcome: Outcome, batch: Routes, live: Routes
) -> list[Check]:
    """What has to hold in the end."""
    flights, kept = stored(client, FLIGHTS), stored(client, ROUTES)
    crashed_in, ran = outcome.crashed_in, outcome.batches
    return [
        Check(
            flights == wanted.flights,
            f"{flights:,} flights in the topic",
        ),
        Check(
            batch == wanted.routes,
            f"batch: {_total(batch):,} flights on {len(batch):,} routes, "
            "every sum of delays equals the CSV's",
        ),
        Check(
            len(wanted.routes) == outcome.routes_before == kept,
            f"batch: repeated with its number, it wrote nothing: {kept:,} messages as before",
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


def show(console: Console, wanted: Expected, outcome: Outcome, batch: Routes, live: Routes) -> None:
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
