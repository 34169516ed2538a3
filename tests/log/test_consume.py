"""consume: claim and fetch in one call."""

from __future__ import annotations

from typing import Any

import pytest

from support.log import committed_offsets, new_topic, offsets
from support.session import Session


def consume(log: Session, topic: str, **options: Any) -> list[Any]:
    """One call for the group readers."""
    rows: list[Any] = log.consume(topic=topic, consumer_group="readers", **options)
    return rows


def test_messages_come_in_order_and_once(log: Session) -> None:
    """Ascending from the position, at most the batch; consumption deletes no message."""
    topic = new_topic(log, messages=5)
    assert offsets(consume(log, topic, max_messages=3)) == [1, 2, 3]
    assert offsets(consume(log, topic, max_messages=3)) == [4, 5]
    assert consume(log, topic) == []
    assert len(log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=5)) == 5


def test_the_columns_are_those_of_fetch_range(log: Session) -> None:
    """The same rows as reading the claimed range."""
    topic = new_topic(log)
    log.publish(topic=topic, payload={"a": 1}, key="k", headers={"h": 1})
    log.publish(topic=topic, body=b"\x00")
    rows = consume(log, topic)
    assert rows == log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=2)
    assert rows[0]._fields == (
        "partition",
        "log_offset",
        "published_at",
        "key",
        "headers",
        "payload",
        "body",
        "cut_short",
    )


def test_one_message_has_all_columns(log: Session) -> None:
    """A single message, too, is what fetch_range returns."""
    topic = new_topic(log)
    log.publish(topic=topic, payload={"a": 1}, key="k", headers={"h": 1})
    log.publish(topic=topic, body=b"\x00")
    for number in (1, 2):
        rows = consume(log, topic, max_messages=1)
        assert rows == log.fetch_range(
            topic=topic, partition=0, first_offset=number, last_offset=number
        )
    assert consume(log, topic, max_messages=1) == []


def test_all_rows_are_of_one_partition(log: Session) -> None:
    """Each call reads one partition, each partition has its turn, each message comes once."""
    topic = new_topic(log, partitions=3, messages=4)
    calls = [consume(log, topic, max_messages=3) for _ in range(6)]
    assert all(len({row.partition for row in rows}) == 1 for rows in calls)
    places = sorted((row.partition, row.log_offset) for rows in calls for row in rows)
    assert places == [(partition, offset) for partition in range(3) for offset in range(1, 5)]


def test_rollback_gives_the_messages_back(log: Session) -> None:
    """Nothing was consumed when the transaction did not commit."""
    topic = new_topic(log, messages=2)
    with log.transaction(force_rollback=True):
        assert offsets(consume(log, topic)) == [1, 2]
    assert offsets(consume(log, topic)) == [1, 2]


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_twice_in_one_transaction(log: Session, level: str) -> None:
    """In every isolation level; and what the transaction published itself is read as well."""
    topic = new_topic(log, messages=3)
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        assert offsets(consume(log, topic, max_messages=2)) == [1, 2]
        assert offsets(consume(log, topic, max_messages=2)) == [3]
        log.publish_batch(topic=topic, payloads=[4, 5])
        assert offsets(consume(log, topic)) == [4, 5]
        assert consume(log, topic) == []
    assert committed_offsets(log, topic, "readers") == [5]


def test_effects_and_position_commit_together(log: Session) -> None:
    """A table filled in the same transaction has each message exactly once."""
    topic = new_topic(log, messages=5)
    log.execute("create temporary table seen (log_offset bigint primary key)")
    for number in range(8):
        with log.transaction(force_rollback=number % 2 == 0):
            for row in consume(log, topic, max_messages=2):
                log.execute("insert into seen values (%s)", [row.log_offset])
    seen = log.execute("select array_agg(log_offset order by log_offset) from seen").fetchone()
    log.execute("drop table seen")
    assert seen == ([1, 2, 3, 4, 5],)


def test_what_is_read_and_what_is_written_from_it_commit_together(log: Session) -> None:
    """Consume, change, publish to another topic in one transaction: each exactly once."""
    source, target = new_topic(log, messages=6), new_topic(log)
    for number in range(8):
        with log.transaction(force_rollback=number % 3 == 1):
            rows = consume(log, source, max_messages=2)
            log.publish_batch(topic=target, payloads=[row.payload * 10 for row in rows])
    assert [row.payload for row in consume(log, target)] == [10, 20, 30, 40, 50, 60]
