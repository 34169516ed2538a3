"""topic_stats: what each partition holds, and how much came in lately."""

from __future__ import annotations

from typing import Any

from support.clock import Clock
from support.log import new_topic
from support.session import Session


def stats(log: Session, topic: str) -> list[Any]:
    """The figures of a topic, in order."""
    return log.execute(
        "select partition, first_offset, last_offset, messages, published_last_minute"
        " from pgq.topic_stats where topic = %s order by 1",
        [topic],
    ).fetchall()


def test_depth_of_each_partition(log: Session) -> None:
    """Empty and filled ones; consumption changes nothing."""
    topic = new_topic(log, partitions=2)
    assert stats(log, topic) == [(0, 1, 0, 0, 0), (1, 1, 0, 0, 0)]
    log.publish_batch(topic=topic, payloads=[1, 2, 3], partition=1)
    log.consume(topic=topic, consumer_group="readers")
    assert stats(log, topic) == [(0, 1, 0, 0, 0), (1, 1, 3, 3, 3)]


def test_throughput_of_the_last_minute(log: Session, shared_clock: Clock) -> None:
    """What is older than a minute is not counted."""
    topic = new_topic(log, messages=4)
    shared_clock.advance("50 seconds")
    log.publish(topic=topic, payload=5)
    assert stats(log, topic) == [(0, 1, 5, 5, 5)]
    shared_clock.advance("20 seconds")
    assert stats(log, topic) == [(0, 1, 5, 5, 1)]
    shared_clock.advance("1 hour")
    assert stats(log, topic) == [(0, 1, 5, 5, 0)]
