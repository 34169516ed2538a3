"""Whoever runs schedules is killed with -9 over and over: each tick is written once.

Of jobs and of messages, whatever is killed: a program, its server process, or the server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from pgq.embedded import Server
from support.crowd import KILLS, crowd
from support.house import install_script
from support.queue import claim
from support.session import Session, row
from support.waiting import wait_until

StartServer = Callable[..., Server]

TICKS = 1500
"""How many ticks each schedule has missed in the beginning."""

STEPS = {
    "job": {"every": timedelta(seconds=1)},
    "job-by-cron": {"cron": "* * * * *"},
    "job-of-a-key": {"every": timedelta(seconds=2)},
    "message": {"every": timedelta(seconds=1)},
    "message-by-cron": {"cron": "*/2 * * * *"},
    "deferred-message": {"every": timedelta(seconds=3)},
}
"""Schedules; each has a queue or a topic of its own name."""

RUNNER = """
def work(connection):
    connection.execute("select pgq.run_schedules(%s)", [rng.choice([1, 6, 30, 120])])
    if rng.random() < 0.1:
        connection.rollback()
    else:
        connection.commit()
"""


def step_of(name: str) -> timedelta:
    """How far apart its ticks are."""
    cron = STEPS[name].get("cron")
    step = STEPS[name].get("every", timedelta(minutes=2 if cron == "*/2 * * * *" else 1))
    assert isinstance(step, timedelta)
    return step


def install(server: Server) -> None:
    """pgq, and schedules that have many ticks to make up for."""
    with Session.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        [now] = row(connection, "select date_trunc('hour', now())")
        for name, times in STEPS.items():
            target: dict[str, Any] = {"topic": name}
            if name.startswith("job"):
                target = {"queue": name}
                connection.create_queue(queue=name, ordered=name == "job-of-a-key")
            else:
                connection.create_topic(
                    topic=name, partitions=2, deferred=name.startswith("deferred")
                )
            if name == "job-of-a-key":
                target["key"] = "k"
            connection.create_schedule(
                schedule=name,
                payload=1,
                missed="all",
                starts_at=now - TICKS * step_of(name),
                **target,
                **times,
            )


def written(connection: psycopg.Connection) -> int:
    [(count,)] = connection.execute("select count(*) from pgq.message").fetchall()
    return int(count)


@pytest.mark.parametrize("what", KILLS)
def test_each_tick_is_written_once(start_server: StartServer, what: str) -> None:
    server = start_server()
    install(server)
    with crowd(server.dsn, [RUNNER] * 3, server) as running:
        running.over_kills(what, 12 if what == "client" else 4, written, 100)

    with Session.connect(server.dsn, autocommit=True) as connection:
        [now] = row(connection, "select now()")
        schedules: dict[str, Any] = {}

        def caught_up() -> bool:
            connection.run_schedules()
            schedules.update({each.schedule: each for each in connection.list_schedules()})
            return min(each.next_at for each in schedules.values()) > now

        wait_until(caught_up, 300, "for the last ticks")
        for name, schedule in schedules.items():
            ticks = ticks_of(connection, name)
            step = step_of(name)
            count = (schedule.next_at - schedule.starts_at) // step
            assert count >= TICKS
            expected = Counter(schedule.starts_at + n * step for n in range(count))
            assert (ticks - expected, expected - ticks) == (Counter(), Counter()), name
            assert (schedule.last_at, schedule.last_error) == (max(ticks), None)


def ticks_of(connection: Session, name: str) -> Counter[datetime]:
    """The ticks that have come to its queue or topic, and how often."""
    if name.startswith("job"):
        headers = []
        while jobs := claim(connection, name, 10000):
            headers += [job.headers for job in jobs]
            connection.ack_batch(
                job_ids=[job.job_id for job in jobs], lease_token=jobs[0].lease_token
            )
    else:
        if name.startswith("deferred"):
            connection.assign_offsets(topic=name)
        headers = [
            each
            for (each,) in connection.execute(
                "select headers from pgq.messages where topic = %s", [name]
            ).fetchall()
        ]
    return Counter(datetime.fromisoformat(each["scheduled_at"]) for each in headers)
