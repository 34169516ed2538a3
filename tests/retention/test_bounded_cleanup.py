"""What one call of cleanup does at most, and who waits for it meanwhile: nobody for long.

The tests hold the transaction in which cleanup has done its work open, so that all of its locks
are there to be met.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.errors import LockNotAvailable

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, new_queue
from support.session import Connect, Session, new_name, row
from support.storage import actions, clean, seal

BATCH = 1000
"""Partitions that one call leads to a new segment at most."""

JOBS = 10_000
"""Payloads that one call carries to a new segment at most."""

POSITIONS = 20_000
"""Rows of the journals of positions that one call removes at most."""


@pytest.fixture
def log(connection: psycopg.Connection[Any]) -> Session:
    """The log in the database of this folder."""
    return connection


@pytest.fixture
def patient(connect: Connect) -> Session:
    """A session that gives up when it has to wait for a lock."""
    session = connect(autocommit=True)
    session.execute("set lock_timeout = '1s'")
    return session


def until_done(log: Session) -> list[list[str]]:
    """Call cleanup for as long as it says that there is more; what each call did."""
    calls = [actions(log)]
    while "more" in calls[-1]:
        assert len(calls) < 100
        calls.append(actions(log))
    return calls


# ------------------------------------------------------------------------------- idle partitions


@pytest.fixture
def idle(log: Session, clock: Clock) -> list[str]:
    """Topics with many partitions that got no message since their segment was sealed."""
    topics = [new_name("topic") for _ in range(4)]
    for topic in topics:
        log.create_topic(topic=topic, partitions=1024, retention="9 hours")
    log.publish(topic=topics[0], payload=1, partition=7)
    seal(log, clock, "3 hours")
    return topics


def test_closing_goes_on_with_so_many_partitions_in_a_call(log: Session, idle: list[str]) -> None:
    """4096 of them take five calls at least; each but the last says that there is more."""
    calls = until_done(log)
    assert len(calls) >= 5
    assert all("more" in done for done in calls[:-1])
    assert [done.count("segment closed") for done in calls] == [0] * (len(calls) - 1) + [1]
    for partition in (0, 7, 1023):
        log.publish(topic=idle[0], payload=2, partition=partition)
    [*places] = log.list_offsets(topic=idle[0])
    assert [places[n].last_offset for n in (0, 7, 1023, 8)] == [1, 2, 1, 0]


def test_more_names_its_part(log: Session, idle: list[str]) -> None:
    """The row says where there is work left."""
    found = [report for report in log.cleanup() if report.action == "more"]
    assert len(found) == 1
    assert found[0].target


def test_publishers_find_free_partitions_beside_closing(
    connect: Connect, log: Session, patient: Session, idle: list[str]
) -> None:
    """One call locks no more than a batch: each of these topics has partitions to publish to."""
    cleaner = connect()
    cleaner.cleanup()
    for topic in idle:
        assert patient.publish(topic=topic, payload=1).log_offset == 1
        assert len(patient.publish_batch(topic=topic, payloads=[1, 2])) == 1


@pytest.mark.slow
def test_closing_locks_no_more_than_a_batch(
    connect: Connect, log: Session, patient: Session, idle: list[str]
) -> None:
    """Counted one by one, by publishing to every partition there is."""
    cleaner = connect()
    cleaner.cleanup()
    patient.execute("set lock_timeout = '1ms'")
    held = 0
    for topic in idle:
        for partition in range(1024):
            try:
                patient.publish(topic=topic, payload=1, partition=partition)
            except LockNotAvailable:
                held += 1
    assert held <= BATCH


# ------------------------------------------------------------------------------- living payloads


@pytest.fixture
def living(log: Session, clock: Clock) -> str:
    """A queue whose jobs are all at work while the time of their segment has come."""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=2, retention="9 hours")
    log.create_group(topic=topic, consumer_group="readers")
    log.publish(topic=topic, payload="1", partition=0)
    queue = new_queue(log, job_ttl="9 hours", retention="9 hours", lease="90 hours")
    log.execute(
        "select pgq.enqueue_batch(%s, array(select to_jsonb(n)"
        " from generate_series(1, %s::integer) as n))",
        [queue, 5 * JOBS // 2],
    )
    assert row(log, "select count(*) from pgq.claim_job(%s, 100000)", [queue]) == (5 * JOBS // 2,)
    seal(log, clock, "3 hours")
    clean(log)
    clock.advance("10 hours")
    return queue


def stored(log: Session) -> int:
    """How many different payloads of jobs there are."""
    return int(
        row(
            log,
            "select count(distinct (m.partition_id, m.log_offset))"
            " from pgq.message as m inner join pgq.job as j on j.job_id = m.log_offset"
            " and j.segment = m.segment",
        )[0]
    )


@pytest.mark.slow
def test_payloads_are_carried_so_many_in_a_call(log: Session, living: str) -> None:
    """No call carries more; the last one empties the segment, and every payload is there."""
    carried = []
    for _ in range(20):
        reports = log.cleanup()
        carried.append(sum(r.amount for r in reports if r.action == "payloads moved"))
        done = [r.action for r in reports]
        if "segment truncated" in done:
            break
        assert "more" in done
    assert "segment truncated" in done
    assert max(carried) <= JOBS
    assert sum(carried) == 5 * JOBS // 2
    assert stored(log) == 5 * JOBS // 2


def others(session: Session, topic: str, queue: str) -> dict[str, Callable[[], Any]]:
    """What others do with their topics and queues, some of which share the segment."""
    connection = session
    return {
        "publish": lambda: session.publish(topic=topic, payload=1),
        "publish_batch": lambda: session.publish_batch(topic=topic, payloads=[1], keys=["k"]),
        "consume": lambda: session.consume(topic=topic, consumer_group="readers"),
        "enqueue": lambda: enqueue(connection, queue, 1),
        "claim_job": lambda: claim(connection, queue),
        "claim and ack": lambda: session.execute(
            "select pgq.ack(job_id, lease_token) from pgq.claim_job(%s)", [queue]
        ),
    }


@pytest.mark.parametrize("retention", ["9 hours", "8 hours"], ids=["same class", "another class"])
def test_nobody_waits_while_payloads_are_carried(
    connect: Connect, log: Session, patient: Session, living: str, retention: str
) -> None:
    """Neither readers of the segment nor anybody else: the leaf is not locked against them."""
    topic, queue = new_name("topic"), new_queue(log, retention=retention)
    log.create_topic(topic=topic, partitions=2, retention=retention)
    log.create_group(topic=topic, consumer_group="readers")
    log.publish(topic=topic, payload=1)
    enqueue(log, queue, 1)
    enqueue(log, queue, 1)

    cleaner = connect()
    assert any(report.action == "payloads moved" for report in cleaner.cleanup())
    waited = []
    for name, work in others(patient, topic, queue).items():
        try:
            work()
        except LockNotAvailable:
            waited.append(name)
    assert waited == []


def test_a_reader_of_the_segment_does_not_wait_for_the_carrying(
    connect: Connect, log: Session, patient: Session, living: str
) -> None:
    """A group that is far behind reads the leaf from which payloads are carried."""
    [topic] = [topic.topic for topic in log.list_topics()]
    cleaner = connect()
    assert any(report.action == "payloads moved" for report in cleaner.cleanup())
    rows = patient.consume(topic=topic, consumer_group="readers")
    assert [message.log_offset for message in rows] == [1]


def test_a_worker_keeps_its_jobs_while_payloads_are_carried(log: Session, clock: Clock) -> None:
    """Between two calls some are acked, some die and some are redriven; nothing is lost."""
    queue = new_queue(log, job_ttl="9 hours", retention="9 hours", lease="90 hours", max_attempts=1)
    log.execute(
        "select pgq.enqueue_batch(%s, array(select to_jsonb(n)"
        " from generate_series(0, %s::integer) as n))",
        [queue, JOBS + 1],
    )
    jobs = claim(log, queue, 100_000)
    seal(log, clock, "3 hours")
    clean(log)
    clock.advance("10 hours")
    turns = 0
    acked, dead, redriven = jobs[0], jobs[1], jobs[JOBS]
    assert "more" in actions(log)
    for job, end in ((acked, "ack"), (dead, "nack"), (redriven, "nack")):
        assert log.call(end, job_id=job.job_id, lease_token=job.lease_token)
    assert log.redrive(queue=queue, job_id=redriven.job_id).taken == 1
    while "segment truncated" not in actions(log):
        turns += 1
        assert turns < 20
    assert claim_one(log, queue).payload == JOBS
    assert row(log, "select payload from pgq.dead_letters") == (1,)
    lost = row(
        log,
        "select count(*) from pgq.job as j where not exists (select from pgq.message as m"
        " where m.segment = j.segment and m.log_offset = j.job_id)",
    )
    assert lost == (0,)


# ------------------------------------------------------------------------------ old positions


@pytest.mark.parametrize("groups", [1, 2])
def test_positions_are_trimmed_so_many_in_a_call(log: Session, groups: int) -> None:
    """Also where one journal has more; the last thousand of each stay, and so does the position."""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=1)
    log.publish(topic=topic, payload=1)
    for number in range(groups):
        log.create_group(topic=topic, consumer_group=f"g{number}")
    log.execute(
        "insert into pgq.group_position"
        " (group_id, partition, seq, first_offset, next_offset, recorded_at)"
        " select l.group_id, l.partition, n, 1, 1, pgq._clock()"
        " from pgq.group_partition as l, generate_series(2, %s::integer) as n",
        [5 * POSITIONS // 2 + 1000],
    )
    trimmed = []
    for _ in range(20):
        reports = log.cleanup()
        trimmed.append(sum(r.amount for r in reports if r.action == "positions trimmed"))
        if "more" not in [r.action for r in reports]:
            break
    assert max(trimmed) == POSITIONS
    assert sum(trimmed) == groups * (5 * POSITIONS // 2 - 1)
    assert row(log, "select count(*), min(seq) from pgq.group_position") == (
        groups * 1001,
        5 * POSITIONS // 2,
    )
    assert [row.log_offset for row in log.consume(topic=topic, consumer_group="g0")] == [1]
