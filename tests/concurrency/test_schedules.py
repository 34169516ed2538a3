"""Several run schedules, or change them meanwhile: each tick is written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.log import new_topic, offsets
from support.queue import new_queue
from support.schedule import due_ticks, new_schedule, state, times, written
from support.session import Connect, Session, new_name, refused
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session, second_answer_of
from support.waiting import PATIENCE, aside, blocked, results, wait_until


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test; no schedule is left in it."""
    with psycopg.connect(shared_dsn) as connection:
        connection.execute("delete from pgq.schedule")
    return shared_dsn


@pytest.fixture
def clock(shared_clock: Clock) -> Clock:
    """Noon and a half minute."""
    shared_clock.set_to("2026-05-01 12:00:30+00")
    return shared_clock


@pytest.fixture
def queue(connection: Session) -> str:
    return new_queue(connection)


@pytest.fixture
def due(connection: Session, queue: str, clock: Clock) -> str:
    """A schedule with a tick at one o'clock that is due."""
    name = new_schedule(connection, queue=queue, cron="@hourly")
    clock.advance("1 hour")
    return name


ONE = ["2026-05-01 13:00"]


def test_two_at_once(connect: Connect, connection: Session, queue: str, due: str) -> None:
    """The second does not wait, and takes what the first has not found."""
    first, second = connect(), connect()
    assert due_ticks(first, due) == ONE
    assert second.run_schedules() == []
    other = new_schedule(connection, queue=queue, every="1 hour", starts_at="2026-05-01 12:30+00")
    assert due_ticks(second, other) == ["2026-05-01 12:30"]
    first.commit()
    second.commit()
    assert connection.run_schedules() == []
    assert written(connection, queue) == ["2026-05-01 12:30", *ONE]


def test_after_a_rollback(connect: Connect, connection: Session, queue: str, due: str) -> None:
    first = connect()
    assert due_ticks(first, due) == ONE
    assert connection.run_schedules() == []
    first.rollback()
    assert due_ticks(connection, due) == ONE
    assert written(connection, queue) == ONE


def test_a_caller_that_is_killed(
    connect: Connect, connection: Session, queue: str, due: str
) -> None:
    """Between writing a tick and its commit: the tick is neither lost nor doubled."""
    first = connect()
    assert due_ticks(first, due) == ONE
    connection.execute("select pg_terminate_backend(%s)", [first.pid])
    wait_until(lambda: due_ticks(connection, due) == ONE)
    assert connection.run_schedules() == []
    assert written(connection, queue) == ONE


def test_many_at_once(connect: Connect, connection: Session, queue: str, clock: Clock) -> None:
    """Whatever each of them finds, together it is each tick once."""
    names = [
        new_schedule(connection, queue=queue, cron="*/5 * * * *", missed="all") for _ in range(12)
    ]
    sessions = [connect(autocommit=True) for _ in range(6)]
    clock.advance("1 hour")

    def work(session: Session) -> list[Any]:
        found: list[Any] = []
        # what another one holds is left out: so an empty answer is not the end
        while any(times([each.next_at]) < times([until]) for each in session.list_schedules()):
            found += session.run_schedules(max_ticks=7)
        return found

    [(until,)] = connection.execute("select pgq._clock()").fetchall()
    runs = [
        run for found in results(*(aside(lambda s=s: work(s)) for s in sessions)) for run in found
    ]  # type: ignore[misc]
    expected = [f"2026-05-01 12:{minute:02}" for minute in range(5, 60, 5)] + ONE
    for name in names:
        assert sorted(times([r.tick_at for r in runs if r.schedule == name])) == expected
    assert len(written(connection, queue)) == 12 * len(expected)


@pytest.mark.parametrize("later", [{"partition": 1}, {"key": "k"}, {}])
def test_partitions_are_locked_in_order(
    connect: Connect, connection: Session, clock: Clock, later: dict[str, Any]
) -> None:
    """Whatever is due first: who waits for one has none of those behind it, so there is no circle.

    Of a topic those come first that have a number, by a key too, and then those that may go
    anywhere; topics come by their names.
    """
    topics = sorted(new_topic(connection, partitions=2) for _ in range(2))
    places = [{"topic": topics[0], "partition": 0}, {"topic": topics[bool(later)], **later}]
    for place, minute in zip(places, (40, 20)):
        new_schedule(connection, cron=f"{minute} * * * *", **place)
    clock.advance("1 hour")
    holder, runner = connect(), connect(autocommit=True)
    holder.publish(topic=topics[0], payload=1, partition=0)
    running = blocked(connection, runner, runner.run_schedules)
    connection.execute("set lock_timeout = '1s'")
    for topic, partition in ((topics[0], 1), (topics[1], 0), (topics[1], 1)):
        connection.publish(topic=topic, payload=1, partition=partition)
    holder.commit()
    assert [run.error for run in results(running)[0]] == [None, None]


