"""unsubscribe: what ends and what stays; test_subscribe.py has the ordinary case."""

from __future__ import annotations

import pytest

from support.queue import new_queue, stats
from support.session import Connect, Session, new_name, refused, unchanged
from support.subscription import delivered, in_runs, new_followed_topic, publish_many, subscribe

LEVELS = ["read committed", "repeatable read", "serializable"]


@pytest.fixture
def topic(connection: Session) -> str:
    name = new_name("topic")
    connection.create_topic(topic=name, partitions=1)
    return name


def test_a_name_that_is_not_there(connection: Session, topic: str) -> None:
    """Not any more, or not like that; names of the topic and the queue are no names of it."""
    queue = new_queue(connection)
    name = subscribe(connection, topic, queue)
    with unchanged(connection):
        for other in (name.upper(), f"{name} ", topic, queue, ""):
            error = refused("MQ011", connection.unsubscribe, subscription=other)
            assert other in str(error)
            assert "list_subscriptions" in str(error.diag.message_hint)
    connection.unsubscribe(subscription=name)
    refused("MQ011", connection.unsubscribe, subscription=name)


def test_jobs_in_runs_stay(connection: Session, topic: str) -> None:
    """Also those that have no rows of their own yet."""
    queue = new_queue(connection)
    name = subscribe(connection, topic, queue)
    publish_many(connection, topic, 300)
    assert in_runs(connection, queue) == 300
    connection.unsubscribe(subscription=name)
    publish_many(connection, topic, 300)
    assert stats(connection, queue) == {"ready": 300}
    assert delivered(connection, queue) == list(range(300))


def test_one_of_several(connection: Session) -> None:
    """Of the topic, and of the queue: the others go on."""
    topic, [queue, beside] = new_followed_topic(connection, 2)
    other = new_name("topic")
    connection.create_topic(topic=other)
    subscribe(connection, other, queue)
    [name] = [
        s.subscription
        for s in connection.list_subscriptions()
        if (s.topic, s.queue) == (topic, queue)
    ]
    connection.unsubscribe(subscription=name)
    connection.publish(topic=topic, payload=1)
    connection.publish(topic=other, payload=2)
    assert delivered(connection, queue) == [2]
    assert delivered(connection, beside) == [1]


@pytest.mark.parametrize("level", LEVELS)
def test_twice_in_one_transaction(
    connect: Connect, connection: Session, topic: str, level: str
) -> None:
    """The second call finds nothing; a rollback lets everything be delivered as before."""
    queue = new_queue(connection)
    name = subscribe(connection, topic, queue)
    session = connect(isolation_level=level)
    for number, end in enumerate(("rollback", "commit")):
        session.unsubscribe(subscription=name)
        session.execute("savepoint s")
        refused("MQ011", session.unsubscribe, subscription=name)
        session.execute("rollback to s")
        session.publish(topic=topic, payload=number)
        getattr(session, end)()
        connection.publish(topic=topic, payload=number + 10)
    assert delivered(connection, queue) == [10]


def test_in_a_transaction_that_only_reads(connection: Session, topic: str) -> None:
    queue = new_queue(connection)
    name = subscribe(connection, topic, queue)
    with connection.transaction():
        connection.execute("set transaction read only")
        with connection.transaction():
            assert name in [s.subscription for s in connection.list_subscriptions()]
        refused("25006", connection.unsubscribe, subscription=name)
    connection.publish(topic=topic, payload=1)
    assert delivered(connection, queue) == [1]


@pytest.mark.parametrize("call", ["unsubscribe", "unsubscribe another", "drop_topic", "drop_queue"])
def test_a_subscription_that_is_broken(connection: Session, call: str) -> None:
    """It does not keep anything from its end. What the topic has is there for others."""
    topic, [queue, other] = new_followed_topic(connection, 2, deferred=True, routing_key="a")
    connection.execute(
        "update pgq.subscription set routing_regex = '('"
        " where queue_id = (select queue_id from pgq.queue where queue = %s)",
        [queue],
    )
    connection.publish(topic=topic, payload=1, headers={"routing_key": "a"})
    refused("2201B", connection.assign_offsets, topic=topic)
    warned: list[tuple[str | None, str | None]] = []
    connection.add_notice_handler(lambda s: warned.append((s.severity_nonlocalized, s.sqlstate)))
    names = {found.queue: found.subscription for found in connection.list_subscriptions()}
    if call == "drop_topic":
        connection.drop_topic(topic=topic)
    elif call == "drop_queue":
        connection.drop_queue(queue=queue)
    else:
        connection.unsubscribe(subscription=names[queue if call == "unsubscribe" else other])
    left = {found.queue for found in connection.list_subscriptions() if found.topic == topic}
    assert warned == ([] if call == "drop_queue" else [("WARNING", "2201B")])
    if call in ("unsubscribe", "drop_queue"):
        assert left == {other}
        assert delivered(connection, other) == [1]
    elif call == "unsubscribe another":
        assert left == {queue}
        assert delivered(connection, other) == []
        connection.unsubscribe(subscription=names[queue])
        assert len(list(connection.assign_offsets(topic=topic))) == 1


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_another_gives_offsets_meanwhile(connect: Connect, connection: Session, level: str) -> None:
    """That is no fault of the topic: an end of a subscription by an old snapshot is 40001."""
    topic, [queue] = new_followed_topic(connection, deferred=True)
    [name] = [s.subscription for s in connection.list_subscriptions() if s.topic == topic]
    session = connect(isolation_level=level)
    connection.publish(topic=topic, payload=1)
    session.execute("select 1")
    connection.assign_offsets(topic=topic)
    refused("40001", session.unsubscribe, subscription=name)
    session.rollback()
    assert delivered(connection, queue) == [1]
