"""What a role may do with schedules: what it was granted, and a schedule needs no more."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from support.clock import Clock
from support.schedule import new_schedule, written
from support.session import Connect, Session, refused, unchanged

ROLE = "pgq_test_scheduler"


@pytest.fixture
def guest(connect: Connect, connection: Session) -> Iterator[Session]:
    """A session as a role that may only use the schema."""
    try:
        connection.execute(f"create role {ROLE}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    session = connect(autocommit=True)
    try:
        connection.execute(f"grant usage on schema pgq to {ROLE}")
        session.execute(f"set role {ROLE}")
        yield session
    finally:
        session.close()
        connection.execute(f"drop owned by {ROLE}")
        connection.execute(f"drop role {ROLE}")


def test_nothing_without_a_grant(guest: Session, connection: Session, queue: str) -> None:
    """Every function and the table are closed: 42501."""
    name = new_schedule(connection, queue=queue, cron="@hourly")
    with unchanged(connection):
        new = {"queue": queue, "payload": 1, "cron": "@daily"}
        refused("42501", guest.create_schedule, schedule="s", **new)
        for verb in ("alter", "drop", "pause", "resume"):
            refused("42501", guest.call, f"{verb}_schedule", schedule=name)
        refused("42501", guest.list_schedules)
        refused("42501", guest.run_schedules)
        refused("42501", guest.next_ticks, cron="@daily")
        refused("42501", lambda: guest.execute("select from pgq.schedule"))


def test_a_granted_function_needs_no_other(
    guest: Session, connection: Session, queue: str, clock: Clock
) -> None:
    """Who may run schedules, or make them, needs no right to enqueue."""
    for function in ("create_schedule", "run_schedules"):
        connection.execute(f"grant execute on function pgq.{function} to {ROLE}")
    clock.set_to("2026-05-01 12:00:30+00")
    name = new_schedule(guest, queue=queue, cron="@hourly")
    clock.advance("1 hour")
    assert [run.schedule for run in guest.run_schedules()] == [name]
    assert written(connection, queue) == ["2026-05-01 13:00"]
    refused("42501", guest.enqueue, queue=queue, payload=1)


def test_objects_of_the_caller_do_not_come_in_between(
    guest: Session, connection: Session, queue: str, clock: Clock
) -> None:
    connection.execute(f"grant execute on function pgq.run_schedules to {ROLE}")
    clock.set_to("2026-05-01 12:00:30+00")
    name = new_schedule(connection, queue=queue, cron="@hourly")
    clock.advance("1 hour")
    guest.execute("create temporary table schedule (schedule text)")
    guest.execute("create temporary table pg_timezone_names (name text)")
    guest.execute(
        "create function pg_temp.width_bucket(integer, integer[]) returns integer language sql"
        " as $$ select 1 / 0 $$"
    )
    guest.execute("set search_path = pg_temp, pgq")
    assert [run.schedule for run in guest.run_schedules()] == [name]
