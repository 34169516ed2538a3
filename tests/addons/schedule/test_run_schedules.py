"""run_schedules: what is due is written, once, with all that belongs to it."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from support.clock import Clock
from support.log import new_topic
from support.queue import claim, enqueue, new_queue
from support.schedule import due_ticks, new_schedule, state, times, written
from support.session import Connect, Session, refused, unchanged
from support.subscription import new_followed_topic


@pytest.fixture(autouse=True)
def noon(clock: Clock) -> None:
    """The time at which each test begins."""
    clock.set_to("2026-05-01 12:00:30+00")


def test_a_job(connection: Session, queue: str, clock: Clock) -> None:
    content = {"key": "k", "priority": 3, "label": "l", "headers": {"a": {"b": None}}}
    name = new_schedule(connection, queue=queue, cron="*/10 * * * *", **content)
    assert connection.run_schedules() == []
    clock.advance("10 minutes")
    [run] = connection.run_schedules()
    assert run[:2] == (name, state(connection, name).last_at)
    assert (run.partition, run.log_offset, run.error) == (None, None, None)
    [job] = claim(connection, queue, 10)
    assert job.job_id == run.job_id
    assert (job.payload, job.key, job.priority, job.label) == ({"of": name}, "k", 3, "l")
    assert job.headers == {"a": {"b": None}, "scheduled_at": "2026-05-01T12:10:00+00:00"}
    assert connection.run_schedules() == []
    assert times([state(connection, name).next_at]) == ["2026-05-01 12:20"]


def test_a_message(connection: Session, clock: Clock) -> None:
    """By its key, to a partition, or anywhere; as raw bytes too."""
    topic = new_topic(connection, partitions=4)
    keyed = new_schedule(connection, topic=topic, every="1 hour", key="k", headers={"a": 1})
    placed = new_schedule(connection, topic=topic, every="1 hour", partition=2, body=b"\x00x")
    free = new_schedule(connection, topic=topic, every="1 hour")
    clock.advance("1 hour")
    runs = {run.schedule: run for run in connection.run_schedules()}
    assert [run.job_id for run in runs.values()] == [None] * 3
    home = connection.publish(topic=topic, payload=1, key="k").partition
    assert (runs[keyed].partition, runs[placed].partition) == (home, 2)
    for name, expected in (
        (keyed, ("k", {"a": 1}, {"of": keyed}, None)),
        (placed, (None, {}, None, b"\x00x")),
        (free, (None, {}, {"of": free}, None)),
    ):
        place = {"partition": runs[name].partition, "first_offset": runs[name].log_offset}
        [message] = connection.fetch_range(topic=topic, **place, last_offset=runs[name].log_offset)
        moment = message.headers.pop("scheduled_at")
        assert moment == "2026-05-01T13:00:30+00:00"
        assert (message.key, message.headers, message.payload, message.body) == expected


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_the_header_is_in_utc(connection: Session, queue: str, clock: Clock, zone: str) -> None:
    """Whatever the session thinks of times; fractions only where there are any."""
    new_schedule(connection, queue=queue, every="1.25 seconds", starts_at="2026-05-01 12:01+00")
    clock.set_to("2026-05-01 12:01:01.3+00")
    with connection.transaction():
        connection.execute(f"set local timezone = '{zone}'".encode())
        connection.execute("set local datestyle = 'SQL, DMY'")
        connection.execute("select from pgq.run_schedules()")
    [job] = claim(connection, queue)
    assert job.headers == {"scheduled_at": "2026-05-01T12:01:01.25+00:00"}


def test_a_rollback_takes_all_back(
    connect: Connect, connection: Session, queue: str, clock: Clock
) -> None:
    name = new_schedule(connection, queue=queue, cron="@hourly")
    clock.advance("1 hour")
    session = connect()
    assert due_ticks(session, name) == ["2026-05-01 13:00"]
    # twice in one transaction
    assert session.run_schedules() == []
    session.rollback()
    assert state(connection, name).last_at is None
    assert due_ticks(connection, name) == ["2026-05-01 13:00"]
    assert written(connection, queue) == ["2026-05-01 13:00"]


# ------------------------------------------------------------------------------ missed ticks


def test_all_missed_ticks(connection: Session, queue: str, clock: Clock) -> None:
    name = new_schedule(connection, queue=queue, cron="@hourly", missed="all")
    clock.advance("4 hours")
    expected = [f"2026-05-01 {hour}:00" for hour in (13, 14, 15, 16)]
    assert due_ticks(connection, name) == expected
    assert written(connection, queue) == expected
    assert due_ticks(connection, name) == []


@pytest.mark.parametrize("timing", [{"cron": "@hourly"}, {"every": "1 hour"}])
def test_one_missed_tick(
    connection: Session, queue: str, clock: Clock, timing: dict[str, str]
) -> None:
    """The last of them."""
    name = new_schedule(
        connection, queue=queue, **timing, starts_at="2026-05-01 12:00+00", missed="one"
    )
    clock.advance("4 hours")
    assert due_ticks(connection, name) == ["2026-05-01 16:00"]
    assert due_ticks(connection, name) == []
    assert times([state(connection, name).next_at]) == ["2026-05-01 17:00"]
    assert written(connection, queue) == ["2026-05-01 16:00"]


@pytest.mark.parametrize(("late", "comes"), [("5 minutes", True), ("5 minutes 2 seconds", False)])
def test_missed_ticks_are_skipped(
    connection: Session, queue: str, clock: Clock, late: str, comes: bool
) -> None:
    """One is missed when it is more than five minutes late."""
    name = new_schedule(connection, queue=queue, cron="@hourly", missed="skip")
    clock.set_to("2026-05-01 15:59:58+00")
    clock.advance(late)
    assert due_ticks(connection, name) == (["2026-05-01 16:00"] if comes else [])
    found = state(connection, name)
    assert times([found.next_at]) == ["2026-05-01 17:00"]
    assert (found.last_at is not None) is comes
    clock.set_to("2026-05-01 17:00:10+00")
    assert due_ticks(connection, name) == ["2026-05-01 17:00"]


def test_ticks_of_a_pause_were_missed(connection: Session, queue: str, clock: Clock) -> None:
    names = {
        missed: new_schedule(connection, queue=queue, cron="@hourly", missed=missed)
        for missed in ("all", "one", "skip")
    }
    for name in names.values():
        connection.pause_schedule(schedule=name)
    clock.advance("2 hours 10 minutes")
    assert connection.run_schedules() == []
    for name in names.values():
        connection.resume_schedule(schedule=name)
    found: dict[str, list[str]] = {}
    for run in connection.run_schedules():
        found.setdefault(run.schedule, []).extend(times([run.tick_at]))
    assert found == {
        names["all"]: ["2026-05-01 13:00", "2026-05-01 14:00"],
        names["one"]: ["2026-05-01 14:00"],
    }


def test_a_start_in_the_past(connection: Session, queue: str) -> None:
    """The ticks since then were missed."""
    names = [
        new_schedule(
            connection, queue=queue, every="1 day", starts_at="2026-04-29 08:00+00", missed=missed
        )
        for missed in ("all", "one", "skip")
    ]
    runs = connection.run_schedules()
    assert [times([r.tick_at for r in runs if r.schedule == name]) for name in names] == [
        ["2026-04-29 08:00", "2026-04-30 08:00", "2026-05-01 08:00"],
        ["2026-05-01 08:00"],
        [],
    ]


def test_an_interval_of_two_thousand_years(connection: Session, queue: str, clock: Clock) -> None:
    """Counted to the microsecond, of which there are more than a double can tell apart."""
    name = new_schedule(
        connection, queue=queue, every="7.000001 seconds", starts_at="0001-01-01 00:00:00.000003+00"
    )
    ticks = [connection.run_schedules()[0].tick_at]
    connection.alter_schedule(schedule=name, missed="all")
    clock.advance("10 minutes")
    ticks += [run.tick_at for run in connection.run_schedules()]
    start, step = state(connection, name).starts_at, timedelta(seconds=7.000001)
    assert len(ticks) > 80
    assert [(tick - start) % step for tick in ticks] == [timedelta(0)] * len(ticks)
    assert {after - before for before, after in pairwise(ticks)} == {step}


# -------------------------------------------------------------------------------- the clock


def test_a_clock_that_goes_back(connection: Session, queue: str, clock: Clock) -> None:
    """No tick comes twice."""
    names = [
        new_schedule(connection, queue=queue, cron="*/5 * * * *", missed=missed)
        for missed in ("all", "one", "skip")
    ]
    clock.advance("1 hour")
    first = [due_ticks(connection, name) for name in names]
    # the first call has run all three
    assert [len(ticks) for ticks in first] == [12, 0, 0]
    clock.advance("-1 hour")
    assert connection.run_schedules() == []
    clock.advance("1 hour 5 minutes")
    runs = connection.run_schedules()
    assert {run.schedule for run in runs} == {*names}
    assert times([run.tick_at for run in runs]) == ["2026-05-01 13:05"] * 3


def test_a_clock_that_jumps_ahead(connection: Session, queue: str, clock: Clock) -> None:
    """By a year: each call writes so many, and the next one goes on where it ended."""
    behind = new_schedule(connection, queue=queue, cron="*/20 * * * *", missed="all")
    clock.advance("365 days")
    seen = []
    for _ in range(3):
        ticks = due_ticks(connection, behind)
        assert len(ticks) == 1000
        seen += ticks
    assert seen == sorted({*seen})
    assert seen[0] == "2026-05-01 12:20"
    assert times([state(connection, behind).next_at]) == ["2026-06-12 04:20"]
    assert len(due_ticks(connection, behind, max_ticks=7)) == 7


def test_one_that_is_behind_leaves_room(connection: Session, queue: str, clock: Clock) -> None:
    """For those that are due now, and for another one that is behind."""
    behind = set()
    for _ in range(2):
        behind.add(new_schedule(connection, queue=queue, every="1 second", missed="all"))
        clock.advance("1 day")
    current = new_schedule(connection, queue=queue, cron="@hourly")
    clock.advance("1 hour")
    counts: dict[str, int] = {}
    for run in connection.run_schedules(max_ticks=30):
        counts[run.schedule] = counts.get(run.schedule, 0) + 1
    assert counts == {**dict.fromkeys(behind, 10), current: 1}
    # with less room than schedules they take turns
    turns = [connection.run_schedules(max_ticks=1)[0].schedule for _ in range(4)]
    assert turns[0] != turns[1]
    assert turns[:2] == turns[2:]


# --------------------------------------------------------------------------------- refusals


def test_a_target_that_is_gone(connection: Session, queue: str, clock: Clock) -> None:
    """Its error is shown, the others go on; a new one of its name has to be named anew."""
    lost = {"queue": f"{queue}-lost"}
    connection.create_queue(**lost)
    topic = new_topic(connection)
    away = [
        new_schedule(connection, cron="@hourly", missed="all", **lost),
        new_schedule(connection, cron="@hourly", topic=topic),
    ]
    stays = new_schedule(connection, cron="@hourly", queue=queue)
    connection.drop_queue(**lost)
    connection.drop_topic(topic=topic)
    clock.advance("1 hour")
    errors = [f'MQ002: queue "{queue}-lost" was dropped', f'MQ001: topic "{topic}" was dropped']

    found = {run.schedule: run for run in connection.run_schedules()}
    assert found.keys() == {*away, stays}
    assert found[stays].job_id
    for name, error in zip(away, errors):
        run = found[name]
        assert (run.job_id, run.partition, run.log_offset, run.error) == (None, None, None, error)
        assert times([run.tick_at]) == ["2026-05-01 13:00"]
        known = state(connection, name)
        assert (known.last_error, known.last_at) == (error, None)
        assert known.next_at == run.tick_at
    # not at once again
    assert connection.run_schedules() == []
    clock.advance("1 minute")
    assert {run.schedule for run in connection.run_schedules()} == {*away}

    clock.advance("1 hour")
    connection.create_queue(**lost)
    connection.create_topic(topic=topic)
    assert {run.error for run in connection.run_schedules()} == {*errors, None}
    connection.alter_schedule(schedule=away[0], **lost)
    connection.alter_schedule(schedule=away[1], topic=topic)
    ticks: dict[str, list[str]] = {}
    for run in connection.run_schedules():
        assert run.error is None
        ticks.setdefault(run.schedule, []).extend(times([run.tick_at]))
    last = ["2026-05-01 14:00"]
    assert ticks == {away[0]: ["2026-05-01 13:00", *last], away[1]: last}
    assert [state(connection, name).last_error for name in away] == [None, None]


def test_a_partition_that_is_gone(connection: Session, clock: Clock) -> None:
    """With a new topic of that name, which has fewer."""
    topic = new_topic(connection, partitions=3)
    name = new_schedule(connection, cron="@hourly", topic=topic, partition=2)
    connection.drop_topic(topic=topic)
    connection.create_topic(topic=topic, partitions=2)
    clock.advance("1 hour")
    refused("MQ007", connection.alter_schedule, schedule=name, topic=topic)
    connection.alter_schedule(schedule=name, partition=1)
    [run] = connection.run_schedules()
    assert run.error == f'MQ001: topic "{topic}" was dropped'
    connection.alter_schedule(schedule=name, topic=topic)
    # what has been mended is tried at once
    [run] = connection.run_schedules()
    assert (run.partition, run.error) == (1, None)


def test_a_queue_that_is_full(connection: Session, queue: str, clock: Clock) -> None:
    """The others go on; when there is room, its tick was missed."""
    full = new_queue(connection, max_unfinished=1, no_limit=["job_ttl"])
    blocking = enqueue(connection, full)
    late = new_schedule(connection, queue=full, every="1 hour", missed="all")
    other = new_schedule(connection, queue=queue, every="1 hour")
    clock.advance("1 hour")
    runs = {run.schedule: run for run in connection.run_schedules()}
    assert runs[other].error is None
    assert runs[late].error == f'MQ010: queue "{full}" is full'
    assert connection.cancel_job(job_id=blocking)
    clock.advance("2 minutes")
    [run] = connection.run_schedules()
    assert (run.schedule, run.error) == (late, None)


def test_ticks_of_a_call_stand_or_fall_together(
    connection: Session, queue: str, clock: Clock
) -> None:
    """One refusal in the middle leaves none of a schedule's ticks written and forgotten."""
    name = new_schedule(connection, queue=queue, cron="@hourly", missed="all")
    connection.execute(
        """
        create function public.refuse() returns trigger language plpgsql as $$
        begin
            if (select count(*) from pgq.job as j where j.queue_id = new.queue_id) >= 2 then
                raise 'no' using errcode = '22023';
            end if;
            return new;
        end
        $$;
        create trigger refuse before insert on pgq.job
        for each row execute function public.refuse();
        """
    )
    try:
        clock.advance("3 hours")
        [run] = connection.run_schedules()
        assert run.error == "22023: no"
        assert written(connection, queue) == []
    finally:
        connection.execute("drop trigger refuse on pgq.job; drop function public.refuse()")
    clock.advance("1 minute")
    assert len(due_ticks(connection, name)) == 3
    assert len(written(connection, queue)) == 3


