"""pause_schedule: no tick is written, all else goes on."""

from __future__ import annotations

from support.clock import Clock
from support.schedule import due_ticks, new_schedule, state
from support.session import Connect, Session, refused, unchanged


def test_no_tick_is_written(connection: Session, queue: str, clock: Clock) -> None:
    clock.set_to("2026-05-01 12:00:30+00")
    name = new_schedule(connection, queue=queue, cron="@hourly")
    other = new_schedule(connection, queue=queue, cron="@hourly")
    # again changes nothing
    for _ in range(2):
        assert connection.pause_schedule(schedule=name) == state(connection, name)
    assert state(connection, name).paused
    clock.advance("1 hour")
    assert [run.schedule for run in connection.run_schedules()] == [other]
    # a change of settings is none of that
    connection.alter_schedule(schedule=name, cron="*/5 * * * *")
    clock.advance("1 hour")
    assert due_ticks(connection, name) == []
    assert state(connection, name).paused


def test_a_transaction_may_pause_twice_and_roll_back(
    connect: Connect, connection: Session, queue: str
) -> None:
    name = new_schedule(connection, queue=queue, cron="@hourly")
    session = connect()
    for _ in range(2):
        session.pause_schedule(schedule=name)
    session.rollback()
    assert not state(connection, name).paused


def test_refusals(connection: Session) -> None:
    with unchanged(connection):
        refused("MQ009", connection.pause_schedule, schedule="no-such-schedule")
        refused("22004", connection.pause_schedule, schedule=None)
