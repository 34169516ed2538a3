"""alter_topic: settings change, messages and positions stay."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from support.log import committed_offsets, new_topic, offsets
from support.session import Session, new_name, refused, unchanged


def test_null_keeps(log: Session) -> None:
    """What is not given stays; created_at stays, updated_at moves."""
    topic = new_name("topic")
    made = log.create_topic(topic=topic, partitions=2, retention="3 days", max_bytes=10**7)
    altered = log.alter_topic(topic=topic)
    assert altered[:6] == made[:6]
    assert altered.updated_at > made.updated_at


def test_each_setting(log: Session) -> None:
    """Retention, size limit and notifications change one by one."""
    topic = new_topic(log)
    assert log.alter_topic(topic=topic, retention="1 hour").retention == timedelta(hours=1)
    assert log.alter_topic(topic=topic, max_bytes=10**6).max_bytes == 10**6
    assert log.alter_topic(topic=topic, notify=True).notify
    assert log.alter_topic(topic=topic)[1:5] == (1, timedelta(hours=1), 10**6, True)


def test_no_limit_lifts(log: Session) -> None:
    """Since null keeps, a limit is lifted by its name."""
    topic = new_name("topic")
    log.create_topic(topic=topic, max_bytes=10**6)
    assert log.alter_topic(topic=topic, no_limit=["max_bytes"])[2:4] == (timedelta(days=7), None)
    assert log.alter_topic(topic=topic, no_limit=["retention"]).retention is None
    assert log.alter_topic(topic=topic, no_limit=[]).retention is None


def test_messages_from_before_are_read_on(log: Session) -> None:
    """A new retention writes elsewhere; offsets go on and old messages are read as before."""
    topic = new_topic(log, messages=3)
    log.alter_topic(topic=topic, retention="2 days", max_bytes=10**7)
    assert log.publish(topic=topic, payload=4) == (0, 4, False)
    refused("22023", log.alter_topic, topic=topic, no_limit=[["retention"], ["max_bytes"]])
    log.alter_topic(topic=topic, no_limit=["retention", "max_bytes"])
    assert log.publish_batch(topic=topic, payloads=[5, 6]) == [(0, 5, 6, False)]
    rows = log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=6)
    assert [row.payload for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row.published_at for row in rows] == sorted(row.published_at for row in rows)
    assert offsets(log.consume(topic=topic, consumer_group="readers", max_messages=5)) == [
        1,
        2,
        3,
        4,
        5,
    ]
    assert offsets(log.poll(topic=topic, consumer_group="readers")) == [6]


def test_partitions_grow(log: Session) -> None:
    """New partitions are empty, take messages, and every group reads them from the start."""
    topic = new_topic(log, messages=2, groups=("a", "b"))
    log.consume(topic=topic, consumer_group="a")
    assert log.alter_topic(topic=topic, partitions=3).partitions == 3
    assert log.publish(topic=topic, payload=1, partition=2) == (2, 1, False)
    assert committed_offsets(log, topic, "a") == [2, 0, 0]
    assert committed_offsets(log, topic, "b") == [0, 0, 0]
    (message,) = log.consume(topic=topic, consumer_group="a")
    assert (message.partition, message.log_offset) == (2, 1)


def test_twice_in_one_transaction(log: Session) -> None:
    """The second call sees the first."""
    topic = new_topic(log)
    with log.transaction():
        assert log.alter_topic(topic=topic, partitions=2).partitions == 2
        assert log.alter_topic(topic=topic, partitions=4, notify=True)[1] == 4
        assert log.publish(topic=topic, payload=1, partition=3) == (3, 1, False)


def test_refusals(log: Session) -> None:
    """Unknown topic, fewer partitions, bad settings, unknown limits: an error and no change."""
    topic = new_topic(log, partitions=2)
    with unchanged(log):
        refused("MQ001", log.alter_topic, topic="no-such-topic", partitions=4)
        refused("MQ001", log.alter_topic, topic="it's")
        refused("22004", log.alter_topic, topic=None)
        for number in (1, 0, -1, 1025, 2**31 - 1):
            refused("22023", log.alter_topic, topic=topic, partitions=number)
        for length in ("0", "-1 day", "36501 days"):
            refused("22023", log.alter_topic, topic=topic, retention=length)
        for size in (0, -1):
            refused("22023", log.alter_topic, topic=topic, max_bytes=size)
        for names in (["partitions"], ["retention", "notify"], [None], [""]):
            refused("22023", log.alter_topic, topic=topic, no_limit=names)
        lifted: dict[str, Any] = {"no_limit": ["retention", "max_bytes"]}
        refused("22023", log.alter_topic, topic=topic, retention="3 days", **lifted)
        refused("22023", log.alter_topic, topic=topic, max_bytes=10**6, **lifted)


def test_a_retention_that_is_changed_and_changed_back(log: Session) -> None:
    """Messages that stand in several places are read in one go, in order."""
    topic = new_topic(log, groups=("a", "b"))
    for number, retention in enumerate(["7 days", "9 days", "7 days", "9 days", "7 days"]):
        log.alter_topic(topic=topic, retention=retention)
        log.publish_batch(topic=topic, payloads=[2 * number + 1, 2 * number + 2])
    expected = list(range(1, 11))
    rows = log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=10)
    assert offsets(rows) == [row.payload for row in rows] == expected
    for first in expected:
        found = log.fetch_range(topic=topic, partition=0, first_offset=first, last_offset=first)
        assert [row.payload for row in found] == [first]
    for row in rows[::2]:
        (place,) = log.seek(topic=topic, consumer_group="b", published_at=row.published_at)
        assert place == (0, row.log_offset)
    log.seek(topic=topic, consumer_group="b", start="earliest")
    seen = []
    while part := log.consume(topic=topic, consumer_group="a", max_messages=3):
        assert offsets(log.fetch(topic=topic, consumer_group="b", max_messages=3)) == offsets(part)
        log.commit_offset(
            topic=topic, consumer_group="b", partition=0, committed_offset=part[-1].log_offset
        )
        seen += offsets(part)
    assert seen == expected
