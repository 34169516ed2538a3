"""Creating what exists already changes nothing, so it waits for nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from support.log import committed_offsets, new_topic
from support.queue import enqueue, new_queue
from support.session import Connect, Session, new_name, refused, unchanged
from support.snapshots import LEVELS
from support.waiting import aside, wait_until_blocked

Hold = Callable[[Session, str], Any]


@pytest.fixture
def patient(shared_connect: Connect) -> Session:
    """A session that gives up when it has to wait for a lock."""
    session = shared_connect(autocommit=True)
    session.execute("set lock_timeout = '1s'")
    return session


def _publisher(session: Session, topic: str) -> None:
    """Publishes to it, on the way to another segment."""
    session.publish(topic=topic, payload=1)


def _creator(session: Session, topic: str) -> None:
    """Makes another topic that is kept for the same time."""
    session.create_topic(topic=new_name("topic"), retention="7 days")


def _first_creator(session: Session, topic: str) -> None:
    """Makes the first topic of another retention."""
    session.create_topic(topic=new_name("topic"), retention="701 days")


def _queue_creator(session: Session, topic: str) -> None:
    """Makes a queue that is kept for the same time."""
    session.create_queue(queue=new_name("topic"), retention="7 days")


def _alterer(session: Session, topic: str) -> None:
    """Changes a setting of the topic itself."""
    session.alter_topic(topic=topic, notify=True)


def _grower(session: Session, topic: str) -> None:
    """Gives the topic more partitions."""
    session.alter_topic(topic=topic, partitions=5)


def _grouper(session: Session, topic: str) -> None:
    """Makes another group of it."""
    session.create_group(topic=topic, consumer_group="others")


def _member(session: Session, topic: str) -> None:
    """Consumes from it."""
    assert session.consume(topic=topic, consumer_group="readers")


HOLDERS = [
    _publisher,
    _creator,
    _first_creator,
    _queue_creator,
    _alterer,
    _grower,
    _grouper,
    _member,
]


@pytest.mark.parametrize("hold", HOLDERS)
def test_a_topic_that_exists(
    shared_connect: Connect, log: Session, patient: Session, hold: Hold
) -> None:
    """It is returned at once, as what is committed of it shows it, or refused at once."""
    topic = new_topic(log, partitions=3, messages=1)
    log.alter_topic(topic=topic, retention="6 days")
    before = [row for row in log.list_topics() if row.topic == topic]
    holder = shared_connect()
    hold(holder, topic)
    for same in ({}, {"partitions": 3}, {"retention": "6 days"}, {"no_limit": ["max_bytes"]}):
        assert [patient.create_topic(topic=topic, **same)] == before
    for other in ({"partitions": 5}, {"retention": "701 days"}, {"max_bytes": 1_000_000}):
        refused("MQ005", patient.create_topic, topic=topic, **other)


@pytest.mark.parametrize("hold", HOLDERS)
def test_a_group_that_exists(
    shared_connect: Connect, log: Session, patient: Session, hold: Hold
) -> None:
    """It is returned or refused at once, and stands where it stood."""
    topic = new_topic(log, partitions=3, messages=1)
    before = [row for row in log.list_groups() if row.topic == topic]
    log.alter_topic(topic=topic, retention="6 days")
    holder = shared_connect()
    hold(holder, topic)
    for start in ("earliest", "latest"):
        names = {"topic": topic, "consumer_group": "readers", "start": start}
        for same in ({}, {"out_of_range": "error"}):
            assert [patient.create_group(**names, **same)] == before
        refused("MQ005", patient.create_group, **names, out_of_range="skip")
    assert committed_offsets(log, topic, "readers") == [0, 0, 0]


def _enqueuer(session: Session, queue: str) -> None:
    """Enqueues to it."""
    enqueue(session, queue, 1)


def _queue_alterer(session: Session, queue: str) -> None:
    """Changes a setting of the queue itself."""
    session.alter_queue(queue=queue, notify=True)


@pytest.mark.parametrize(
    "hold", [_creator, _first_creator, _queue_creator, _enqueuer, _queue_alterer]
)
def test_a_queue_that_exists(
    shared_connect: Connect, log: Session, patient: Session, hold: Hold
) -> None:
    """It is returned at once, as what is committed of it shows it, or refused at once."""
    queue = new_name("topic")
    created = log.create_queue(queue=queue, retention="7 days")
    holder = shared_connect()
    hold(holder, queue)
    for settings in ({}, {"retention": "7 days"}, {"notify": False}):
        assert patient.create_queue(queue=queue, **settings) == created
    with pytest.raises(psycopg.Error) as caught:
        patient.create_queue(queue=queue, retention="701 days")
    assert caught.value.sqlstate == "MQ005"


DROPS: dict[str, tuple[dict[str, str], str]] = {
    "create_topic": ({"topic": "a"}, "drop_topic"),
    "create_group": ({"topic": "t", "consumer_group": "a"}, "drop_group"),
    "create_queue": ({"queue": "a"}, "drop_queue"),
}


@pytest.mark.parametrize("create", DROPS)
def test_one_that_is_dropped_while_it_is_compared(
    connect: Callable[..., psycopg.Connection[Any]],
    connection: psycopg.Connection[Any],
    create: str,
) -> None:
    """What was found is returned, and not nothing."""
    arguments, drop = DROPS[create]
    connection.create_topic(topic="t")
    created = connection.call(create, **arguments)
    connection.execute(
        "create or replace function pgq._check_settings_equal("
        "kind text, name text, given jsonb, no_limit text[], existing jsonb,"
        " declared pgq._setting[]) returns void language plpgsql as"
        " $$ begin perform pg_catalog.pg_advisory_xact_lock(1); end $$"
    )
    connection.execute("select pg_advisory_lock(1)")
    creator = connect(autocommit=True)
    found = aside(lambda: creator.call(create, **arguments))
    wait_until_blocked(connection, creator.pid)
    connection.call(drop, **arguments)
    connection.execute("select pg_advisory_unlock(1)")
    assert found.result(30) == created


@pytest.mark.parametrize("level", LEVELS)
def test_a_subscription_that_is_gone_since_the_snapshot(
    shared_connect: Connect, log: Session, level: str
) -> None:
    """It is not returned as if it were there."""
    names = {
        "subscription": new_name("subscription"),
        "topic": new_topic(log),
        "queue": new_queue(log),
    }
    log.subscribe(**names)
    late = shared_connect(isolation_level=level)
    late.execute("select 1")
    log.unsubscribe(subscription=names["subscription"])
    refused("40001", late.subscribe, **names)
    late.rollback()
    assert late.subscribe(**names).subscription == names["subscription"]
    late.rollback()


def test_no_storage_is_made_for_what_exists(connection: psycopg.Connection[Any]) -> None:
    """The retention that a new one would have gets no class and no segment."""
    log = connection
    log.create_topic(topic="t", retention="6 days")
    connection.create_queue(queue="q", retention="6 days")
    with unchanged(log):
        log.create_topic(topic="t")
        connection.create_queue(queue="q")
