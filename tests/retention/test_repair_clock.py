"""repair_clock: what a clock that was ahead wrote is free again, and nothing else is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from support.clock import Clock
from support.log import new_topic, offsets
from support.queue import ack, claim, claim_one, enqueue, enqueue_many, new_queue
from support.schedule import due_ticks, new_schedule, state, times, written
from support.session import Connect, Session, new_name, refused, row
from support.subscription import in_runs, publish_many, subscribe
from support.waiting import blocked

DAY = timedelta(days=1)


@contextmanager
def a_day_ahead(clock: Clock) -> Iterator[None]:
    """The clock is wrong for a moment."""
    clock.advance(DAY)
    yield
    clock.advance(-DAY)


def repaired(session: Session, **options: Any) -> dict[str, int]:
    """What it did, without names; a second call finds nothing."""
    done: dict[str, int] = {}
    for action in session.repair_clock(**options):
        done[action.action] = done.get(action.action, 0) + action.amount
    assert session.repair_clock(**options) == []
    done.pop("floor lowered", None)
    return done


def waits(session: Session) -> list[Any]:
    """All that a job is."""
    return session.execute("select job::text from pgq.job order by job_id").fetchall()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"delay": "1 hour"},
        {"ordered": True},
        {"max_leased_per_key": 1},
        {"max_leased": 5, "rate_limit": 10, "rate_interval": "1 minute"},
    ],
    ids=str,
)
def test_jobs(connection: Session, clock: Clock, settings: dict[str, Any]) -> None:
    """With their queue's delay, which keeps its length; also those that wait for another."""
    queue = new_queue(connection, **settings)
    with a_day_ahead(clock):
        ids = [enqueue(connection, queue, n, key="k", priority=n) for n in range(3)]
    clock.advance("1 second")
    assert claim(connection, queue) == []
    assert repaired(connection) == {"jobs set back": 3}
    if "delay" in settings:
        clock.advance("59 minutes")
        assert claim(connection, queue) == []
        clock.advance("1 minute")
    found = []
    while jobs := claim(connection, queue):
        found.append(jobs[0].job_id)
        assert ack(connection, jobs[0])
    assert found == ids


def test_jobs_after_claims_by_the_wrong_clock(connection: Session, clock: Clock) -> None:
    """It lowers the floors as well, and those of labels."""
    queue = new_queue(connection)
    with a_day_ahead(clock):
        enqueue(connection, queue, 0, label="l")
        assert ack(connection, claim_one(connection, queue, label="l"))
        assert claim(connection, queue) == []
        enqueue_many(connection, queue, 2, labels=["l", "m"])
    assert repaired(connection) == {"jobs set back": 2}
    assert [job.label for job in claim(connection, queue, 1, label="l")] == ["l"]
    assert [job.label for job in claim(connection, queue, 2)] == ["m"]


def test_jobs_that_were_given_back(connection: Session, clock: Clock) -> None:
    """After an error, with the waiting time of their queue."""
    queue = new_queue(connection, backoff="1 minute", backoff_max="1 hour", backoff_jitter=0)
    with a_day_ahead(clock):
        enqueue(connection, queue, 1)
        job = claim_one(connection, queue)
        assert connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    assert repaired(connection) == {"jobs set back": 1}
    assert claim(connection, queue) == []
    clock.advance("1 minute")
    assert claim_one(connection, queue).attempt == 2


@pytest.mark.parametrize("number", [2, 250])
def test_jobs_of_subscriptions(connection: Session, clock: Clock, number: int) -> None:
    """One by one, and in runs."""
    queue, topic = new_queue(connection, delay="1 hour"), new_name("topic")
    connection.create_topic(topic=topic, partitions=1)
    subscribe(connection, topic, queue)
    with a_day_ahead(clock):
        publish_many(connection, topic, number)
    assert in_runs(connection, queue) == (number if number > 100 else 0)
    assert repaired(connection) == {"jobs set back": number}
    assert claim(connection, queue, 1) == []
    clock.advance("1 hour")
    assert [job.payload for job in claim(connection, queue, number)] == list(range(number))


def test_what_was_delayed_on_purpose_stays(connection: Session, clock: Clock) -> None:
    """By a right clock; by a wrong one, where the time may be a run_at, which is right."""
    queue, ordered = new_queue(connection, delay="2 hours"), new_queue(connection, ordered=True)
    run_at = datetime.now(timezone.utc) + 10 * DAY
    for name in (queue, ordered):
        for options in (
            {},
            {"delay": "1 day"},
            {"run_at": run_at},
            {"delay": "26 hours", "key": "k"},
            {"key": "k", "delay": "25 hours"},
        ):
            enqueue(connection, name, 1, **options)
    job = claim_one(connection, ordered)
    connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="30 hours")
    with a_day_ahead(clock):
        enqueue(connection, queue, 2, delay="1 hour")
        enqueue(connection, queue, 2, delay="3 hours")
        enqueue(connection, queue, 2, run_at=run_at)
    before = waits(connection)
    assert len(before) == 13
    assert repaired(connection) == {}
    assert waits(connection) == before


