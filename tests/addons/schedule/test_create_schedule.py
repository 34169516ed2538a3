"""create_schedule: what a schedule is told, what it takes by itself, and what it refuses."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from support.clock import Clock
from support.log import new_topic
from support.schedule import new_schedule, state, times
from support.session import Connect, Session, new_name, refused, unchanged

UTC = timezone.utc


def test_defaults(connection: Session, queue: str, clock: Clock) -> None:
    clock.set_to("2026-05-01 12:00:30.5+00")
    name = new_name("schedule")
    made = connection.create_schedule(schedule=name, queue=queue, payload={"a": 1}, cron="@hourly")
    assert made == state(connection, name)
    assert made._asdict() == {
        "schedule": name,
        "queue": queue,
        "topic": None,
        "payload": {"a": 1},
        "key": None,
        "headers": None,
        "cron": "@hourly",
        "every": None,
        "time_zone": "UTC",
        "missed": "one",
        "starts_at": datetime(2026, 5, 1, 12, 0, 30, tzinfo=UTC),
        "partition": None,
        "priority": 0,
        "label": None,
        "body": None,
        "paused": False,
        "next_at": datetime(2026, 5, 1, 13, tzinfo=UTC),
        "last_at": None,
        "last_error": None,
        "created_at": made.created_at,
        "updated_at": made.created_at,
        "made_by": None,
    }
    assert f"{made.created_at:%H:%M:%S}" == "12:00:30"


def test_all_settings(connection: Session, queue: str) -> None:
    topic = new_topic(connection, partitions=3)
    common = {
        "key": "k",
        "headers": {"a": [1]},
        "missed": "skip",
        "starts_at": "2026-05-01 12:00+00",
    }
    zoned = {"cron": "0 9 * * *", "time_zone": "Asia/Tokyo", "payload": None, "body": b"\x00"}
    name = new_schedule(connection, topic=topic, partition=2, **common, **zoned)
    found = state(connection, name)
    assert (found.topic, found.partition, found.body) == (topic, 2, b"\x00")
    assert (found.key, found.headers, found.missed) == ("k", {"a": [1]}, "skip")
    assert (found.queue, found.priority, found.label, found.payload) == (None,) * 4
    assert times([found.starts_at, found.next_at]) == ["2026-05-01 12:00", "2026-05-02 00:00"]

    name = new_schedule(connection, queue=queue, priority=9, label="l", every="36 hours", **common)
    found = state(connection, name)
    assert (found.queue, found.priority, found.label) == (queue, 9, "l")
    assert (found.every, found.cron, found.time_zone) == (timedelta(hours=36), None, None)
    # a tick at starts_at counts
    assert times([found.next_at]) == ["2026-05-01 12:00"]


def test_an_interval_begins_when_it_has_passed(
    connection: Session, queue: str, clock: Clock
) -> None:
    """Unless it is told when to start, at a full second."""
    clock.set_to("2026-05-01 12:00:30.9+00")
    found = state(connection, new_schedule(connection, queue=queue, every="1 second"))
    assert times([found.starts_at, found.next_at]) == ["2026-05-01 12:00:30", "2026-05-01 12:00:31"]
    assert found.next_at.microsecond == 0


def test_what_exists_is_returned(connection: Session, queue: str, clock: Clock) -> None:
    """With the settings that are given, whatever has happened to it; else they are named."""
    name = new_name("schedule")
    names = {"schedule": name, "queue": queue}
    given: dict[str, Any] = {
        "payload": {"a": None, "b": [1.0]},
        "every": "36 hours",
        "headers": {"c": None},
        "starts_at": "2026-05-01 12:00+00",
        "label": "none",
    }
    clock.set_to("2026-06-01 12:00+00")
    connection.create_schedule(**names, **given)
    connection.run_schedules()
    connection.pause_schedule(schedule=name)
    before = state(connection, name)
    assert before.paused
    assert before.last_at
    for same in (
        given,
        {"payload": given["payload"], "every": "1 day 12 hours"},
        {"payload": given["payload"], "every": "36 hours", "starts_at": "2026-05-01 14:00+02"},
    ):
        with unchanged(connection):
            assert connection.create_schedule(**names, **same) == before
    content = {"payload": given["payload"], "every": "36 hours"}
    for other, told in (
        ({**content, "every": "1 day 11 hours"}, "every: given 1 day 11:00:00, has 36:00:00."),
        ({**content, "payload": {"a": None}}, 'payload: given {"a": null}, has {"a": null, "b": ['),
        (
            {**content, "missed": "all", "priority": 2},
            "missed: given all, has one; priority: given",
        ),
        ({**content, "key": "none"}, "key: given none, has none."),
        ({"body": b"\x01", "every": "36 hours"}, "body: given \\x01, has none."),
        ({"payload": given["payload"], "cron": "@daily"}, "cron: given @daily, has none."),
    ):
        with unchanged(connection):
            error = refused("MQ005", connection.create_schedule, **names, **other)
        assert told in (error.diag.message_detail or "")
        assert "pgq.alter_schedule" in (error.diag.message_hint or "")


def test_one_that_exists_need_not_be_described(connection: Session, queue: str) -> None:
    """What a new one would need is not asked for; what is given is compared all the same."""
    name = new_schedule(connection, queue=queue, cron="@hourly", payload=1, time_zone="Asia/Tokyo")
    before = state(connection, name)
    with unchanged(connection):
        for given in ({}, {"queue": queue}, {"time_zone": "Asia/Tokyo"}, {"cron": "@hourly"}):
            assert connection.create_schedule(schedule=name, **given) == before
        for given in ({"every": "1 hour"}, {"missed": "never"}, {"topic": "t"}, {"partition": 0}):
            refused("MQ005", connection.create_schedule, schedule=name, **given)


def test_a_long_payload_is_told_in_short(connection: Session, queue: str) -> None:
    name = new_schedule(connection, queue=queue, every="1 day", payload=["x" * 10000])
    error = refused(
        "MQ005",
        connection.create_schedule,
        schedule=name, queue=queue, every="1 day", payload=["y" * 10000],
    )  # fmt: skip
    assert len(error.diag.message_detail or "") < 300


HOUR = {"every": "1 hour"}
DAILY = {"cron": "@daily"}
REFUSED: list[tuple[str, dict[str, Any]]] = [
    # neither, or both
    ("22004", {"queue": None, **HOUR}),
    ("22023", {"topic": "t", **HOUR}),
    ("22004", {}),
    ("22023", {**HOUR, **DAILY}),
    ("22004", {"payload": None, **HOUR}),
    ("22023", {"body": b"x", **HOUR}),
    # what one of the two does not have
    ("22023", {"partition": 0, **HOUR}),
    ("22023", {"queue": None, "topic": "t", "priority": 0, **HOUR}),
    ("22023", {"queue": None, "topic": "t", "label": "l", **HOUR}),
    ("22023", {"time_zone": "UTC", **HOUR}),
    # contents
    ("22023", {"headers": "[1]", **HOUR}),
    ("22023", {"headers": {"scheduled_at": 1}, **HOUR}),
    ("22023", {"priority": 10, **HOUR}),
    ("22023", {"label": "x" * 256, **HOUR}),
    # times
    ("22023", {"every": "0"}),
    ("22023", {"every": "-1 hour"}),
    ("22023", {"every": "999 milliseconds"}),
    ("22023", {"every": "1 month"}),
    ("22023", {"every": "1 year"}),
    ("22023", {"every": "36501 days"}),
    ("22023", {"cron": "* * * *"}),
    ("22023", {"time_zone": "Europe/Berln", **DAILY}),
    ("22023", {"missed": "none", **HOUR}),
    ("22023", {"starts_at": "infinity", **HOUR}),
    ("22023", {"starts_at": "-infinity", **DAILY}),
    ("22023", {"starts_at": "294276-12-31 23:59:59.999999+00", **HOUR}),
    ("22023", {"starts_at": "294276-12-31 23:59:59.999999+00", **DAILY}),
    ("22023", {"starts_at": "4714-11-24 00:00:00+00 BC", **HOUR}),
    ("22023", {"starts_at": "4714-11-24 00:00:00+00 BC", **DAILY}),
    # targets
    ("MQ002", {"queue": "no-such-queue", **HOUR}),
    ("MQ001", {"queue": None, "topic": "no-such-topic", **HOUR}),
]


@pytest.mark.parametrize(("code", "given"), REFUSED)
def test_refusals(connection: Session, queue: str, code: str, given: dict[str, Any]) -> None:
    names = {"schedule": new_name("schedule"), "queue": queue, "payload": 1}
    with unchanged(connection):
        refused(code, connection.create_schedule, **{**names, **given})


@pytest.mark.parametrize(
    ("timing", "allowed", "refusable"),
    [
        ({"every": "1 second"}, "1995-01-01", "1994-01-01"),
        ({"every": "1 second"}, "2020-01-01", "0001-01-01"),
        ({"every": "1 day"}, "0001-01-01", None),
        ({"cron": "* * * * *"}, "0150-01-01", "0100-01-01"),
        ({"cron": "*/5 * * * *"}, "0001-01-01", None),
        ({"cron": "* 9-17 * * *"}, "0001-01-01", None),
    ],
)
def test_too_many_missed_ticks(
    connection: Session,
    queue: str,
    clock: Clock,
    timing: dict[str, str],
    allowed: str,
    refusable: str | None,
) -> None:
    """1000000000 at most for a schedule that is to write all of them; others take what there is."""
    clock.set_to("2026-05-01 12:00+00")
    given = {"queue": queue, **timing}
    new_schedule(connection, **given, missed="all", starts_at=f"{allowed}+00")
    if refusable is None:
        return
    error = refused(
        "22023", new_schedule, connection, **given, missed="all", starts_at=f"{refusable}+00"
    )
    said = re.search(r"up to (\d+) ticks", str(error.diag.message_detail))
    assert said
    assert int(said[1]) > 1_000_000_000
    new_schedule(connection, **given, missed="one", starts_at=f"{refusable}+00")


def test_a_partition_that_is_not_there(connection: Session) -> None:
    topic = new_topic(connection, partitions=2)
    for partition in (2, -1):
        refused("MQ007", new_schedule, connection, topic=topic, partition=partition, **HOUR)


@pytest.mark.parametrize("name", [None, "", "a b", "pg_x", "x" * 64])
def test_names(connection: Session, queue: str, name: str | None) -> None:
    refused(
        "22023" if name is not None else "22004",
        connection.create_schedule,
        schedule=name, queue=queue, payload=1, **HOUR,
    )  # fmt: skip


def test_twice_in_one_transaction(connect: Connect, connection: Session, queue: str) -> None:
    session = connect()
    name = new_name("schedule")
    given = {"schedule": name, "queue": queue, "payload": 1, **HOUR}
    assert session.create_schedule(**given) == session.create_schedule(**given)
    session.rollback()
    assert connection.list_schedules() == []


def test_what_its_target_does_not_take(connection: Session) -> None:
    """As publish and enqueue say it; content from before a limit was lowered stays."""
    topic, queue = new_name("topic"), new_name("queue")
    connection.create_topic(topic=topic, max_message_bytes=2000)
    connection.create_queue(queue=queue, max_message_bytes=2000)
    for target in ({"topic": topic}, {"queue": queue}):
        name = new_name("schedule")
        for content in ({"body": bytes(2001)}, {"payload": {"s": "x" * 2100}}):
            with unchanged(connection):
                error = refused(
                    "22023",
                    connection.create_schedule,
                    schedule=name,
                    every="1 hour",
                    **target,
                    **content,
                )
            assert "max_message_bytes is 2000" in str(error.diag.message_detail)
        connection.create_schedule(schedule=name, every="1 hour", body=bytes(2000), **target)
        with unchanged(connection):
            refused("22023", connection.alter_schedule, schedule=name, body=bytes(2001))
            refused("22023", connection.alter_schedule, schedule=name, key="k" * 262145)
    connection.alter_queue(queue=queue, max_message_bytes=1024)
    altered = connection.alter_schedule(schedule=name, every="2 hours")
    assert (altered.every, altered.body) == (timedelta(hours=2), bytes(2000))