def test_a_topic_with_a_broken_subscription(connection: Session, queue: str, clock: Clock) -> None:
    """Nothing can be published to it; the others go on."""
    topic, _ = new_followed_topic(connection, routing_key="a")
    connection.execute("update pgq.subscription set routing_regex = '('")
    headers = {"routing_key": "a"}
    broken = new_schedule(connection, topic=topic, cron="@hourly", headers=headers)
    other = new_schedule(connection, queue=queue, cron="@hourly")
    clock.advance("1 hour")
    runs = {run.schedule: run.error for run in connection.run_schedules()}
    assert runs[broken].startswith("2201B")
    assert runs[other] is None


def test_other_errors_end_the_call(connection: Session, queue: str, clock: Clock) -> None:
    """What is no refusal is told to the caller, and nothing is lost."""
    name = new_schedule(connection, queue=queue, cron="@hourly")
    clock.advance("1 hour")
    connection.execute("alter table pgq.job add constraint full_disk check (false) not valid")
    try:
        with unchanged(connection):
            refused("23514", connection.run_schedules)
    finally:
        connection.execute("alter table pgq.job drop constraint full_disk")
    assert due_ticks(connection, name) == ["2026-05-01 13:00"]


@pytest.mark.parametrize("number", [0, -1, 100001])
def test_refusals(connection: Session, number: int) -> None:
    with unchanged(connection):
        refused("22023", connection.run_schedules, max_ticks=number)


def test_many_schedules(connection: Session, queue: str, clock: Clock) -> None:
    """More than one call writes: the oldest first, and all by and by."""
    names: list[Any] = [
        new_schedule(connection, queue=queue, cron=f"{minute} * * * *") for minute in range(25, 40)
    ]
    clock.advance("45 minutes")
    found = [run.schedule for run in connection.run_schedules(max_ticks=10)]
    assert found == names[:10]
    assert [run.schedule for run in connection.run_schedules(max_ticks=10)] == names[10:]
