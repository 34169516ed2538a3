"""Deferred topics whose segments change while messages have no offsets yet: none is lost."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.session import Connect, Session, refused, row
from support.snapshots import LEVELS, old_session
from support.storage import actions, clean, seal, states


@pytest.fixture
def topic(connection: Session) -> str:
    """A deferred topic of one partition, with a group."""
    connection.create_topic(topic="t", partitions=1, retention="9 hours", deferred=True)
    connection.create_group(topic="t", consumer_group="readers")
    return "t"


def consumed(session: Session, topic: str) -> list[Any]:
    """The payloads that the group gets, in order."""
    rows = session.consume(topic=topic, consumer_group="readers", max_messages=1000)
    return [message.payload for message in rows]


def staged(session: Session) -> int:
    """How many messages have no offset, of those that can be seen."""
    [(found,)] = session.execute(
        "select count(*) from pgq.message where partition_id < 0"
    ).fetchall()
    return int(found)


def test_cleanup_gives_offsets(connection: Session, clock: Clock, topic: str) -> None:
    """Where nobody consumes; it says how many."""
    connection.publish_batch(topic=topic, payloads=[1, 2, 3])
    assert [(r.action, r.target, r.amount) for r in connection.cleanup()] == [
        ("offsets assigned", topic, 3)
    ]
    assert actions(connection) == []
    assert consumed(connection, topic) == [1, 2, 3]


def test_retention(connection: Session, clock: Clock, topic: str) -> None:
    """It counts from when the offset was given, and takes all that is old."""
    for n in range(3):
        connection.publish(topic=topic, payload=n)
        clean(connection)
        clock.advance("4 hours")
    clean(connection)
    clock.advance("9 hours")
    assert "segment truncated" in clean(connection)
    connection.publish(topic=topic, payload=3)
    refused("MQ004", connection.consume, topic=topic, consumer_group="readers")
    # what is there, though it had no offset, is not read
    connection.seek(topic=topic, consumer_group="readers", start="latest")
    connection.publish(topic=topic, payload=4)
    assert consumed(connection, topic) == [4]


def test_an_open_publisher_keeps_its_segment(
    connect: Connect, connection: Session, clock: Clock, topic: str
) -> None:
    """Its partition goes on meanwhile; the message comes when it commits, where others are now."""
    connection.publish(topic=topic, payload=1)
    slow = connect()
    slow.publish(topic=topic, payload=-1)
    seal(connection, clock, "3 hours")
    for _ in range(4):
        actions(connection)
        assert sorted(states(connection)) == ["open", "sealed"]
    connection.publish(topic=topic, payload=2)
    assert consumed(connection, topic) == [1]
    assert consumed(connection, topic) == [2]
    slow.publish(topic=topic, payload=-2)
    slow.commit()
    assert consumed(connection, topic) == [-1, -2]
    assert "segment closed" in clean(connection)
    clock.advance("20 hours")
    connection.publish(topic=topic, payload=3)
    clean(connection)
    assert staged(connection) == 0


def test_a_publisher_behind_the_sealing(
    connect: Connect, connection: Session, clock: Clock, topic: str
) -> None:
    """Its partition still wrote to the sealed segment, and leaves that before the commit."""
    connection.publish(topic=topic, payload=1)
    assert consumed(connection, topic) == [1]
    seal(connection, clock, "3 hours")
    slow = connect()
    slow.publish(topic=topic, payload=2)
    for _ in range(5):
        assert "segment closed" not in actions(connection)
    assert row(connection, "select left_segments <> '{}' from pgq.partition") == (True,)
    slow.commit()
    assert "segment closed" in clean(connection)
    assert row(connection, "select left_segments from pgq.partition") == ([],)
    clock.advance("8 hours")
    clean(connection)
    assert consumed(connection, topic) == [2]
    assert staged(connection) == 0


def test_nobody_consumes_for_long(
    connect: Connect, connection: Session, clock: Clock, topic: str
) -> None:
    """What was staged in the old segment and in the new one keeps its order, across both."""
    slow = connect()
    connection.publish(topic=topic, payload=1)
    slow.publish(topic=topic, payload=2)
    seal(connection, clock, "3 hours")
    actions(connection)
    actions(connection)
    fast = connect()
    fast.publish(topic=topic, payload=3)
    slow.publish(topic=topic, payload=4)
    connection.publish(topic=topic, payload=5)
    fast.commit()
    slow.commit()
    assert consumed(connection, topic) == [1]
    assert consumed(connection, topic) == [2, 3, 4, 5]
    assert [r.last_offset for r in connection.list_offsets(topic=topic)] == [5]


def test_a_topic_that_changes_its_retention_and_back(
    connect: Connect, connection: Session, clock: Clock, topic: str
) -> None:
    """Messages in the segments of both keep their order."""
    slow = connect()
    slow.publish(topic=topic, payload=1)
    connection.alter_topic(topic=topic, retention="1 day")
    slow.publish(topic=topic, payload=2)
    connection.alter_topic(topic=topic, retention="9 hours")
    slow.publish(topic=topic, payload=3)
    slow.commit()
    assert consumed(connection, topic) == [1, 2, 3]
    clock.advance("3 hours")
    clean(connection)
    connection.publish(topic=topic, payload=4)
    assert consumed(connection, topic) == [4]
    assert staged(connection) == 0


@pytest.mark.parametrize("level", LEVELS)
def test_an_old_snapshot_of_a_segment_that_was_left(
    connect: Connect, connection: Session, clock: Clock, topic: str, level: str
) -> None:
    """Whoever would stage a message there must try again."""
    connection.publish(topic=topic, payload=1)
    old = old_session(connect, level)
    seal(connection, clock, "3 hours")
    clean(connection)
    refused("40001", old.publish, topic=topic, payload=2)
    old.rollback()
    old.publish(topic=topic, payload=2)
    old.commit()
    assert consumed(connection, topic) == [1]
    assert consumed(connection, topic) == [2]


def test_a_size_limit(connection: Session, clock: Clock) -> None:
    """The oldest go when there is too much, whether they were read or not."""
    connection.create_topic(topic="t", partitions=1, deferred=True, max_bytes=200_000)
    connection.create_group(topic="t", consumer_group="readers", out_of_range="skip")
    for _ in range(8):
        connection.publish_batch(topic="t", bodies=[bytes(1000)] * 100)
        clean(connection)
    [offsets] = connection.list_offsets(topic="t")
    assert offsets.first_offset > 1
    assert offsets.last_offset == 800
    assert len(connection.consume(topic="t", consumer_group="readers", max_messages=1000)) == (
        801 - offsets.first_offset
    )


def test_without_retention(connect: Connect, connection: Session, clock: Clock) -> None:
    """What is kept for ever is kept; when the topic is dropped, its messages go."""
    connection.create_topic(topic="t", partitions=1, deferred=True, no_limit=["retention"])
    connection.create_group(topic="t", consumer_group="readers")
    connection.publish_batch(topic="t", payloads=[1, 2])
    clock.advance("1000 days")
    clean(connection)
    assert consumed(connection, "t") == [1, 2]
    connection.publish(topic="t", payload=3)
    connection.drop_topic(topic="t")
    clean(connection)
    assert row(connection, "select count(*) from pgq.message where partition_id > 0") == (0,)


def blocks(session: Session, statement: str) -> int:
    """How many blocks a statement touches."""
    [(plan,)] = session.execute(
        f"explain (analyze, buffers, format json) {statement}".encode()
    ).fetchall()
    top = plan[0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


ASSIGN = "select * from pgq.assign_offsets('t')"


def test_a_held_snapshot(connect: Connect, connection: Session, clock: Clock, topic: str) -> None:
    """However long it is held, giving offsets looks at no more than what is new."""
    holder = old_session(connect, "repeatable read")
    touched = []
    for _ in range(3):
        for n in range(300):
            connection.publish(topic=topic, payload=n)
            assert consumed(connection, topic) == [n]
        connection.publish(topic=topic, payload=0)
        touched.append(blocks(connection, ASSIGN))
        consumed(connection, topic)
    assert max(touched) < 150, touched
    holder.rollback()


def test_a_publisher_that_stays_open(
    connect: Connect, connection: Session, clock: Clock, topic: str
) -> None:
    """The same beside one, and when it commits."""
    slow = connect()
    slow.publish(topic=topic, payload=-1)
    touched = []
    for _ in range(3):
        for n in range(300):
            connection.publish(topic=topic, payload=n)
            assert consumed(connection, topic) == [n]
        connection.publish(topic=topic, payload=0)
        touched.append(blocks(connection, ASSIGN))
        consumed(connection, topic)
    slow.commit()
    touched.append(blocks(connection, ASSIGN))
    assert consumed(connection, topic) == [-1]
    assert max(touched) < 150, touched


def test_plans_made_on_an_empty_table(
    connect: Connect, connection: Session, clock: Clock, topic: str
) -> None:
    """They serve when there are many messages, too."""
    slow = connect()
    for n in range(8):
        slow.publish(topic=topic, payload=n)
        slow.commit()
        connection.execute(ASSIGN.encode())
    for _ in range(10):
        connection.publish_batch(topic=topic, payloads=list(range(5000)))
        connection.execute(ASSIGN.encode())
    for n in range(5):
        slow.publish(topic=topic, payload=n)
        connection.publish(topic=topic, payload=n)
        assert blocks(connection, ASSIGN) < 150
        slow.commit()
        assert blocks(connection, ASSIGN) < 150
    assert [r.last_offset for r in connection.list_offsets(topic=topic)] == [50_018]


def test_a_group_that_begins_at_the_end(connection: Session, clock: Clock, topic: str) -> None:
    """It does not read what was published before, though that had no offset."""
    connection.publish(topic=topic, payload=1)
    connection.create_group(topic=topic, consumer_group="late", start="latest")
    connection.publish(topic=topic, payload=2)
    rows = connection.consume(topic=topic, consumer_group="late")
    assert [message.payload for message in rows] == [2]


def test_there_is_room_for_ids_of_transactions(connection: Session, clock: Clock) -> None:
    """Where ids of partitions have become too high, a topic can only be an ordinary one."""
    connection.execute("select setval('pgq.partition_id', 68719400000)")
    refused("54000", connection.create_topic, topic="t", deferred=True)
    connection.create_topic(topic="t")
    connection.execute("select setval('pgq.partition_id', 68718900000)")
    connection.create_topic(topic="u", partitions=1024, deferred=True)
    connection.create_group(topic="u", consumer_group="readers")
    connection.publish(topic="u", payload=1, partition=1023)
    assert consumed(connection, "u") == [1]
