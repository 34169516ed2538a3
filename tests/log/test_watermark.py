"""watermark: a time before which nothing more comes, whoever has a transaction open."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.log import new_topic
from support.session import Connect, Session, refused, row


def now(session: Session) -> Any:
    """The time by which pgq counts."""
    return row(session, "select pgq._clock()")[0]


def window(session: Session, topic: str, end: Any) -> list[Any]:
    """What is seen now that was published before a time."""
    return [
        payload
        for (payload,) in session.execute(
            "select payload from pgq.messages where topic = %s and published_at < %s"
            " order by partition, log_offset",
            [topic, end],
        ).fetchall()
    ]


def test_nobody_publishes(connection: Session) -> None:
    """It is the present, with messages or without."""
    topic = new_topic(connection, 3)
    for _ in range(2):
        before = now(connection)
        found = connection.watermark(topic=topic)
        assert before <= found <= now(connection)
        connection.publish(topic=topic, payload=1)
    assert window(connection, topic, connection.watermark(topic=topic)) == [1, 1]


@pytest.mark.parametrize("way", ["publish", "batch", "by key", "bulk"])
def test_a_message_that_is_not_seen_yet(connection: Session, connect: Connect, way: str) -> None:
    """The window up to the watermark is the same before and behind its commit."""
    topic = new_topic(connection, 2)
    connection.publish(topic=topic, payload=0, partition=0)
    session = connect()
    if way == "publish":
        session.publish(topic=topic, payload=1, partition=0)
    elif way == "batch":
        session.publish_batch(topic=topic, payloads=[1], partition=0)
    elif way == "by key":
        session.publish_batch(topic=topic, payloads=[1, 1], keys=["a", "b"])
    else:
        write_id = connection.begin_write(topic=topic).write_id
        connection.write_chunk(
            write_id=write_id,
            task=0,
            task_attempt="a",
            chunk=0,
            lengths=[1],
            packed_payloads=b"1",
            last_chunk=True,
        )
        session.commit_write(write_id=write_id)
    connection.publish(topic=topic, payload=2, partition=1) if way != "by key" else None
    late = now(connection)
    end = connection.watermark(topic=topic)
    assert end < late
    seen = window(connection, topic, end)
    naive = window(connection, topic, late)
    session.commit()
    assert window(connection, topic, end) == seen
    assert window(connection, topic, late) != naive
    assert connection.watermark(topic=topic) > late


def test_other_topics_do_not_matter(connection: Session, connect: Connect) -> None:
    """Nor do transactions that do something else."""
    topic, other = new_topic(connection), new_topic(connection)
    session = connect()
    session.publish(topic=other, payload=1)
    session.execute("create table public.something ()")
    before = now(connection)
    assert connection.watermark(topic=topic) >= before


def test_it_locks_nothing(connection: Session, connect: Connect) -> None:
    """Whoever asks in a transaction that stays open holds up no publisher."""
    topic = new_topic(connection)
    session = connect()
    session.watermark(topic=topic)
    with connection.transaction():
        connection.execute("set local lock_timeout = '1ms'")
        connection.publish(topic=topic, payload=1)
    assert len(window(connection, topic, connection.watermark(topic=topic))) == 1


def test_where_nothing_may_be_locked(connection: Session, connect: Connect) -> None:
    """In a read-only transaction it is the newest message of the partition that is behind."""
    topic = new_topic(connection, 2)
    for partition in (0, 1):
        connection.publish(topic=topic, payload=partition, partition=partition)
    session = connect()
    session.read_only = True
    end = session.watermark(topic=topic)
    assert window(connection, topic, end) == []
    connection.publish(topic=topic, payload=2, partition=0)
    session.rollback()
    assert end < session.watermark(topic=topic)
    assert window(connection, topic, session.watermark(topic=topic)) == [0]


def test_a_deferred_topic(connection: Session) -> None:
    """What has no offset yet gets a later time."""
    topic = new_topic(connection, deferred=True)
    connection.publish(topic=topic, payload=1)
    end = connection.watermark(topic=topic)
    connection.assign_offsets(topic=topic)
    assert window(connection, topic, end) == []
    assert window(connection, topic, connection.watermark(topic=topic)) == [1]


def test_a_clock_that_was_set_back(connection: Session, clock: Clock) -> None:
    """Messages keep their order in time, and so does what is promised."""
    topic = new_topic(connection)
    connection.publish(topic=topic, payload=1)
    clock.advance("-1 hour")
    end = connection.watermark(topic=topic)
    connection.publish(topic=topic, payload=2)
    assert window(connection, topic, end) == []
    assert end > now(connection)


def test_what_is_refused(connection: Session) -> None:
    refused("MQ001", connection.watermark, topic="nowhere")
    refused("22004", connection.watermark, topic=None)
