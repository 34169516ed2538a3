"""list_schedules: one, or all of them by name."""

from __future__ import annotations

from support.session import Connect, Session, refused


def test_they_come_by_name(connection: Session, queue: str) -> None:
    assert connection.list_schedules() == []
    for letter in ("b", "c", "a", "B"):
        connection.create_schedule(schedule=letter, queue=queue, payload=1, cron="@daily")
    assert [found.schedule for found in connection.list_schedules()] == ["B", "a", "b", "c"]
    [found] = connection.list_schedules(schedule="b")
    assert (found.schedule, found.queue) == ("b", queue)


def test_reading_is_enough_for_it(connect: Connect, connection: Session, queue: str) -> None:
    connection.create_schedule(schedule="a", queue=queue, payload=1, cron="@daily")
    session = connect()
    session.execute("set transaction read only")
    assert session.list_schedules() == session.list_schedules(schedule="a")


def test_refusals(connection: Session) -> None:
    refused("MQ009", connection.list_schedules, schedule="no-such-schedule")
