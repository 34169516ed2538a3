"""cleanup: what it removes, what it leaves alone, and whom it waits for."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, contents, refused, row
from support.waiting import aside, wait_until


def archived(connection: Session, queue: str) -> list[tuple[Any, ...]]:
    return connection.execute(
        "select payload, outcome, attempt from pgq.archived_jobs where queue = %s order by job_id",
        [queue],
    ).fetchall()


def test_nothing_to_do(connection: Session) -> None:
    assert connection.cleanup() == []
    queue = new_queue(connection)
    enqueue_many(connection, queue, 3)
    claim(connection, queue)
    before = contents(connection)
    assert connection.cleanup() == []
    after = contents(connection)
    # where claims begin may be noted anew at any time
    del before["queue_floor"], after["queue_floor"]
    assert after == before


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_other_isolation_levels_are_refused(connect: Connect, level: str) -> None:
    """Such a snapshot does not see what others have done meanwhile."""
    session = connect(isolation_level=level)
    error = refused("25001", session.cleanup)
    assert error.diag.message_hint


def test_finished_jobs_go_with_their_time(connection: Session, clock: Clock) -> None:
    """Without anyone asking for it: acked, archived and expired ones."""
    queue = new_queue(connection, job_ttl="3 days", retention="3 days")
    enqueue_many(connection, queue, 3)
    first, second = claim(connection, queue, 2)
    connection.ack(job_id=first.job_id, lease_token=first.lease_token)
    connection.archive_job(job_id=second.job_id, lease_token=second.lease_token)
    clock.advance(timedelta(days=3, seconds=-1))
    connection.cleanup()
    assert len(archived(connection, queue)) == 2
    for _ in range(5):
        clock.advance("1 day")
        connection.cleanup()
    assert archived(connection, queue) == []
    assert row(connection, "select count(*) from pgq.message where partition_id > 0") == (0,)
    assert row(connection, "select count(*) from pgq.job_archive") == (0,)


def test_a_part_that_is_busy(connect: Connect, connection: Session, clock: Clock) -> None:
    """It says so after a moment, has done nothing by half, and does not keep the others."""
    queue = new_queue(connection, max_attempts=1, job_ttl="3 hours", retention="3 hours")
    enqueue_many(connection, queue, 2)
    job = claim_one(connection, queue)
    connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    session = connect()
    session.execute("lock table pgq.dead_job in share mode")
    clock.advance("4 hours")
    begun = time.monotonic()
    found = connection.cleanup()
    assert time.monotonic() - begun < 5
    assert [(action, target) for action, target, _ in found] == [
        ("busy", "jobs"),
        ("segment sealed", found[1][1]),
    ]
    assert stats(connection, queue) == {"expired": 1, "dead": 1}
    session.rollback()
    found = connection.cleanup()
    assert ("jobs expired", queue, 1) in found
    assert ("dead letters removed", queue, 1) in found
    # its patience is its own
    assert row(connection, "show lock_timeout") == ("0",)


def test_twice_in_one_transaction_and_rolled_back(connect: Connect, clock: Clock) -> None:
    session = connect()
    queue = new_queue(session, job_ttl="3 hours", retention="3 hours")
    enqueue(session, queue)
    session.commit()
    clock.advance("4 hours")
    assert [action for action, _, _ in session.cleanup()] == ["jobs expired", "segment sealed"]
    assert session.cleanup() == []
    session.rollback()
    assert stats(session, queue) == {"expired": 1}
    session.commit()
    assert [action for action, _, _ in session.cleanup()] == ["jobs expired", "segment sealed"]


def test_several_at_once(connect: Connect, connection: Session, clock: Clock) -> None:
    """Nothing is done twice and nothing is lost, whoever is faster."""
    queues = [
        new_queue(connection, job_ttl=hours, retention=hours, max_attempts=1)
        for hours in ("3 hours", "6 hours", "9 hours")
    ]
    for queue in queues:
        enqueue_many(connection, queue, 30)
        claim(connection, queue, 10)
    stays = new_queue(connection, no_limit=["job_ttl", "retention"])
    enqueue_many(connection, stays, 30)
    sessions = [connect(autocommit=True) for _ in range(4)]
    done: list[tuple[str, str, int]] = []
    with ThreadPoolExecutor(4) as pool:
        for _ in range(6):
            clock.advance("2 hours")
            for future in [pool.submit(session.cleanup) for session in sessions]:
                done += future.result()
    while found := connection.cleanup():
        done += found
    for queue in queues:
        ended = sum(n for action, name, n in done if name == queue and action != "floor lowered")
        # the dead are noted when they die and when they go
        assert ended == 40
    assert [job.payload for job in claim(connection, stays, 100)] == list(range(30))


def test_while_all_are_at_work(connect: Connect, connection: Session, clock: Clock) -> None:
    """Time flies, segments come and go, and no message and no job is lost or seen twice."""
    step, retention = timedelta(days=4), timedelta(days=12)
    connection.create_topic(topic="events", partitions=3, retention=retention)
    connection.create_group(topic="events", consumer_group="readers")
    queue = new_queue(
        connection,
        lease="30 days",
        job_ttl=retention,
        retention=retention,
        no_limit=["max_attempts"],
    )
    published: list[tuple[int, int]] = []
    consumed: list[tuple[int, int]] = []
    enqueued: list[int] = []
    acked: list[int] = []
    quota = 0
    stop = threading.Event()

    def publish() -> None:
        session, chance = connect(), random.Random(1)
        while not stop.is_set():
            if len(published) >= quota:
                time.sleep(0.002)
                continue
            ranges = session.publish_batch(
                topic="events",
                payloads=[Jsonb(n) for n in range(5)],
                keys=[str(chance.randrange(50)) for _ in range(5)],
            )
            session.commit()
            published.extend(
                (partition, offset)
                for partition, first, last, _ in ranges
                for offset in range(first, last + 1)
            )

    def consume() -> None:
        session = connect()
        while not stop.is_set():
            options = {"topic": "events", "consumer_group": "readers", "max_messages": 7}
            found = session.consume(**options)
            session.commit()
            consumed.extend((message[0], message[1]) for message in found)

    def produce() -> None:
        session = connect(autocommit=True)
        while not stop.is_set():
            if len(enqueued) >= quota:
                time.sleep(0.002)
                continue
            enqueued.append(enqueue(session, queue, {"n": len(enqueued)}))

    def work() -> None:
        session, chance = connect(autocommit=True), random.Random(2)
        while not stop.is_set():
            for job in claim(session, queue, 3):
                assert job.payload is not None
                end = "ack" if chance.random() < 0.8 else "nack"
                options = {} if end == "ack" else {"delay": "0"}
                arguments = {"job_id": job.job_id, "lease_token": job.lease_token, **options}
                assert session.call(end, **arguments)
                if end == "ack":
                    acked.append(job.job_id)

    threads = [aside(job) for job in (publish, consume, consume, produce, work, work)]
    done: list[str] = []

    def over() -> bool:
        counts = len(published), len(consumed), len(enqueued), len(acked)
        return min(counts) >= quota or any(thread.done() for thread in threads)

    try:
        for _ in range(20):
            quota += 30
            clock.advance(step)
            done += [action for action, _, _ in connection.cleanup()]
            # nobody falls behind by more than a step, so that nothing expires
            wait_until(over, 30)
    finally:
        stop.set()
    for thread in threads:
        thread.result(30)
    assert done.count("segment truncated") >= 2
    assert sorted(consumed) == sorted(published)
    last_offsets = connection.execute(
        "select partition, last_offset from pgq.topic_stats"
    ).fetchall()
    assert sorted(published) == sorted(
        (partition, offset) for partition, last in last_offsets for offset in range(1, last + 1)
    )
    assert sorted(acked) == sorted(enqueued)
    assert stats(connection, queue) == {}


def test_it_is_for_those_who_may(connection: Session) -> None:
    """Nobody may call it until the owner grants it."""
    connection.execute("drop role if exists pgq_test_guest")
    connection.execute("create role pgq_test_guest")
    connection.execute("grant usage on schema pgq to pgq_test_guest")
    try:
        connection.execute("set role pgq_test_guest")
        refused("42501", connection.cleanup)
        connection.execute("reset role")
        connection.execute("grant execute on function pgq.cleanup() to pgq_test_guest")
        connection.execute("set role pgq_test_guest")
        assert connection.cleanup() == []
    finally:
        connection.execute("reset role")
        connection.execute("drop owned by pgq_test_guest")
        connection.execute("drop role pgq_test_guest")