def test_leases_of_jobs(connection: Session, clock: Clock) -> None:
    """Cut to what the queue gives; who has it goes on, and keeps it by extending it."""
    queue = new_queue(connection, lease="1 minute", max_attempts=3)
    enqueue_many(connection, queue, 3)
    with a_day_ahead(clock):
        kept, extended, lost = claim(connection, queue, 3)
    assert repaired(connection) == {"leases cut": 3}
    token = {"job_id": extended.job_id, "lease_token": extended.lease_token}
    assert connection.extend_lease(lease="1 hour", **token)
    clock.advance("59 seconds")
    assert claim(connection, queue) == []
    assert ack(connection, kept)
    clock.advance("2 seconds")
    again = claim_one(connection, queue)
    assert (again.job_id, again.attempt) == (lost.job_id, 2)
    assert claim(connection, queue) == []
    assert ack(connection, extended)


def test_a_live_worker_with_a_long_lease(connection: Session, clock: Clock) -> None:
    """Its lease stays, as long as it is not longer than the call, or the queue, says."""
    queue = new_queue(connection, lease="1 minute")
    long = new_queue(connection, lease="3 days")
    for name in (queue, long):
        enqueue(connection, name, 1)
    claim_one(connection, queue, lease="11 hours")
    claim_one(connection, long)
    before = waits(connection)
    assert repaired(connection) == {}
    assert repaired(connection, longest_lease="11 hours", max_rows=None) == {}
    assert waits(connection) == before
    assert repaired(connection, longest_lease="10 hours") == {"leases cut": 1}


def test_leases_of_groups(connection: Session, clock: Clock) -> None:
    """They keep their length, and the member that has one keeps it."""
    topic = new_topic(connection, messages=3)
    member = {"topic": topic, "consumer_group": "readers"}
    with a_day_ahead(clock):
        [first, *_] = connection.poll(lease="2 hours", max_messages=1, **member)
    assert repaired(connection) == {"leases cut": 1}
    held = {**member, "partition": first.partition, "lease_token": first.lease_token}
    assert connection.extend_poll(lease="1 hour", **held)
    assert connection.poll(**member) == []
    clock.advance("2 hours")
    assert offsets(connection.poll(lease="30 hours", **member)) == [1, 2, 3]
    # long on purpose
    assert repaired(connection) == {}
    assert connection.poll(**member) == []


def test_attempts_of_groups_are_kept(connection: Session, clock: Clock) -> None:
    topic = new_topic(connection, messages=2)
    connection.create_topic(topic=(letters := new_name("topic")))
    member = {"topic": topic, "consumer_group": "careful"}
    connection.create_group(**member, max_attempts=3, dead_letter_topic=letters)
    connection.poll(lease="1 second", **member)
    clock.advance("2 seconds")
    with a_day_ahead(clock):
        connection.poll(lease="1 minute", **member)
    assert repaired(connection) == {"leases cut": 1}
    clock.advance("1 minute")
    assert connection.poll(**member)[0].attempt == 3


@pytest.mark.parametrize("missed", ["skip", "one"])
@pytest.mark.parametrize(
    "rule", [{"every": "10 minutes", "starts_at": "2026-05-01"}, {"cron": "*/10 * * * *"}], ids=str
)
def test_schedules(connection: Session, clock: Clock, missed: str, rule: dict[str, str]) -> None:
    """Go on with the next tick from now; the one that was written ahead is not written again."""
    clock.set_to("2026-05-01 12:00:30+00")
    queue = new_queue(connection)
    name = new_schedule(connection, queue=queue, missed=missed, **rule)
    other = new_schedule(connection, queue=queue, missed=missed, cron="0 12 * * *")
    with a_day_ahead(clock):
        assert due_ticks(connection, name) == ["2026-05-02 12:00"]
    assert times([state(connection, name).next_at]) == ["2026-05-02 12:10"]
    assert repaired(connection) == {"schedules set back": 1}
    assert times([state(connection, name).next_at]) == ["2026-05-01 12:10"]
    assert times([state(connection, other).next_at]) == ["2026-05-03 12:00"]
    clock.advance("10 minutes")
    assert due_ticks(connection, name) == ["2026-05-01 12:10"]
    for _ in range(150):
        clock.advance("10 minutes")
        connection.run_schedules()
    connection.repair_clock()
    ticks = written(connection, queue)
    assert ticks.count("2026-05-02 12:00") == 2  # of each schedule one
    assert len(ticks) == 152


