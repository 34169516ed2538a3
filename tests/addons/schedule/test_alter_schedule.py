"""alter_schedule: what is given changes, all else stays."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.log import new_topic
from support.schedule import due_ticks, new_schedule, state, times
from support.session import Connect, Session, new_name, refused, unchanged


@pytest.fixture(autouse=True)
def noon(clock: Clock) -> None:
    """The time at which each test begins."""
    clock.set_to("2026-05-01 12:00:30+00")


def differences(before: Any, after: Any) -> dict[str, Any]:
    """What has changed, but for when."""
    return {
        name: value
        for name, value in after._asdict().items()
        if value != getattr(before, name) and name != "updated_at"
    }


@pytest.mark.parametrize(
    "given",
    [
        {"payload": {"b": 2}},
        {"key": "other"},
        {"headers": {"x": None}},
        {"missed": "all"},
        {"priority": 7},
        {"label": "m"},
    ],
)
def test_one_setting(connection: Session, queue: str, clock: Clock, given: dict[str, Any]) -> None:
    """Ticks that are due stay so."""
    name = new_schedule(connection, queue=queue, cron="@hourly", key="k", label="l", priority=1)
    clock.advance("1 hour")
    before = state(connection, name)
    after = connection.alter_schedule(schedule=name, **given)
    assert differences(before, after) == given
    assert after == state(connection, name)
    assert after.updated_at > before.updated_at
    assert due_ticks(connection, name) == ["2026-05-01 13:00"]


def test_nothing_given(connection: Session, queue: str) -> None:
    name = new_schedule(connection, queue=queue, cron="@hourly")
    before = state(connection, name)
    assert differences(before, connection.alter_schedule(schedule=name)) == {}


def test_the_same_times_given(connection: Session, queue: str, clock: Clock) -> None:
    """They do not count anew: a tick that is due is written."""
    name = new_schedule(connection, queue=queue, cron="@hourly")
    clock.advance("1 hour")
    connection.alter_schedule(schedule=name, cron="@hourly", time_zone="UTC")
    assert due_ticks(connection, name) == ["2026-05-01 13:00"]


@pytest.mark.parametrize(
    ("given", "next_at"),
    [
        ({"cron": "15 * * * *"}, "2026-05-01 14:15"),
        ({"time_zone": "Asia/Kolkata"}, "2026-05-01 14:30"),
        ({"starts_at": "2026-05-02 12:00+00"}, "2026-05-02 12:00"),
        # from the full second at which it was made
        ({"every": "40 minutes"}, "2026-05-01 14:00:30"),
        ({"every": "50 minutes", "starts_at": "2026-05-01 00:00+00"}, "2026-05-01 14:10"),
    ],
)
def test_new_times_count_from_now_on(
    connection: Session, queue: str, clock: Clock, given: dict[str, Any], next_at: str
) -> None:
    """What was due before, and is not written, is left out."""
    name = new_schedule(connection, queue=queue, cron="@hourly", missed="all")
    clock.advance("95 minutes")
    connection.alter_schedule(schedule=name, **given)
    assert times([state(connection, name).next_at]) == [next_at]
    assert connection.run_schedules() == []


def test_the_other_of_a_pair(connection: Session, queue: str) -> None:
    """It takes the place of the first, and what belongs to that goes with it."""
    topic = new_topic(connection, partitions=3)
    name = new_schedule(connection, queue=queue, cron="@hourly", priority=3, label="l", key="k")
    before = state(connection, name)
    to_topic = connection.alter_schedule(schedule=name, topic=topic, partition=1)
    assert differences(before, to_topic) == {
        "queue": None,
        "topic": topic,
        "partition": 1,
        "priority": None,
        "label": None,
    }
    # another topic is asked for its own partition of that number
    other = new_topic(connection, partitions=1)
    refused("MQ007", connection.alter_schedule, schedule=name, topic=other)
    connection.alter_schedule(schedule=name, topic=other, partition=0)

    back = connection.alter_schedule(schedule=name, queue=queue)
    assert differences(before, back) == {"priority": 0, "label": None}

    after = connection.alter_schedule(schedule=name, every="1 hour", body=b"x")
    assert (after.cron, after.time_zone, after.payload, after.body) == (None, None, None, b"x")
    after = connection.alter_schedule(schedule=name, cron="@hourly", payload=[1])
    assert (after.every, after.time_zone, after.payload, after.body) == (None, "UTC", [1], None)


@pytest.mark.parametrize(
    ("code", "given"),
    [
        ("22023", {"cron": "@hourly", "every": "1 hour"}),
        ("22023", {"payload": 1, "body": b"x"}),
        ("22023", {"cron": "* * * *"}),
        ("22023", {"every": "1 hour", "time_zone": "UTC"}),
        ("22023", {"time_zone": "Europe/Berln"}),
        ("22023", {"every": "1 month"}),
        ("22023", {"missed": ""}),
        ("22023", {"starts_at": "infinity"}),
        ("22023", {"partition": 0}),
        ("22023", {"priority": -1}),
        ("22023", {"headers": {"scheduled_at": "x"}}),
        ("MQ002", {"queue": "no-such-queue"}),
        ("MQ001", {"topic": "no-such-topic"}),
        ("MQ009", {"schedule": "no-such-schedule"}),
        ("22004", {"schedule": None}),
    ],
)
def test_refusals(connection: Session, queue: str, code: str, given: dict[str, Any]) -> None:
    name = new_schedule(connection, queue=queue, cron="@hourly")
    with unchanged(connection):
        refused(code, connection.alter_schedule, **{"schedule": name, **given})


def test_both_targets(connection: Session, queue: str) -> None:
    name = new_schedule(connection, queue=queue, cron="@hourly")
    refused("22023", connection.alter_schedule, schedule=name, queue=queue, topic="t")


def test_without_its_target(connection: Session) -> None:
    """Other settings can be changed while the queue is not there."""
    gone = {"queue": "soon-gone"}
    connection.create_queue(**gone)
    name = new_schedule(connection, cron="@hourly", **gone)
    connection.drop_queue(**gone)
    assert connection.alter_schedule(schedule=name, priority=4).priority == 4
    refused("MQ002", connection.alter_schedule, schedule=name, **gone)


def test_twice_in_one_transaction(connect: Connect, connection: Session, queue: str) -> None:
    name = new_schedule(connection, queue=queue, cron="@hourly")
    before = state(connection, name)
    session = connect()
    for label in ("a", "b"):
        assert session.alter_schedule(schedule=name, label=label).label == label
    session.rollback()
    assert state(connection, name) == before


def test_too_many_missed_ticks(connection: Session, queue: str, clock: Clock) -> None:
    """Refused when it begins to write all of them, not when it has fallen behind by itself."""
    name = new_schedule(
        connection, queue=queue, every="1 second", starts_at="1990-01-01 00:00+00", missed="one"
    )
    refused("22023", connection.alter_schedule, schedule=name, missed="all")
    assert len(due_ticks(connection, name)) == 1
    connection.alter_schedule(schedule=name, missed="all")
    clock.advance("100 days")
    connection.alter_schedule(schedule=name, label="late")


def test_the_name_of_another_target_tells_nothing(connection: Session) -> None:
    """The target was dropped, and what has its name now is not the schedule's, nor the caller's."""
    topic, name = new_name("topic"), new_name("schedule")
    connection.create_topic(topic=topic)
    connection.create_schedule(schedule=name, topic=topic, every="1 hour", payload=1)
    connection.drop_topic(topic=topic)
    connection.create_topic(topic=topic, max_message_bytes=2000)
    assert connection.alter_schedule(schedule=name, body=bytes(3000)).body == bytes(3000)
    with unchanged(connection):
        refused("22023", connection.alter_schedule, schedule=name, topic=topic)
