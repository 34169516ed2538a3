"""What came of the demo: its figures beside those of the CSV file, and its rates."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

from pgq import Client
from pgq.demo._common import Check, mark, one
from pgq.demo._flights import Expected, Figures, airline_names
from pgq.demo._parts import (
    AIRLINES,
    AIRPORTS,
    CLOCKS,
    MEMBERS,
    PARTITIONS,
    QUEUE,
    SCHEMA,
    TOPIC,
    WORKERS,
)

__all__ = ["LABELS", "Outcome", "checks", "show"]


@dataclass
class Outcome:
    """What happened while the processes ran."""

    rates: dict[str, tuple[int, float]] = field(default_factory=dict)
    """For each bar its count and the seconds that it took."""
    victim_job: int | None = None
    killed_at: float = 0.0
    redelivered_after: float | None = None


LABELS = {
    "published": "published, batches of 2,000",
    "airlines": f"airlines, {MEMBERS} members in transactions",
    "airports": f"airports, {MEMBERS} members with leases",
    "jobs": f"jobs, {WORKERS} workers one by one",
}
"""What the bars and the rates are called."""


def checks(client: Client, wanted: Expected, outcome: Outcome) -> list[Check]:
    """What has to hold when all is done."""
    connection = client.connection
    stats = client.monitor.topic_stats(TOPIC)
    lag = client.monitor.group_lag(TOPIC)
    (queue,) = client.monitor.queue_stats(QUEUE)
    airlines = _figures(connection, "airline")
    airports = _figures(connection, "airport")
    seen = connection.execute(
        "select count(*), sum(messages)::bigint, bool_and(in_order) from pgq_demo.partition_seen"
    ).fetchone() or (0, 0, False)
    reports = connection.execute(
        "select line, carrier, flight, minutes from pgq_demo.report"
    ).fetchall()
    overtaken = one(
        connection,
        "select count(*) from (select line < lag(line) over (partition by tailnum order by place)"
        " as early from pgq_demo.report where tailnum is not null) as r where r.early",
    )
    ticks, seconds = connection.execute(
        "select count(*), count(distinct tick_at) * (coalesce(extract(epoch from"
        " max(tick_at) - min(tick_at)), -1) + 1 = count(distinct tick_at))::integer"
        " from pgq_demo.tick"
    ).fetchone() or (0, 0)
    archived = client.jobs.archived_jobs(QUEUE)
    stored = sum(row.messages for row in stats)
    dense = all(row.first_offset == 1 and row.last_offset == row.messages for row in stats)
    late = Counter(wanted.badly_delayed)
    found = [
        Check(
            stored == wanted.flights and dense and len(stats) == PARTITIONS,
            f"{stored:,} messages in {len(stats)} partitions, offsets without a gap",
        ),
        Check(
            airlines == wanted.airlines and _caught_up(lag, AIRLINES),
            f"airlines: {_total(airlines):,} flights, every sum of delays equals the CSV's",
        ),
        Check(
            airports == wanted.airports and _caught_up(lag, AIRPORTS),
            f"airports: {_total(airports):,} flights, every sum of delays equals the CSV's",
        ),
        Check(
            bool(seen[2]) and seen[1] == wanted.flights,
            f"all {seen[0]} partitions were read in the order of the file",
        ),
        Check(
            Counter(reports) == late and len(archived) == late.total(),
            f"{len(reports):,} badly delayed flights: a job for each, each reported exactly once",
        ),
        Check(overtaken == 0, "the delays of each aircraft were reported in the order of the file"),
        Check(
            0 < ticks == seconds,
            f"{ticks} ticks of a schedule that {CLOCKS} processes ran, each second once",
        ),
    ]
    if late:
        attempt = one(
            connection,
            "select min(attempt) from pgq_demo.report where job_id = %s",
            outcome.victim_job,
        )
        after = outcome.redelivered_after
        found.append(
            Check(
                attempt is not None and attempt >= 2,
                "the killed worker's job came back"
                + (f" after {after:.1f} s, attempt {attempt}" if after is not None else ""),
            )
        )
    found.append(
        Check(
            (queue.ready, queue.leased, queue.delayed, queue.waiting, queue.expired, queue.dead)
            == (0,) * 6,
            "the queue is empty, without dead letters",
        )
    )
    return found


def _caught_up(lag: list[Any], consumer_group: str) -> bool:
    rows = [row for row in lag if row.consumer_group == consumer_group]
    return len(rows) == PARTITIONS and all(row.lag == 0 for row in rows)


def _figures(connection: psycopg.Connection[Any], table: str) -> dict[str, Figures]:
    rows = connection.execute(f"select * from {SCHEMA}.{table}".encode()).fetchall()
    return {name: Figures(*numbers) for name, *numbers in rows}


def _total(figures: dict[str, Figures]) -> int:
    return sum(figure.flights for figure in figures.values())


def show(
    console: Console,
    data: Path,
    client: Client,
    wanted: Expected,
    outcome: Outcome,
) -> None:
    """Print the averages beside those of the CSV file, and the rates."""
    names = airline_names(data)
    found = _figures(client.connection, "airline")
    console.print()
    table = Table(title="Average delay at arrival, kept by the group airlines", title_style="bold")
    for heading in ("airline", "flights", "minutes", "minutes by the CSV", ""):
        table.add_column(heading, justify="left" if heading == "airline" else "right")
    nothing = Figures()
    for code, figures in sorted(found.items(), key=lambda item: -item[1].average):
        straight = wanted.airlines.get(code, nothing)
        table.add_row(
            names.get(code, code),
            f"{figures.flights:,}",
            f"{figures.average:.2f}",
            f"{straight.average:.2f}",
            mark(console, figures == straight),
        )
    console.print(table)
    rates = Table(title="Rates, all at the same time", title_style="bold")
    rates.add_column("")
    for heading in ("count", "seconds", "per second"):
        rates.add_column(heading, justify="right")
    for name, (count, seconds) in outcome.rates.items():
        rates.add_row(LABELS[name], f"{count:,}", f"{seconds:.1f}", f"{count / seconds:,.0f}")
    console.print(rates)