def test_a_schedule_that_missed_nothing(connection: Session, clock: Clock) -> None:
    """Its ticks were all written ahead: none is written again."""
    clock.set_to("2026-05-01 12:00:30+00")
    queue = new_queue(connection)
    name = new_schedule(connection, queue=queue, cron="0 * * * *", missed="all")
    with a_day_ahead(clock):
        assert len(due_ticks(connection, name)) == 24
    assert repaired(connection) == {}
    assert times([state(connection, name).next_at]) == ["2026-05-02 13:00"]
    # its jobs are due one after the other
    clock.advance("2 hours")
    assert repaired(connection) == {"jobs set back": 2}
    assert written(connection, queue) == ["2026-05-01 13:00", "2026-05-01 14:00"]


def test_a_schedule_that_failed_or_was_made_ahead(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection)
    failing = new_schedule(connection, queue=queue, every="1 hour", missed="all")
    connection.drop_queue(queue=queue)
    kept = new_queue(connection)
    with a_day_ahead(clock):
        [run] = connection.run_schedules()
        assert run.error is not None
        made = new_schedule(connection, queue=kept, every="1 hour")
        later = new_schedule(connection, queue=kept, every="1 hour", starts_at="2100-01-01")
    connection.create_queue(queue=queue)
    assert repaired(connection) == {"schedules set back": 2}
    clock.advance("1 hour 1 second")
    assert {run.schedule for run in connection.run_schedules()} == {failing, made}
    assert state(connection, later).next_at.year == 2100


def test_workers(connection: Session, clock: Clock) -> None:
    connection.heartbeat(worker="right")
    with a_day_ahead(clock):
        connection.heartbeat(worker="ahead")
    assert repaired(connection) == {"workers set back": 1}
    [seen] = row(connection, "select max(last_seen_at) <= pgq._clock() from pgq.worker")
    assert seen


def test_a_call_is_bounded(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection)
    with a_day_ahead(clock):
        enqueue_many(connection, queue, 5)
    done = [connection.repair_clock(max_rows=2) for _ in range(4)]
    assert [[(a.action, a.amount) for a in d if a.action != "floor lowered"] for d in done] == [
        [("jobs set back", 2), ("more", 1)],
        [("jobs set back", 2), ("more", 1)],
        [("jobs set back", 1)],
        [],
    ]


def test_what_others_hold_is_left(connection: Session, connect: Connect, clock: Clock) -> None:
    """It waits for no job and no group, says that there is more, and is undone by a rollback."""
    queue, topic = new_queue(connection), new_topic(connection, messages=1)
    with a_day_ahead(clock):
        job_id = enqueue(connection, queue, 1)
        connection.poll(topic=topic, consumer_group="readers", lease="1 minute")
    other = connect()
    with other.transaction(force_rollback=True):
        assert other.cancel_job(job_id=job_id)
        other.execute("select from pgq.group_partition for no key update")
        assert [action.action for action in connection.repair_clock()] == ["more"]
    with other.transaction(force_rollback=True):
        assert [action.action for action in other.repair_clock()][:2] == [
            "leases cut",
            "jobs set back",
        ]
    assert claim(connection, queue) == []
    assert repaired(connection) == {"jobs set back": 1, "leases cut": 1}
    assert claim_one(connection, queue).job_id == job_id


def test_beside_a_worker_that_ends_its_job(
    connection: Session, connect: Connect, clock: Clock
) -> None:
    queue = new_queue(connection)
    enqueue(connection, queue, 1)
    with a_day_ahead(clock):
        job = claim_one(connection, queue)
    other = connect()
    with other.transaction():
        other.repair_clock()
        done = blocked(other, connection, lambda: ack(connection, job))
    assert done.result(10)
    assert row(connection, "select count(*) from pgq.job") == (0,)


def test_bad_arguments(connection: Session, connect: Connect) -> None:
    for options in ({"max_rows": 0}, {"max_rows": 100001}, {"longest_lease": "0"}):
        refused("22023", connection.repair_clock, **options)
    for level in ("repeatable read", "serializable"):
        refused("25001", connect(isolation_level=level).repair_clock)


def test_only_admins_of_all(connection: Session) -> None:
    connection.execute("create role pgq_test_repairer")
    try:
        connection.execute("grant usage on schema pgq to pgq_test_repairer")
        connection.execute("grant execute on all functions in schema pgq to pgq_test_repairer")
        connection.execute("set role pgq_test_repairer")
        refused("42501", connection.repair_clock)
        connection.execute("reset role")
        for target in ("topic", "queue"):
            connection.grant_access(role="pgq_test_repairer", access="admin", **{target: "*"})
        connection.execute("set role pgq_test_repairer")
        assert connection.repair_clock() == []
    finally:
        connection.execute("reset role")
        connection.execute("drop owned by pgq_test_repairer")
        connection.execute("drop role pgq_test_repairer")