# ----------------------------------------------------------------------- changes meanwhile


def test_a_drop_waits(connect: Connect, connection: Session, queue: str, due: str) -> None:
    """For the caller that is writing; what it writes stays."""
    runner, dropper = connect(), connect(autocommit=True)
    assert due_ticks(runner, due) == ONE
    dropped = blocked(connection, dropper, lambda: dropper.drop_schedule(schedule=due))
    runner.commit()
    results(dropped)
    assert connection.list_schedules() == []
    assert written(connection, queue) == ONE


def test_a_drop_that_is_open(connect: Connect, connection: Session, queue: str, due: str) -> None:
    """Its schedule is left out; when it is rolled back the tick is still due."""
    dropper = connect()
    dropper.drop_schedule(schedule=due)
    assert connection.run_schedules() == []
    dropper.rollback()
    assert due_ticks(connection, due) == ONE
    dropper.drop_schedule(schedule=due)
    dropper.commit()
    assert connection.run_schedules() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda session, name: session.alter_schedule(schedule=name, cron="30 * * * *"),
        lambda session, name: session.pause_schedule(schedule=name),
    ],
    ids=["alter", "pause"],
)
def test_a_change_waits(
    connect: Connect,
    connection: Session,
    queue: str,
    due: str,
    clock: Clock,
    change: Callable[[Session, str], Any],
) -> None:
    """For the caller that is writing, and counts from then on."""
    runner, other = connect(), connect(autocommit=True)
    assert due_ticks(runner, due) == ONE
    changed = blocked(connection, other, lambda: change(other, due))
    runner.commit()
    results(changed)
    found = state(connection, due)
    assert times([found.last_at]) == ONE
    expected = "2026-05-01 14:00" if found.paused else "2026-05-01 13:30"
    assert times([found.next_at]) == [expected]
    assert connection.run_schedules() == []
    clock.advance("30 minutes")
    assert due_ticks(connection, due) == ([] if found.paused else ["2026-05-01 13:30"])


def test_a_change_that_is_open(connect: Connect, connection: Session, due: str) -> None:
    """Its schedule is left out, and is looked at anew when it has ended."""
    other = connect()
    other.alter_schedule(schedule=due, cron="30 * * * *")
    assert connection.run_schedules() == []
    other.commit()
    assert connection.run_schedules() == []
    other.alter_schedule(schedule=due, label="l")
    other.rollback()
    assert times([state(connection, due).next_at]) == ["2026-05-01 13:30"]


