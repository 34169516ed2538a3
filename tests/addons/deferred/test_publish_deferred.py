"""publish to a deferred topic: where a message goes, beside changes of the topic."""

from __future__ import annotations

from typing import Any

import pytest

from support.session import Connect, Session, new_name, refused, row


def deferred_topic(log: Session, partitions: int = 1) -> str:
    """A deferred topic with a group."""
    topic = new_name("deferred")
    log.create_topic(topic=topic, partitions=partitions, deferred=True)
    log.create_group(topic=topic, consumer_group="readers")
    return topic


def consumed(log: Session, topic: str) -> list[Any]:
    """The payloads that the group gets, in order."""
    return [m.payload for m in log.consume(topic=topic, consumer_group="readers")]


def test_one_that_is_dropped_and_made_anew(shared_connect: Connect, log: Session) -> None:
    """A session that knows it goes on with what there is by then."""
    deferred = deferred_topic(log)
    session = shared_connect(autocommit=True)
    assert session.publish(topic=deferred, payload=1).log_offset is None
    session.drop_topic(topic=deferred)
    for given in ({}, {"key": "a"}, {"headers": {"a": 1}}, {"partition": 0}):
        refused("MQ001", session.publish, topic=deferred, payload=1, **given)
    session.create_topic(topic=deferred, partitions=1)
    assert session.publish(topic=deferred, payload=1).log_offset == 1
    assert session.publish(topic=deferred, payload=1, key="a").log_offset == 2


def test_a_topic_that_changes(shared_connect: Connect, log: Session) -> None:
    """Partitions that were added, and a subscription, are noticed."""
    topic = deferred_topic(log, partitions=2)
    session = shared_connect(autocommit=True)
    session.publish(topic=topic, payload=1)
    keys = [f"key {n}" for n in range(20)]
    log.alter_topic(topic=topic, partitions=8)
    expected = [r.partition for r in (log.publish(topic=topic, payload=2, key=k) for k in keys)]
    assert len(set(expected)) > 2
    assert [session.publish(topic=topic, payload=2, key=k).partition for k in keys] == expected
    queue = new_name("queue")
    log.create_queue(queue=queue)
    log.subscribe(subscription=queue, topic=topic, queue=queue)
    session.publish(topic=topic, payload=3)
    refused("MQ007", session.publish, topic=topic, payload=3, partition=8)
    assert len(log.claim_job(queue=queue, max_jobs=100)) == 1


@pytest.mark.parametrize("given", [{}, {"key": "a"}, {"headers": {"a": 1}}, {"partition": 1}])
def test_a_segment_that_was_made_later(connection: Session, given: dict[str, Any]) -> None:
    """There are statements of their own for the first 16; what is written is written once."""
    connection.execute("update pgq.leaf set free = false")
    connection.create_topic(topic="t", partitions=2, deferred=True)
    assert row(connection, "select min(segment) from pgq.partition")[0] >= 16
    for n in range(3):
        connection.publish(topic="t", payload=n, **given)
    connection.assign_offsets(topic="t")
    assert sum(r.last_offset for r in connection.list_offsets(topic="t")) == 3


def test_transactions_without_a_key_take_turns(shared_connect: Connect, log: Session) -> None:
    """Of the partitions; what one transaction publishes stays together."""
    topic = deferred_topic(log, partitions=4)
    session = shared_connect(autocommit=True)
    places = [session.publish(topic=topic, payload=n).partition for n in range(200)]
    assert min(places.count(n) for n in range(4)) > 20
    with session.transaction():
        assert len({session.publish(topic=topic, payload=n).partition for n in range(9)}) == 1


def test_two_topics_by_turns(shared_connect: Connect, log: Session) -> None:
    """Each goes where it should, also with as many partitions of another number."""
    one, other = deferred_topic(log, partitions=3), deferred_topic(log, partitions=5)
    session = shared_connect(autocommit=True)
    for key in ("a", "b", "c", "d"):
        for topic in (one, other):
            expected = log.publish(topic=topic, payload=1, key=key).partition
            assert session.publish(topic=topic, payload=1, key=key).partition == expected


@pytest.mark.parametrize("level", ["read uncommitted", "repeatable read", "serializable"])
def test_every_isolation_level(shared_connect: Connect, log: Session, level: str) -> None:
    """The topic may be known to the session or not."""
    topic = deferred_topic(log)
    session = shared_connect(autocommit=True)
    for n in range(4):
        with session.transaction():
            session.execute(f"set transaction isolation level {level}")
            assert session.publish(topic=topic, payload=n).log_offset is None
        session.publish(topic=topic, payload=n)
    assert len(consumed(log, topic)) == 8
