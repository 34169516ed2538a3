"""list_subscriptions: what it shows, and in which order; test_subscribe.py has the rest."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import new_queue
from support.session import Session, new_name


@pytest.fixture
def topic(connection: Session) -> str:
    name = new_name("topic")
    connection.create_topic(topic=name, partitions=1)
    return name


def listed(session: Session, topic: str) -> dict[str, Any]:
    """The subscriptions of a topic by their names."""
    return {s.subscription: s for s in session.list_subscriptions() if s.topic == topic}


def test_what_was_not_given(connection: Session, topic: str, clock: Clock) -> None:
    """No filter is null, and one without names stays what it is."""
    clock.set_to("2030-01-01 00:00+00")
    given: dict[str, dict[str, Any]] = {
        new_name("s"): settings
        for settings in ({}, {"filter": {}}, {"filter": {"n": [1, None]}}, {"routing_key": "#"})
    }
    for name, settings in given.items():
        connection.subscribe(
            subscription=name, topic=topic, queue=new_queue(connection), **settings
        )
    found = listed(connection, topic)
    assert {name: (s.filter, s.routing_key) for name, s in found.items()} == {
        name: (settings.get("filter"), settings.get("routing_key"))
        for name, settings in given.items()
    }
    assert {f"{s.created_at:%Y-%m-%d %H:%M}" for s in found.values()} == {"2030-01-01 00:00"}


def test_by_name(connection: Session, topic: str) -> None:
    """As bytes are ordered, whatever the collation of the database."""
    end = new_name("")
    names = [f"{stem}{end}" for stem in ("b", "B", "a", "_", "A", "1")]
    for name in names:
        connection.subscribe(subscription=name, topic=topic, queue=new_queue(connection))
    assert [*listed(connection, topic)] == sorted(names)