def test_a_target_that_is_dropped_meanwhile(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """While the tick waits for its partition: its error is noted, the others go on."""
    topic = new_topic(connection, partitions=1)
    other = new_topic(connection, partitions=1)
    names = [new_schedule(connection, topic=each, cron="@hourly") for each in (topic, other)]
    clock.advance("1 hour")
    dropper, runner = connect(), connect(autocommit=True)
    dropper.drop_topic(topic=topic)
    running = blocked(connection, runner, runner.run_schedules)
    dropper.commit()
    [runs] = results(running)
    assert {run.schedule: run.error for run in runs} == {
        names[0]: f'MQ001: unknown topic "{topic}"',
        names[1]: None,
    }
    assert state(connection, names[0]).last_error


# --------------------------------------------------------------------------- old snapshots


@pytest.mark.parametrize("level", LEVELS)
def test_a_tick_that_another_one_has_written(
    connect: Connect, connection: Session, queue: str, due: str, level: str
) -> None:
    """After the snapshot: try again, and then there is nothing to do."""
    session = old_session(connect, level)
    assert due_ticks(connection, due) == ONE
    assert answer_of(session, session.run_schedules) == TRY_AGAIN
    assert answer_of(session, session.run_schedules) == []
    assert written(connection, queue) == ONE


@pytest.mark.parametrize("level", LEVELS)
def test_a_tick_of_an_old_snapshot(
    connect: Connect, connection: Session, queue: str, due: str, level: str
) -> None:
    """Nobody else was there: it is written, and the next caller knows."""
    session = old_session(connect, level)
    assert times([run.tick_at for run in answer_of(session, session.run_schedules)]) == ONE
    assert connection.run_schedules() == []
    assert written(connection, queue) == ONE


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("verb", ["alter", "drop", "pause"])
def test_a_change_of_an_old_snapshot(
    connect: Connect, connection: Session, queue: str, due: str, level: str, verb: str
) -> None:
    """A tick was written since: the change is tried again."""
    session = old_session(connect, level)
    assert due_ticks(connection, due) == ONE

    def change() -> Any:
        return session.call(f"{verb}_schedule", schedule=due)

    assert answer_of(session, change) == TRY_AGAIN
    assert answer_of(session, change) != TRY_AGAIN
    assert written(connection, queue) == ONE


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("verb", ["alter", "drop", "pause"])
def test_a_run_of_an_old_snapshot(
    connect: Connect, connection: Session, due: str, level: str, verb: str
) -> None:
    """The schedule was changed since: its tick is not written by what it was before."""
    session = old_session(connect, level)
    change = {"cron": "30 * * * *"} if verb == "alter" else {}
    connection.call(f"{verb}_schedule", schedule=due, **change)
    assert second_answer_of(session, session.run_schedules) == []


# ------------------------------------------------------------------------- creating at once


@pytest.mark.parametrize("first_commits", [True, False])
@pytest.mark.parametrize("agrees", [True, False])
def test_two_create_one(
    connect: Connect, connection: Session, queue: str, first_commits: bool, agrees: bool
) -> None:
    """The second waits for the first, and is told what it is."""
    names = {"schedule": new_name("schedule"), "queue": queue, "payload": 1}
    first, second = connect(), connect(autocommit=True)
    made = first.create_schedule(**names, cron="@hourly")
    given = {"cron": "@hourly" if agrees else "@daily"}
    answer = blocked(connection, second, lambda: second.create_schedule(**names, **given))
    first.commit() if first_commits else first.rollback()
    if first_commits and not agrees:
        refused("MQ005", answer.result, timeout=30)
    else:
        assert answer.result(30).cron == given["cron"]
    [found] = connection.list_schedules()
    if first_commits:
        assert found == made


@pytest.mark.parametrize("level", LEVELS)
def test_one_of_an_old_snapshot(
    connect: Connect, connection: Session, queue: str, level: str
) -> None:
    """Made since: 40001, not a second one. Dropped since: not one that is gone."""
    given = {"schedule": new_name("schedule"), "queue": queue, "payload": 1, "cron": "@hourly"}
    session = old_session(connect, level)
    made = connection.create_schedule(**given)
    assert answer_of(session, lambda: session.create_schedule(**given)) == TRY_AGAIN
    assert answer_of(session, lambda: session.create_schedule(**given)) == made
    session.execute("select 1")
    connection.drop_schedule(schedule=given["schedule"])
    assert answer_of(session, lambda: session.create_schedule(**given)) == TRY_AGAIN
    assert answer_of(session, lambda: session.create_schedule(**given)).schedule


def test_a_publisher_holds_one_partition_only(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """A tick whose partition is held waits for it; what another caller has is not held up."""
    topic = new_topic(connection, partitions=1)
    new_schedule(connection, topic=topic, cron="@hourly")
    holder, runner = connect(), connect(autocommit=True)
    holder.publish(topic=topic, payload=1)
    clock.advance("1 hour")
    running = blocked(connection, runner, runner.run_schedules)
    assert connection.run_schedules() == []
    holder.commit()
    [[run]] = results(running)
    assert (run.partition, run.log_offset) == (0, 2)
    messages = connection.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=2)
    assert offsets(messages) == [1, 2]


def test_two_and_an_ordered_queue(connect: Connect, connection: Session, clock: Clock) -> None:
    """Whatever is due first, both take the keys in one order."""
    queue = new_queue(connection, ordered=True)
    due_at = [f"2026-05-01 12:{minute}+00" for minute in (10, 20, 30)]
    names = [
        new_schedule(connection, queue=queue, key=key, every="1 hour", starts_at=start)
        for keys in ("bca", "acb")
        for key, start in zip(keys, due_at, strict=True)
    ]
    clock.advance("1 hour")
    other, one, two, writer = (connect() for _ in range(4))
    other.execute("select from pgq.schedule where schedule = any(%s) for update", [names[3:]])
    writer.enqueue(queue=queue, payload=1, key="c")
    first = blocked(connection, one, one.run_schedules)
    other.rollback()
    second = blocked(connection, two, two.run_schedules)
    writer.commit()
    assert {run.schedule for run in first.result(PATIENCE)} == set(names[:3])
    one.commit()
    assert {run.schedule for run in second.result(PATIENCE)} == set(names[3:])
