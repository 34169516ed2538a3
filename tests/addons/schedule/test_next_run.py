"""next_run: when run_schedules next has a tick to write."""

from __future__ import annotations

from support.clock import Clock
from support.session import Connect, Session, row, unchanged


def test_the_first_tick(connect: Connect, connection: Session, clock: Clock) -> None:
    """Of all schedules that are not paused; in the past until it is written."""
    for schedule in connection.list_schedules():
        connection.drop_schedule(schedule=schedule.schedule)
    assert connection.next_run() is None
    connection.create_queue(queue="ticks")
    now = row(connection, "select pgq._clock()")[0]
    made = {}
    for name, every in (("seldom", "3 hours"), ("often", "1 hour"), ("paused", "1 minute")):
        made[name] = connection.create_schedule(
            schedule=name, queue="ticks", payload=1, every=every, starts_at=now
        ).next_at
    session = connect()
    session.execute("set transaction read only")
    with unchanged(connection):
        assert session.next_run() == min(made.values())
    session.rollback()
    connection.pause_schedule(schedule="paused")
    connection.run_schedules()
    [often] = [one for one in connection.list_schedules() if one.schedule == "often"]
    assert connection.next_run() == often.next_at
    clock.advance("61 minutes")
    assert connection.next_run() == often.next_at < row(connection, "select pgq._clock()")[0]
    assert [run.schedule for run in connection.run_schedules()] == ["often"]
    assert connection.next_run() > row(connection, "select pgq._clock()")[0]
