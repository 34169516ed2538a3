"""The processes of the demo: a publisher, the members of two consumer groups, workers and clocks.

Each is a function that runs in a process of its own, on a connection of its own. This is what an
application written with pgq looks like.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from multiprocessing.connection import Connection as Pipe
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgq import Client, Job, LeaseLost
from pgq.demo._flights import BADLY_DELAYED, Figures, messages

__all__ = [
    "AIRLINES",
    "AIRPORTS",
    "CLOCK",
    "CLOCKS",
    "JOB_LEASE",
    "LATE",
    "MEMBERS",
    "PARTITIONS",
    "QUEUE",
    "SCHEMA",
    "TABLES",
    "TOPIC",
    "WORKERS",
    "Setting",
    "count_airlines",
    "count_airports",
    "keep_time",
    "publish",
    "work",
]

TOPIC = "demo.flights"
PARTITIONS = 8
AIRLINES = "airlines"
AIRPORTS = "airports"
QUEUE = "demo.badly-delayed"
LATE = "late.#"
"""Which flights become jobs of the queue, by their routing key."""
CLOCK = "demo.clock"
JOB_LEASE = timedelta(seconds=3)
MEMBERS = 2
WORKERS = 3
CLOCKS = 2

PUBLISH_BATCH = 2000
CONSUME_BATCH = 2000

SCHEMA = "pgq_demo"
TABLES = """
    create schema pgq_demo;
    create table pgq_demo.airline (
        carrier text primary key,
        flights bigint not null,
        timed bigint not null,
        minutes bigint not null
    );
    create table pgq_demo.airport (like pgq_demo.airline);
    alter table pgq_demo.airport rename column carrier to origin;
    alter table pgq_demo.airport add primary key (origin);
    create table pgq_demo.partition_seen (
        partition integer primary key,
        messages bigint not null,
        last_line bigint not null,
        in_order boolean not null
    );
    create table pgq_demo.report (
        job_id bigint not null,
        attempt integer not null,
        worker integer not null,
        line bigint not null,
        carrier text not null,
        flight integer not null,
        minutes integer not null,
        tailnum text,
        place bigint generated always as identity
    );
    create table pgq_demo.tick (
        tick_at timestamptz not null,
        published bigint not null
    )
