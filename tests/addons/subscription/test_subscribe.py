"""subscribe, unsubscribe and list_subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from support.queue import new_queue
from support.session import Session, new_name, refused, unchanged
from support.subscription import delivered, publish_many, subscribe

FILTER = {"status": ["processed", "shipped"]}


@pytest.fixture
def topic(connection: Session) -> str:
    name = new_name("topic")
    connection.create_topic(topic=name, partitions=2)
    return name


@pytest.fixture
def queue(connection: Session) -> str:
    return new_queue(connection)


def _listed(session: Session, subscription: str) -> list[Any]:
    return [s for s in session.list_subscriptions() if s.subscription == subscription]


def test_what_is_returned_and_listed(connection: Session, topic: str, queue: str) -> None:
    name = new_name("subscription")
    made = connection.subscribe(
        subscription=name, topic=topic, queue=queue, filter=FILTER, routing_key="a.#"
    )
    assert made[:5] == (name, topic, queue, FILTER, "a.#")
    assert _listed(connection, name) == [made]
    names = [s.subscription for s in connection.list_subscriptions()]
    assert names == sorted(names)


def test_a_pattern_that_cannot_be_compiled(connection: Session, topic: str, queue: str) -> None:
    """It would make each publish to the topic fail, so it is refused."""
    name = new_name("subscription")
    with connection.transaction(force_rollback=True):
        connection.execute(
            "create or replace function pgq._routing_regex(routing_key text) returns text"
            " language sql immutable as $$ select '(' $$"
        )
        given = {"subscription": name, "topic": topic, "queue": queue, "routing_key": "a"}
        assert "AMQP" in str(refused("22023", connection.subscribe, **given))


def test_one_that_exists(connection: Session, topic: str, queue: str) -> None:
    """It is returned when the settings given are equal; else it stays as it is."""
    name = new_name("subscription")
    given: dict[str, Any] = {"subscription": name, "topic": topic, "queue": queue}
    made = connection.subscribe(**given, filter=FILTER)
    with unchanged(connection):
        assert connection.subscribe(**given) == made
        assert connection.subscribe(**given, filter=FILTER) == made
        for other in (
            {"topic": "other"},
            {"queue": "other"},
            {"filter": {}},
            {"routing_key": "a"},
            {"filter": {"status": ["shipped"]}},
        ):
            error = refused("MQ005", connection.subscribe, **{**given, **other})
            [field] = other
            assert f"{field}: given" in str(error.diag.message_detail)
            assert "unsubscribe" in str(error.diag.message_hint)
        error = refused("MQ005", connection.subscribe, **{**given, "subscription": "other"})
        assert name in str(error.diag.message_detail)


def test_one_that_exists_without_its_names(connection: Session, topic: str, queue: str) -> None:
    """A null is not left out: the topic and the queue of a subscription must be given."""
    connection.subscribe(subscription=f"{topic}-again", topic=topic, queue=queue)
    refused("22004", connection.subscribe, subscription=f"{topic}-again", topic=None, queue=queue)
    refused("22004", connection.subscribe, subscription=f"{topic}-again", topic=topic, queue=None)


def test_unknown_names(connection: Session, topic: str, queue: str) -> None:
    with unchanged(connection):
        for code, other in (
            ("MQ001", {"topic": "no"}),
            ("MQ002", {"queue": "no"}),
            ("22004", {"topic": None}),
            ("22004", {"queue": None}),
            ("22004", {"subscription": None}),
            ("22023", {"subscription": "a b"}),
        ):
            names: dict[str, Any] = {"subscription": "s", "topic": topic, "queue": queue, **other}
            refused(code, connection.subscribe, **names)
        refused("MQ011", connection.unsubscribe, subscription="no")
        refused("22004", connection.unsubscribe, subscription=None)


def test_unsubscribe(connection: Session, topic: str, queue: str) -> None:
    """Jobs that were made stay; nothing is delivered from then on, but to others."""
    other = new_queue(connection)
    name = subscribe(connection, topic, queue)
    subscribe(connection, topic, other)
    publish_many(connection, topic, 5)
    connection.unsubscribe(subscription=name)
    assert _listed(connection, name) == []
    publish_many(connection, topic, 5)
    assert delivered(connection, queue) == list(range(5))
    assert len(delivered(connection, other)) == 10
    subscribe(connection, topic, queue)
    publish_many(connection, topic, 1)
    assert delivered(connection, queue) == [0]


def test_nothing_from_before(connection: Session, topic: str, queue: str) -> None:
    publish_many(connection, topic, 5)
    subscribe(connection, topic, queue)
    assert delivered(connection, queue) == []


def test_twice_in_one_transaction(connection: Session, topic: str, queue: str) -> None:
    with connection.transaction():
        name = subscribe(connection, topic, queue)
        publish_many(connection, topic, 5)
        connection.unsubscribe(subscription=name)
        publish_many(connection, topic, 6)
        subscribe(connection, topic, queue)
        publish_many(connection, topic, 7)
    assert sorted(delivered(connection, queue)) == sorted([*range(5), *range(7)])


def test_partitions_are_followed_while_somebody_follows(
    connection: Session, topic: str, queue: str
) -> None:
    """A publish to a topic without subscriptions asks for none."""

    def has_delivery() -> list[Any]:
        return connection.execute(
            "select distinct has_delivery from pgq.partition where topic = %s", [topic]
        ).fetchall()

    assert has_delivery() == [(False,)]
    name = subscribe(connection, topic, queue)
    assert has_delivery() == [(True,)]
    connection.unsubscribe(subscription=name)
    assert has_delivery() == [(False,)]
    connection.alter_topic(topic=topic, notify=True)
    name = subscribe(connection, topic, queue)
    connection.unsubscribe(subscription=name)
    assert has_delivery() == [(True,)]
