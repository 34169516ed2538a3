"""Publishers above READ COMMITTED whose snapshot misses a commit, on the way to a new segment.

A unique index per leaf says nothing about another leaf: what protects the offsets there has to be
something that both transactions touch.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.errors import SerializationFailure

from support.bulk import begin, numbers, stage
from support.clock import Clock
from support.log import new_topic, offsets
from support.session import Connect, Session
from support.snapshots import LEVELS, old_session
from support.storage import clean, ranges, seal
from support.waiting import PATIENCE, started

LONG = timedelta(days=100)

WAYS = [
    "publish",
    "publish by key",
    "publish_batch",
    "publish_batch by key",
    "write_chunk",
    "write_chunk by key",
]
CHANGES = ["sealed", "altered", "altered itself", "entered by another"]


@pytest.fixture
def log(connection: psycopg.Connection[Any]) -> Session:
    """The log in a database of the test's own: cleanup is called in it."""
    return connection


def writer(log: Session, session: Session, topic: str, way: str) -> Callable[[], Any]:
    """One of the ways to write the message 3 in the session; a bulk write is begun for it."""
    function, keyed = way.split()[0], way.endswith("key")
    if function == "write_chunk":
        write_id = begin(log, topic=topic, atomic=False, timeout=LONG)
        client = session
        return lambda: stage(
            client, write_id, numbers(3, 3), json=True, keys=["k"] if keyed else None
        )
    if function == "publish":
        return lambda: session.publish(topic=topic, payload=3, key="k" if keyed else None)
    return lambda: session.publish_batch(topic=topic, payloads=[3], keys=["k"] if keyed else None)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("waits", [False, True], ids=["at once", "after a wait"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", WAYS)
def test_the_tip_that_a_snapshot_misses_is_not_given_out_again(
    connect: Connect, log: Session, clock: Clock, way: str, change: str, waits: bool, level: str
) -> None:
    """Another publisher commits to the segment that is being left: whoever does not see it gets
    40001, and a new transaction goes on behind it."""
    topic = new_topic(log, messages=1)
    other, late = connect(), connect(isolation_level=level)
    write = writer(log, late, topic, way)
    if change in ("sealed", "altered"):
        other.publish(topic=topic, payload=2)
    if change in ("sealed", "entered by another"):
        seal(log, clock, "3 days")
    elif change == "altered":
        log.alter_topic(topic=topic, retention="3 days")
    late.execute("select 1")
    if change not in ("sealed", "altered"):
        other.publish(topic=topic, payload=2)

    def work() -> Any:
        if change == "altered itself":
            late.alter_topic(topic=topic, retention="3 days")
        return write()

    if not waits:
        other.commit()
    attempt = started(log, late, work)
    other.commit()
    with pytest.raises(SerializationFailure):
        attempt.result(PATIENCE)
    late.rollback()

    work()
    late.commit()
    log.publish(topic=topic, payload=4)
    assert ranges(log, topic) == [(1, 4)]
    rows = log.consume(topic=topic, consumer_group="readers")
    assert [(row.log_offset, row.payload) for row in rows] == [(n, n) for n in range(1, 5)]


@pytest.mark.parametrize("level", LEVELS)
def test_a_snapshot_that_misses_nothing_goes_on(
    connect: Connect, log: Session, clock: Clock, level: str
) -> None:
    """Into a new segment, and once more in the same transaction."""
    session = connect(isolation_level=level)
    topics = [new_topic(log, messages=2) for _ in WAYS]
    writers = [writer(log, session, topic, way) for topic, way in zip(topics, WAYS, strict=True)]
    seal(log, clock, "3 days")
    for topic, write in zip(topics, writers, strict=True):
        write()
        session.publish(topic=topic, payload=4)
        session.commit()
        rows = log.consume(topic=topic, consumer_group="readers")
        assert [(row.log_offset, row.payload) for row in rows] == [(n, n) for n in range(1, 5)]


@pytest.mark.parametrize("level", LEVELS)
def test_a_segment_that_is_used_again_by_others(
    connect: Connect, log: Session, clock: Clock, level: str
) -> None:
    """The leaf that an old snapshot names was emptied since, and perhaps is another class's now."""
    topics = [new_topic(log, messages=2) for _ in WAYS]
    sessions = [connect(isolation_level=level) for _ in WAYS]
    writers = [
        writer(log, session, topic, way)
        for session, topic, way in zip(sessions, topics, WAYS, strict=True)
    ]
    for session in sessions:
        session.execute("select 1")
    for _ in range(2):
        clock.advance("8 days")
        clean(log)
    taken = new_topic(log, groups=())
    log.alter_topic(topic=taken, retention="400 days")
    log.publish(topic=taken, payload=0)
    for session, topic, write in zip(sessions, topics, writers, strict=True):
        log.publish(topic=topic, payload=3)
        with pytest.raises(SerializationFailure):
            write()
        session.rollback()
        write()
        session.commit()
        assert ranges(log, topic) == [(3, 4)]
    assert ranges(log, taken) == [(1, 1)]


@pytest.mark.parametrize("level", LEVELS)
def test_a_batch_is_written_to_all_its_partitions_or_to_none(
    connect: Connect, log: Session, clock: Clock, level: str
) -> None:
    """One of the partitions has a message that the snapshot misses: the others get nothing."""
    topic = new_topic(log, partitions=8, messages=1)
    other = connect()
    other.publish(topic=topic, payload=2, key="a")
    seal(log, clock, "3 days")
    late = old_session(connect, level)
    other.commit()
    keys = [f"{letter}" for letter in "abcdefghijkl"]
    with pytest.raises(SerializationFailure), late.transaction():
        late.publish_batch(topic=topic, payloads=[3] * len(keys), keys=keys)
    late.commit()
    counts = [last for _, last in ranges(log, topic)]
    assert sorted(counts) == [1] * 7 + [2]
    late.publish_batch(topic=topic, payloads=[3] * len(keys), keys=keys)
    late.commit()
    for partition, (first, last) in enumerate(ranges(log, topic)):
        rows = log.fetch_range(
            topic=topic, partition=partition, first_offset=first, last_offset=last
        )
        assert offsets(rows) == list(range(1, last + 1))