"""


@dataclass(frozen=True)
class Setting:
    """What every process gets to know."""

    dsn: str
    data: Path
    rows: int | None
    stop: Event


def _going_on(setting: Setting) -> bool:
    parent = multiprocessing.parent_process()
    return not setting.stop.is_set() and (parent is None or parent.is_alive())


def _begin(setting: Setting, name: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(setting.dsn, autocommit=True, application_name=f"pgq demo: {name}")


def publish(setting: Setting) -> None:
    """Publish every flight, a batch per transaction, keyed by the aircraft's tail number.

    A subscription makes a job of each badly delayed one, in the transaction that publishes it.
    """
    with _begin(setting, "publisher") as connection:
        client = Client(connection)
        flights = messages(setting.data, setting.rows)
        while _going_on(setting) and (batch := list(islice(flights, PUBLISH_BATCH))):
            keys, payloads = zip(*batch, strict=True)
            headers = [{"routing_key": _routing_key(flight)} for flight in payloads]
            client.publish_batch(TOPIC, payloads, keys=keys, headers=headers)


def _routing_key(flight: dict[str, Any]) -> str:
    delay = flight["arr_delay"]
    late = delay is not None and delay >= BADLY_DELAYED
    return f"{'late' if late else 'usual'}.{flight['origin']}.{flight['carrier']}"


def count_airlines(setting: Setting) -> None:
    """Keep the table of delays by airline, exactly once: in the transaction that consumes."""

    def step(client: Client) -> int:
        flights = client.consume(TOPIC, AIRLINES, max_messages=CONSUME_BATCH)
        figures: dict[str, Figures] = {}
        for flight in flights:
            carrier = flight.payload["carrier"]
            figures.setdefault(carrier, Figures()).add(flight.payload["arr_delay"])
        _add(client.connection, "airline", "carrier", figures)
        return len(flights)

    with _begin(setting, AIRLINES) as connection:
        client = Client(connection)
        while _going_on(setting):
            if not client.retry(step):
                time.sleep(0.05)


def count_airports(setting: Setting) -> None:
    """Lease flights and count them by airport; the counts and the new position are one transaction.

    If the lease was lost meanwhile, `commit_offset` raises, all of it is undone, and whoever holds
    the lease now does it.
    """
    with _begin(setting, AIRPORTS) as connection:
        client = Client(connection)
        while _going_on(setting):
            flights = client.wait(
                lambda c: c.poll(TOPIC, AIRPORTS, max_messages=CONSUME_BATCH),
                timeout=timedelta(seconds=1),
                interval=timedelta(milliseconds=50),
            )
            if not flights:
                continue
            figures: dict[str, Figures] = {}
            for flight in flights:
                origin = flight.payload["origin"]
                figures.setdefault(origin, Figures()).add(flight.payload["dep_delay"])
            lines = [flight.payload["line"] for flight in flights]
            last = flights[-1]
            try:
                with connection.transaction():
                    client.commit_offset(
                        TOPIC,
                        AIRPORTS,
                        last.partition,
                        last.log_offset,
                        lease_token=last.lease_token,
                    )
                    _add(connection, "airport", "origin", figures)
                    _see(connection, last.partition, lines)
            except LeaseLost:
                continue


def work(setting: Setting, number: int, gate: Event, victim: Pipe | None, hang_at: int) -> None:
    """Take jobs one by one; the report and the ack of a job are one transaction.

    The queue is ordered: nobody gets a delay of an aircraft before the one before it is reported.
    The victim stops in the middle of the job number `hang_at`, tells so and waits to be killed.
    The others begin when it has got that far.
    """
    with _begin(setting, f"worker {number}") as connection:
        client = Client(connection)
        while victim is None and not gate.wait(0.2):
            if not _going_on(setting):
                return
        done = 0
        while _going_on(setting):
            jobs = client.claim_job(QUEUE) or client.wait(
                lambda c: c.claim_job(QUEUE),
                queue=QUEUE,
                timeout=timedelta(seconds=1),
                interval=timedelta(milliseconds=250),
            )
            for job in jobs:
                done += 1
                with connection.transaction():
                    _report(connection, job, number)
                    if victim is not None and done == hang_at:
                        victim.send((os.getpid(), job.job_id))
                        _hang(setting)
                        return
                    if not client.ack(job.job_id, job.lease_token):
                        # The lease was lost: the job is another's now, and so is its report.
                        raise psycopg.Rollback


def keep_time(setting: Setting) -> None:
    """Write the ticks of the schedule, as others do at the same time, and do their jobs."""
    with _begin(setting, "clock") as connection:
        client = Client(connection)
        while _going_on(setting):
            client.schedules.run_schedules()
            for job in client.claim_job(CLOCK, max_jobs=10):
                published = sum(
                    row.last_offset for row in client.monitor.group_lag(TOPIC, AIRLINES)
                )
                with connection.transaction():
                    connection.execute(
                        "insert into pgq_demo.tick (tick_at, published) values (%s, %s)",
                        [(job.headers or {})["scheduled_at"], published],
                    )
                    if not client.ack(job.job_id, job.lease_token):
                        raise psycopg.Rollback
            setting.stop.wait(0.2)


def _hang(setting: Setting) -> None:
    while _going_on(setting):
        time.sleep(0.2)


def _add(
    connection: psycopg.Connection[tuple[object, ...]],
    table: str,
    column: str,
    figures: dict[str, Figures],
) -> None:
    if not figures:
        return
    names = sorted(figures)  # all members lock the rows in one order
    connection.execute(
        sql.SQL(
            """
            insert into pgq_demo.{table} as t
            select * from unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
            on conflict ({column}) do update
            set flights = t.flights + excluded.flights,
                timed = t.timed + excluded.timed,
                minutes = t.minutes + excluded.minutes
            """
        ).format(table=sql.Identifier(table), column=sql.Identifier(column)),
        [
            names,
            [figures[name].flights for name in names],
            [figures[name].timed for name in names],
            [figures[name].minutes for name in names],
        ],
    )


def _see(
    connection: psycopg.Connection[tuple[object, ...]], partition: int, lines: list[int]
) -> None:
    """Note how far a partition was read, and whether its flights came in the file's order."""
    connection.execute(
        """
        insert into pgq_demo.partition_seen as t (partition, messages, last_line, in_order)
        values (%s, %s, %s, %s)
        on conflict (partition) do update
        set messages = t.messages + excluded.messages,
            last_line = excluded.last_line,
            in_order = t.in_order and excluded.in_order and t.last_line < %s
        """,
        [partition, len(lines), lines[-1], lines == sorted(lines), lines[0]],
    )


def _report(connection: psycopg.Connection[tuple[object, ...]], job: Job, worker: int) -> None:
    flight = job.payload
    connection.execute(
        """
        insert into pgq_demo.report
            (job_id, attempt, worker, line, carrier, flight, minutes, tailnum)
        values (%s, %s, %s, %s, %s, %s, %s, %s)
        """,
        [
            job.job_id,
            job.attempt,
            worker,
            flight["line"],
            flight["carrier"],
            flight["flight"],
            flight["arr_delay"],
            flight["tailnum"],
        ],
    )
