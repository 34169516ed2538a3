"""next_poll: how long a member of a group that found nothing may sleep."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.clock import Clock
from support.session import Connect, Session, new_name, refused, row, unchanged


@pytest.fixture
def topic(connection: Session) -> str:
    """A topic of three partitions, with the group g."""
    name = new_name("topic")
    connection.create_topic(topic=name, partitions=3)
    connection.create_group(topic=name, consumer_group="g")
    return name


def publish(session: Session, topic: str, partition: int) -> None:
    """Publish one message to a partition."""
    session.publish(topic=topic, payload=1, partition=partition)


def poll(session: Session, topic: str, **options: Any) -> Any:
    """The first message that a member gets, or None."""
    messages = session.poll(topic=topic, consumer_group="g", **options)
    return messages[0] if messages else None


def seconds(session: Session, topic: str) -> float | None:
    """Seconds until a poll may find something."""
    at = session.next_poll(topic=topic, consumer_group="g")
    if at is None:
        return None
    left: timedelta = at - row(session, "select pgq._clock()")[0]
    return left.total_seconds()


def around(expected: float) -> Any:
    """So many seconds, but for what the test itself takes."""
    return pytest.approx(expected, abs=5.0)


def test_nothing_to_read(connection: Session, topic: str) -> None:
    assert seconds(connection, topic) is None
    publish(connection, topic, 1)
    got = poll(connection, topic)
    connection.commit_offset(
        topic=topic, consumer_group="g", partition=1, committed_offset=got.log_offset,
        lease_token=got.lease_token,
    )  # fmt: skip
    assert seconds(connection, topic) is None


def test_the_first_lease_that_ends(connection: Session, clock: Clock, topic: str) -> None:
    """Of several partitions; then its messages are found."""
    for partition in range(3):
        publish(connection, topic, partition)
    for lease in ("70 seconds", "40 seconds", "100 seconds"):
        assert poll(connection, topic, lease=lease) is not None
    assert poll(connection, topic) is None
    assert seconds(connection, topic) == around(40)
    clock.advance("41 seconds")
    left = seconds(connection, topic)
    assert left is not None
    assert left <= 0
    assert poll(connection, topic, lease="5 minutes") is not None
    assert seconds(connection, topic) == around(29)


def test_a_delay(connection: Session, topic: str) -> None:
    """Of what was given back by nack_offsets."""
    publish(connection, topic, 0)
    got = poll(connection, topic)
    connection.nack_offsets(
        topic=topic, consumer_group="g", partition=0, lease_token=got.lease_token,
        delay="50 seconds",
    )  # fmt: skip
    assert seconds(connection, topic) == around(50)


def test_released(connection: Session, topic: str) -> None:
    """The messages can be had at once."""
    publish(connection, topic, 2)
    got = poll(connection, topic)
    assert seconds(connection, topic) == around(30)
    connection.release_poll(
        topic=topic, consumer_group="g", partition=2, lease_token=got.lease_token
    )
    left = seconds(connection, topic)
    assert left is not None
    assert left <= 0


def test_a_poll_that_has_not_committed(connect: Connect, connection: Session, topic: str) -> None:
    """It may be killed: there are messages, and no lease."""
    publish(connection, topic, 0)
    other = connect()
    assert poll(other, topic) is not None
    assert poll(connection, topic) is None
    left = seconds(connection, topic)
    assert left is not None
    assert left <= 0
    other.commit()
    assert seconds(connection, topic) == around(30)


def test_retention_removed_what_was_leased(connection: Session, clock: Clock, topic: str) -> None:
    """A lease that ran out wakes nobody when nothing is left to read."""
    connection.alter_topic(topic=topic, retention="1 day")
    publish(connection, topic, 0)
    got = poll(connection, topic)
    clock.advance("1 minute")
    connection.seek(topic=topic, consumer_group="g", start="latest")
    assert got is not None
    assert seconds(connection, topic) is None


def test_messages_that_have_no_offsets_yet(connect: Connect, connection: Session) -> None:
    """Of a deferred topic: a poll that has not committed may be giving them theirs."""
    topic = new_name("topic")
    connection.create_topic(topic=topic, partitions=1, deferred=True)
    connection.create_group(topic=topic, consumer_group="g")
    other = connect()
    other.publish(topic=topic, payload=1)
    assert seconds(connection, topic) is None
    other.commit()
    assert poll(other, topic) is not None
    assert poll(connection, topic) is None
    left = seconds(connection, topic)
    assert left is not None
    assert left <= 0
    other.rollback()
    got = poll(connection, topic)
    assert seconds(connection, topic) == around(30)
    connection.commit_offset(
        topic=topic, consumer_group="g", partition=0, committed_offset=got.log_offset,
        lease_token=got.lease_token,
    )  # fmt: skip
    assert seconds(connection, topic) is None


def test_another_group_does_not_count(connection: Session, topic: str) -> None:
    connection.create_group(topic=topic, consumer_group="other", start="latest")
    publish(connection, topic, 0)
    [got] = connection.poll(topic=topic, consumer_group="other")
    left = seconds(connection, topic)
    assert left is not None
    assert left <= 0
    poll(connection, topic, lease="1 hour")
    assert seconds(connection, topic) == around(3600)
    assert got is not None


def test_it_only_reads(connect: Connect, connection: Session, topic: str) -> None:
    publish(connection, topic, 0)
    session = connect()
    session.execute("set transaction read only")
    with unchanged(connection):
        session.next_poll(topic=topic, consumer_group="g")


def test_refusals(connection: Session, topic: str) -> None:
    given = {"topic": topic, "consumer_group": "g"}
    refused("22004", connection.next_poll, **{**given, "topic": None})
    refused("22004", connection.next_poll, **{**given, "consumer_group": None})
    refused("MQ001", connection.next_poll, **{**given, "topic": new_name("topic")})
    refused("MQ003", connection.next_poll, **{**given, "consumer_group": "nobody"})
