"""Long transactions in one class of storage do not keep the segments of another one.

With real threads and the real clock: eight workers whose transactions overlap, so that there is
always one open, and beside them a class that is kept for three seconds only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from support.session import Connect, Session
from support.waiting import aside, wait_until

WORK = "select pg_sleep(1)"
"""What a worker does in its transaction between taking messages and committing."""

WAYS = [
    "select * from pgq.consume('long', 'readers', 10)",
    "select * from pgq.consume('long', 'readers', 10)",
    "select * from pgq.consume('long', 'readers', 10)",
    "select pgq.publish('long', '1')",
    "select * from pgq.publish_batch('long', array['1', '2']::jsonb[], keys => array['a', 'b'])",
    "select pgq.enqueue('long', '1')",
    "select pgq.ack(job_id, lease_token) from pgq.claim_job('long')",
    "select pgq.ack(job_id, lease_token) from pgq.claim_job('long', 5)",
]


@pytest.fixture
def log(connection: psycopg.Connection[Any]) -> Session:
    """A class for the workers, and one that keeps for three seconds."""
    connection.execute(
        "select pgq.create_topic('long', partitions => 16), pgq.create_group('long', 'readers'),"
        " pgq.create_queue('long', retention => '7 days'),"
        " pgq.create_topic('short', partitions => 2, retention => '3 seconds')"
    )
    connection.execute("select pgq.publish('long', to_jsonb(n)) from generate_series(1, 500) as n")
    connection.execute("select pgq.enqueue('long', to_jsonb(n)) from generate_series(1, 500) as n")
    return connection


@contextmanager
def at_work(connect: Connect) -> Iterator[None]:
    """Eight workers, begun one after the other within a second, until the block ends."""
    end = threading.Event()

    def work(session: psycopg.Connection[Any], way: str, number: int) -> None:
        session.execute("select pg_sleep(%s)", [number / len(WAYS)])
        session.commit()
        while not end.is_set():
            session.execute(way.encode())
            session.execute(WORK)
            session.commit()

    def start(way: str, number: int) -> Future[None]:
        session = connect()
        return aside(lambda: work(session, way, number))

    workers = [start(way, number) for number, way in enumerate(WAYS)]
    try:
        yield
    finally:
        end.set()
        for worker in workers:
            worker.result(30)


def short_segments(log: Session) -> list[float]:
    """For how many seconds each segment of the short class has been in use, the oldest first."""
    rows = log.execute(
        "select date_part('epoch', clock_timestamp() - s.opened_at)"
        " from pgq.segment as s inner join pgq.storage_class as c using (storage_class_id)"
        " where c.retention = '3 seconds' order by s.opened_at"
    ).fetchall()
    return [age for (age,) in rows]


def clean(log: Session) -> None:
    """Call cleanup, as often as someone with such a retention would."""
    log.cleanup()
    log.execute("select pg_sleep(0.1)")


@pytest.mark.slow
def test_a_burst_goes_when_its_time_has_come(connect: Connect, log: Session) -> None:
    """Sealed after a second, closed when those have ended who were at work, gone after three."""
    with at_work(connect):
        log.publish_batch(topic="short", payloads=[0] * 100, partition=1)

        def gone() -> bool:
            clean(log)
            [_, place] = log.list_offsets(topic="short")
            return bool(place.first_offset == 101)

        wait_until(gone, 15, "for the messages to go")
        assert len(short_segments(log)) <= 2
        for _ in range(10):
            clean(log)
            assert len(short_segments(log)) <= 2


@pytest.mark.slow
def test_steady_publishing_keeps_to_few_segments(connect: Connect, log: Session) -> None:
    """Each segment goes some seconds after its retention; none is left behind.

    A new one comes every second; each is open for one, waits up to two for those at work to end,
    and is kept for three.
    """
    counts, ages = [], []
    with at_work(connect):
        until = time.monotonic() + 15
        while time.monotonic() < until:
            log.publish(topic="short", payload=1, partition=0)
            clean(log)
            found = short_segments(log)
            counts.append(len(found))
            ages.append(found[0])
    assert max(counts) <= 8
    assert max(ages) <= 10
