"""list_offsets: what each partition has, and where a time is in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.log import new_topic
from support.session import Session, refused, unchanged


def test_each_partition_in_order(log: Session) -> None:
    """From the first to the last offset; an empty one ends before it begins."""
    topic = new_topic(log, partitions=3)
    log.publish_batch(topic=topic, payloads=[1, 2, 3], partition=1)
    log.publish(topic=topic, payload=1, partition=2)
    assert log.list_offsets(topic=topic) == [(0, 1, 0, None), (1, 1, 3, None), (2, 1, 1, None)]
    assert log.list_offsets(topic=topic, published_at=None) == log.list_offsets(topic=topic)
    columns = log.list_offsets(topic=topic)[0]._fields
    assert columns == ("partition", "first_offset", "last_offset", "log_offset")


def test_the_place_of_a_time(log: Session, shared_clock: Clock) -> None:
    """The first message published then or later, or the next one."""
    topic = new_topic(log, partitions=2)
    for _ in range(4):
        log.publish(topic=topic, payload=1, partition=0)
        shared_clock.advance("1 hour")
    times = [
        row.published_at
        for row in log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=4)
    ]
    instant = timedelta(microseconds=1)

    def places(moment: datetime) -> list[int]:
        return [row.log_offset for row in log.list_offsets(topic=topic, published_at=moment)]

    for number, moment in enumerate(times, 1):
        assert places(moment - instant) == [number, 1]
        assert places(moment) == [number, 1]
        assert places(moment + instant) == [number + 1, 1]
    assert places(datetime(1, 1, 1, tzinfo=timezone.utc)) == [1, 1]
    assert places(datetime(9999, 1, 1, tzinfo=timezone.utc)) == [5, 1]


def test_only_what_is_committed(log: Session, shared_connect: Callable[..., Session]) -> None:
    """Nothing of a publisher that is under way; of one's own transaction, yes."""
    topic = new_topic(log, messages=2)
    other = shared_connect()
    other.publish(topic=topic, payload=3)
    assert log.list_offsets(topic=topic) == [(0, 1, 2, None)]
    assert other.list_offsets(topic=topic) == [(0, 1, 3, None)]
    assert other.list_offsets(topic=topic) == [(0, 1, 3, None)]
    other.rollback()
    assert log.list_offsets(topic=topic) == [(0, 1, 2, None)]


def test_it_only_reads(log: Session) -> None:
    """In a read-only transaction too."""
    topic = new_topic(log, messages=2)
    with unchanged(log), log.transaction():
        log.execute("set transaction read only")
        assert log.list_offsets(topic=topic) == [(0, 1, 2, None)]


def test_after_retention(connection: psycopg.Connection[Any], clock: Clock) -> None:
    """The first offset is the first that is left; all gone, it is the next one."""
    log = connection
    topic, other = new_topic(log, messages=3), new_topic(log, messages=1)
    for move in ("3 days", "0", "8 days", "0"):
        clock.advance(move)
        log.cleanup()
        log.publish(topic=other, payload=0)
    assert log.list_offsets(topic=topic) == [(0, 4, 3, None)]
    assert log.list_offsets(topic=topic, published_at=datetime(1, 1, 1, tzinfo=timezone.utc)) == [
        (0, 4, 3, 4)
    ]
    log.publish(topic=topic, payload=4)
    assert log.list_offsets(topic=topic) == [(0, 4, 4, None)]


def test_refusals(log: Session) -> None:
    """No topic, or an unknown one."""
    refused("22004", log.list_offsets, topic=None)
    refused("MQ001", log.list_offsets, topic="no-such-topic")
    with pytest.raises(psycopg.errors.InvalidDatetimeFormat):
        log.list_offsets(topic=new_topic(log), published_at="yesterday evening")
