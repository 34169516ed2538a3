"""drop_schedule: it is gone, and nothing else."""

from __future__ import annotations

from support.clock import Clock
from support.schedule import new_schedule, written
from support.session import Connect, Session, refused, unchanged


def test_its_jobs_stay(connection: Session, queue: str, clock: Clock) -> None:
    clock.set_to("2026-05-01 12:00:30+00")
    name = new_schedule(connection, queue=queue, cron="@hourly")
    other = new_schedule(connection, queue=queue, cron="30 * * * *")
    clock.advance("1 hour")
    connection.run_schedules()
    connection.drop_schedule(schedule=name)
    clock.advance("1 hour")
    assert [run.schedule for run in connection.run_schedules()] == [other]
    assert [found.schedule for found in connection.list_schedules()] == [other]
    assert written(connection, queue) == [
        "2026-05-01 12:30", "2026-05-01 13:00", "2026-05-01 13:30",
    ]  # fmt: skip
    # a new one of the name begins anew
    made = connection.create_schedule(schedule=name, queue=queue, payload=1, cron="@hourly")
    assert made.last_at is None


def test_twice_in_one_transaction(connect: Connect, connection: Session, queue: str) -> None:
    name = new_schedule(connection, queue=queue, cron="@hourly")
    session = connect()
    session.drop_schedule(schedule=name)
    refused("MQ009", session.drop_schedule, schedule=name)
    session.rollback()
    assert len(connection.list_schedules()) == 1


def test_refusals(connection: Session) -> None:
    with unchanged(connection):
        refused("MQ009", connection.drop_schedule, schedule="no-such-schedule")
        refused("22004", connection.drop_schedule, schedule=None)
