"""resume_schedule: ticks are written again."""

from __future__ import annotations

from support.clock import Clock
from support.schedule import due_ticks, new_schedule, state
from support.session import Session, refused, unchanged


def test_ticks_are_written_again(connection: Session, queue: str, clock: Clock) -> None:
    """What becomes of those that came meanwhile is tested with run_schedules."""
    clock.set_to("2026-05-01 12:00:30+00")
    name = new_schedule(connection, queue=queue, cron="@hourly")
    connection.pause_schedule(schedule=name)
    # again changes nothing
    for _ in range(2):
        assert connection.resume_schedule(schedule=name) == state(connection, name)
    assert not state(connection, name).paused
    clock.advance("1 hour")
    assert due_ticks(connection, name) == ["2026-05-01 13:00"]


def test_refusals(connection: Session) -> None:
    with unchanged(connection):
        refused("MQ009", connection.resume_schedule, schedule="no-such-schedule")
        refused("22004", connection.resume_schedule, schedule=None)
