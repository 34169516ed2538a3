"""Publishers above READ COMMITTED: right, or told to try again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from support.log import WAYS_TO_PUBLISH, new_topic, newest, offsets, ways_to_publish
from support.session import Connect, Session, refused
from support.snapshots import LEVELS
from support.waiting import PATIENCE, aside, blocked


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", WAYS_TO_PUBLISH)
def test_an_old_snapshot_gets_40001(
    shared_connect: Connect, log: Session, way: str, level: str
) -> None:
    """Whoever published since the snapshot wins; the loser never gets a duplicate offset.

    On the next try it gets the next offset.
    """
    topic = new_topic(log, partitions=8)
    loser = shared_connect(isolation_level=level)
    write = ways_to_publish(loser, topic)[way]
    loser.execute("select 1")
    log.publish(topic=topic, payload=1, partition=0)
    refused("40001", write)
    loser.rollback()
    assert write()[:2] == (0, 2)
    loser.commit()
    assert newest(log, topic) == 2


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", ["publish", "publish_batch by key"])
def test_waiting_behind_a_publisher_with_a_snapshot(
    shared_connect: Connect, log: Session, way: str, level: str
) -> None:
    """The one that waited gets 40001 when the other commits, and its offset when it does not."""
    topic = new_topic(log, partitions=8)
    first, second = shared_connect(), shared_connect(isolation_level=level)
    write = ways_to_publish(second, topic)[way]

    first.publish(topic=topic, payload=1, partition=0)
    waiting = blocked(log, second, write)
    first.commit()
    with pytest.raises(psycopg.errors.SerializationFailure):
        waiting.result(PATIENCE)
    second.rollback()

    first.publish(topic=topic, payload=2, partition=0)
    waiting = blocked(log, second, write)
    first.rollback()
    assert waiting.result(PATIENCE)[:2] == (0, 2)
    second.commit()


@pytest.mark.parametrize("level", LEVELS)
def test_a_snapshot_older_than_the_segment(
    connect: Callable[..., psycopg.Connection[Any]], level: str
) -> None:
    """When the topic writes elsewhere by now, the old snapshot gets 40001 as well."""
    log, loser = connect(autocommit=True), connect(isolation_level=level)
    topic = new_topic(log, messages=3)
    loser.execute("select 1")
    log.alter_topic(topic=topic, retention="1 day")
    log.publish(topic=topic, payload=4)
    refused("40001", loser.publish, topic=topic, payload=5)
    loser.rollback()
    assert loser.publish(topic=topic, payload=5) == (0, 5, False)
    loser.commit()


@pytest.mark.parametrize("level", LEVELS)
def test_racing_publishers_that_try_again(
    shared_connect: Connect, log: Session, level: str
) -> None:
    """Three publishers with snapshots: each message is there once, the offsets have no gap."""
    topic = new_topic(log)
    each = 15

    def write(number: int) -> int:
        writer, failures = shared_connect(isolation_level=level), 0
        for n in range(each):
            while True:
                try:
                    if n % 2:
                        writer.publish(topic=topic, payload=number * 1000 + n)
                    else:
                        writer.publish_batch(topic=topic, payloads=[number * 1000 + n])
                    writer.commit()
                    break
                except psycopg.errors.SerializationFailure:
                    writer.rollback()
                    failures += 1
        return failures

    writers = [aside(lambda number=number: write(number)) for number in range(3)]
    for writer in writers:
        writer.result(PATIENCE)
    rows = log.fetch(topic=topic, consumer_group="readers")
    assert offsets(rows) == list(range(1, 3 * each + 1))
    assert sorted(row.payload for row in rows) == [
        number * 1000 + n for number in range(3) for n in range(each)
    ]
