"""Schedules by the client."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from pgq import AlreadyExists, Client, UnknownQueue, UnknownSchedule
from support.clock import Clock

MAY = datetime(2026, 5, 1, 12, 0, 30, tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def noon(clock: Clock) -> None:
    """The time at which each test begins."""
    clock.set_to(MAY.isoformat())


def test_a_job_every_hour(mail: Client, clock: Clock) -> None:
    made = mail.schedules.create_schedule(
        "hourly", queue="mail", payload={"a": 1}, every=timedelta(hours=1), headers={"b": 2}
    )
    assert made == mail.schedules.create_schedule(
        "hourly", queue="mail", payload={"a": 1}, every=made.every
    )
    assert mail.schedules.list_schedules() == mail.schedules.list_schedules("hourly") == [made]
    assert (made.queue, made.missed, made.starts_at) == ("mail", "one", MAY)
    assert mail.schedules.run_schedules() == []
    clock.advance("1 hour")
    (run,) = mail.schedules.run_schedules(max_ticks=5)
    assert (run.schedule, run.tick_at, run.error) == ("hourly", MAY + timedelta(hours=1), None)
    (job,) = mail.claim_job("mail")
    assert (job.job_id, job.payload) == (run.job_id, {"a": 1})
    assert job.headers is not None
    assert datetime.fromisoformat(job.headers["scheduled_at"]) == run.tick_at


def test_a_message_by_cron(readings: Client, clock: Clock) -> None:
    zone = "America/New_York"
    readings.schedules.create_schedule(
        "daily", topic="readings", body=b"\x00", cron="0 9 * * *", time_zone=zone, missed="all"
    )
    (first, second) = readings.schedules.next_ticks("0 9 * * *", time_zone=zone, max_ticks=2)
    assert first == datetime(2026, 5, 1, 13, tzinfo=timezone.utc)
    assert readings.schedules.next_ticks("0 9 * * *", time_zone=zone, after=first, max_ticks=1) == [
        second
    ]
    clock.advance("1 day 6 hours")
    runs = readings.schedules.run_schedules()
    assert [(run.tick_at, run.partition, run.log_offset) for run in runs] == [
        (first, 0, 1),
        (second, 0, 2),
    ]
    assert [m.body for m in readings.consume("readings", "sums")] == [b"\x00"] * 2


def test_changes(mail: Client, clock: Clock) -> None:
    mail.schedules.create_schedule("s", queue="mail", payload=1, cron="@hourly")
    assert mail.schedules.alter_schedule("s", label="l", every=timedelta(hours=2)).label == "l"
    assert mail.schedules.pause_schedule("s").paused
    clock.advance("2 hours")
    assert mail.schedules.run_schedules() == []
    assert not mail.schedules.resume_schedule("s").paused
    assert len(mail.schedules.run_schedules()) == 1
    mail.admin.drop_queue("mail")
    clock.advance("2 hours")
    (run,) = mail.schedules.run_schedules()
    assert run.error == mail.schedules.list_schedules()[0].last_error
    assert run.error is not None
    mail.schedules.drop_schedule("s")
    assert mail.schedules.list_schedules() == []


def test_errors(mail: Client) -> None:
    with pytest.raises(UnknownSchedule):
        mail.schedules.drop_schedule("s")
    with pytest.raises(UnknownQueue):
        mail.schedules.create_schedule("s", queue="none", payload=1, cron="@daily")
    mail.schedules.create_schedule("s", queue="mail", payload=1, cron="@daily")
    with pytest.raises(AlreadyExists) as caught:
        mail.schedules.create_schedule("s", queue="mail", payload=2, cron="@daily")
    assert caught.value.detail == "payload: given 2, has 1."
