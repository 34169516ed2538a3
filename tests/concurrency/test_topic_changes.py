"""Dropping and altering a topic beside those who use it: who waits for whom, and what they get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.log import WAYS_TO_PUBLISH, committed_offsets, new_topic, newest, ways_to_publish
from support.session import Connect, Session, refused
from support.waiting import PATIENCE, blocked, started

READERS = {"consumer_group": "readers"}


def consumers(session: Session, topic: str) -> dict[str, Callable[[], Any]]:
    """What a member of a group may have done in an open transaction."""
    return {
        "consume": lambda: session.consume(topic=topic, **READERS),
        "claim_offsets": lambda: session.claim_offsets(topic=topic, **READERS),
        "poll": lambda: session.poll(topic=topic, **READERS),
        "commit_offset": lambda: session.commit_offset(
            topic=topic, partition=1, committed_offset=1, **READERS
        ),
        "seek": lambda: session.seek(topic=topic, start="latest", **READERS),
    }


@pytest.mark.parametrize("way", ["consume", "claim_offsets", "poll", "commit_offset", "seek"])
def test_publishers_go_on_while_a_drop_waits_for_a_consumer(
    shared_connect: Connect, log: Session, way: str
) -> None:
    """No partition is held by a drop that does not know yet when it can go on."""
    topic = new_topic(log, partitions=3, messages=2)
    consumer, dropper, publisher = (
        shared_connect(),
        shared_connect(autocommit=True),
        shared_connect(autocommit=True),
    )
    consumers(consumer, topic)[way]()
    dropping = blocked(log, dropper, lambda: dropper.drop_topic(topic=topic))
    publisher.execute("set lock_timeout = '1s'")
    for partition in range(3):
        assert publisher.publish(topic=topic, payload=3, partition=partition).log_offset == 3
        publisher.publish_batch(topic=topic, payloads=[4, 5], partition=partition)
    assert not dropping.done()
    consumer.commit()
    dropping.result(PATIENCE)
    refused("MQ001", log.publish, topic=topic, payload=1)
    assert log.execute(
        "select count(*) from pgq.list_groups() where topic = %s", [topic]
    ).fetchone() == (0,)


def test_a_drop_waits_for_a_consumer_that_comes_back(shared_connect: Connect, log: Session) -> None:
    """Who rolled back does not get messages of a topic that was dropped meanwhile."""
    topic = new_topic(log, messages=2)
    consumer, dropper = shared_connect(), shared_connect(autocommit=True)
    assert consumer.consume(topic=topic, **READERS)
    dropping = blocked(log, dropper, lambda: dropper.drop_topic(topic=topic))
    consumer.rollback()
    dropping.result(PATIENCE)
    refused("MQ001", consumer.consume, topic=topic, **READERS)


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("first", ["alter_topic", "drop_group"])
def test_more_partitions_while_a_group_is_dropped(
    shared_connect: Connect, log: Session, first: str, ends: str
) -> None:
    """In either order both succeed, or one has to try again; no key is violated."""
    topic = new_topic(log, partitions=1, messages=1, groups=("readers", "others"))
    early, late = shared_connect(), shared_connect(autocommit=True)
    works: dict[str, Callable[[Session], Any]] = {
        "alter_topic": lambda session: session.alter_topic(topic=topic, partitions=3),
        "drop_group": lambda session: session.drop_group(topic=topic, **READERS),
    }
    [second] = set(works) - {first}
    works[first](early)
    going = started(log, late, lambda: works[second](late))
    getattr(early, ends)()
    going.result(PATIENCE)
    if ends == "rollback":
        works[first](log)

    assert len(log.list_offsets(topic=topic)) == 3
    groups = [row.consumer_group for row in log.list_groups() if row.topic == topic]
    assert groups == ["others"]
    assert committed_offsets(log, topic, "others") == [0, 0, 0]
    log.create_group(topic=topic, **READERS, start="latest")
    assert committed_offsets(log, topic, "readers") == [1, 0, 0]


def test_a_topic_is_altered_while_a_drop_of_a_group_waits(
    shared_connect: Connect, log: Session
) -> None:
    """The topic is not held by a drop that does not know yet when it can go on."""
    topic = new_topic(log, messages=2)
    member, dropper, other = (
        shared_connect(),
        shared_connect(autocommit=True),
        shared_connect(autocommit=True),
    )
    assert member.consume(topic=topic, **READERS)
    dropping = blocked(log, dropper, lambda: dropper.drop_group(topic=topic, **READERS))
    other.execute("set lock_timeout = '1s'")
    other.alter_topic(topic=topic, retention="3 days", partitions=2)
    assert not dropping.done()
    member.commit()
    dropping.result(PATIENCE)
    assert [row for row in log.list_groups() if row.topic == topic] == []


@pytest.mark.parametrize("first", ["alter_topic", "create_group"])
def test_more_partitions_while_a_group_is_made(
    shared_connect: Connect, log: Session, first: str
) -> None:
    """In either order the group reads all of them."""
    topic = new_topic(log, partitions=1, groups=())
    early, late = shared_connect(), shared_connect(autocommit=True)
    works: dict[str, Callable[[Session], Any]] = {
        "alter_topic": lambda session: session.alter_topic(topic=topic, partitions=3),
        "create_group": lambda session: session.create_group(topic=topic, **READERS),
    }
    [second] = set(works) - {first}
    works[first](early)
    going = started(log, late, lambda: works[second](late))
    early.commit()
    going.result(PATIENCE)
    assert committed_offsets(log, topic, "readers") == [0, 0, 0]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@pytest.mark.parametrize("first", ["alter_topic", "create_group"])
@pytest.mark.parametrize("waits", [True, False])
def test_a_snapshot_from_before_the_other_change(
    shared_connect: Connect, log: Session, level: str, first: str, waits: bool
) -> None:
    """No group is left without some of the partitions: who comes second has to try again."""
    topic = new_topic(log, partitions=1, groups=())
    early, late = shared_connect(), shared_connect(isolation_level=level)
    works: dict[str, Callable[[Session], Any]] = {
        "alter_topic": lambda session: session.alter_topic(topic=topic, partitions=3),
        "create_group": lambda session: session.create_group(topic=topic, **READERS),
    }
    [second] = set(works) - {first}
    late.execute("select count(*) from pgq.topic")
    works[first](early)
    if waits:
        going = started(log, late, lambda: works[second](late))
        early.commit()
        error = going.exception(PATIENCE)
        assert getattr(error, "sqlstate", None) == "40001"
    else:
        early.commit()
        refused("40001", lambda: works[second](late))
    late.rollback()
    works[second](late)
    late.commit()
    assert committed_offsets(log, topic, "readers") == [0, 0, 0]


def test_a_partition_that_a_group_lacks(log: Session) -> None:
    """Should a group ever miss one, a member that names it hears of it, and does not hang."""
    topic = new_topic(log, partitions=2)
    log.execute("delete from pgq.group_partition where topic = %s and partition = 1", [topic])
    refused("MQ007", log.consume, topic=topic, partition=1, **READERS)


@pytest.mark.parametrize("first", ["drop_topic", "drop_group"])
def test_a_group_that_is_dropped_beside_its_topic(
    shared_connect: Connect, log: Session, first: str
) -> None:
    """In either order: the one that comes second finds nothing, or has nothing more to do."""
    topic = new_topic(log, partitions=2, messages=1)
    early, late = shared_connect(), shared_connect(autocommit=True)
    works: dict[str, Callable[[Session], Any]] = {
        "drop_topic": lambda session: session.drop_topic(topic=topic),
        "drop_group": lambda session: session.drop_group(topic=topic, **READERS),
    }
    [second] = set(works) - {first}
    works[first](early)
    going = started(log, late, lambda: works[second](late))
    early.commit()
    error = going.exception(PATIENCE)
    if first == "drop_group":
        assert error is None
    else:
        assert getattr(error, "sqlstate", None) in (None, "MQ001", "MQ003")
    refused("MQ001", log.publish, topic=topic, payload=1)


# ---------------------------------------------------------------------------- publishers


def test_drop_topic_waits_for_a_publisher(shared_connect: Connect, log: Session) -> None:
    """What was being published is published, then all of it goes."""
    topic = new_topic(log, partitions=2)
    publisher, dropper = shared_connect(), shared_connect(autocommit=True)
    publisher.publish(topic=topic, payload=1, partition=1)
    waiting = blocked(log, dropper, lambda: dropper.drop_topic(topic=topic))
    publisher.publish(topic=topic, payload=2, partition=1)
    publisher.commit()
    waiting.result(PATIENCE)
    refused("MQ001", log.publish, topic=topic, payload=1)


@pytest.mark.parametrize("way", WAYS_TO_PUBLISH)
def test_a_publisher_that_waited_for_drop_topic(
    shared_connect: Connect, log: Session, way: str
) -> None:
    """It finds no topic; when the drop is rolled back it goes on."""
    topic = new_topic(log, partitions=8)
    dropper, publisher = shared_connect(), shared_connect(autocommit=True)
    write = ways_to_publish(publisher, topic)[way]

    dropper.drop_topic(topic=topic)
    waiting = blocked(log, publisher, write)
    dropper.rollback()
    assert waiting.result(PATIENCE)[:2] == (0, 1)

    dropper.drop_topic(topic=topic)
    waiting = blocked(log, publisher, write)
    dropper.commit()
    with pytest.raises(psycopg.Error) as caught:
        waiting.result(PATIENCE)
    assert caught.value.sqlstate == "MQ001"


def test_drop_topic_and_a_publisher_that_changes_segment(
    shared_connect: Connect, log: Session
) -> None:
    """A publisher that has its partition and then needs the topic does not deadlock with a drop.

    It came while the drop waited for another publisher, so the drop waits for it as well.
    """
    topic = new_topic(log, partitions=2)
    first, dropper, second = shared_connect(), shared_connect(autocommit=True), shared_connect()
    first.publish(topic=topic, payload=1, partition=0)
    log.alter_topic(topic=topic, retention="3 days")
    dropping = blocked(log, dropper, lambda: dropper.drop_topic(topic=topic))
    second.execute("set lock_timeout = '5s'")
    assert second.publish(topic=topic, payload=2, partition=1) == (1, 1, False)
    first.commit()
    second.commit()
    dropping.result(PATIENCE)
    refused("MQ001", log.publish, topic=topic, payload=1)


def test_partitions_are_waited_for_in_their_order(connect: Connect, connection: Session) -> None:
    """However their rows stand in the table; else it could block who publishes to several."""
    connection.create_topic(topic="t", partitions=3)
    connection.create_queue(queue="q")
    connection.execute("update pgq.partition set topic = topic where partition = 0")
    connection.execute("analyze pgq.partition")
    publisher, subscriber = connect(), connect(autocommit=True)
    publisher.publish(topic="t", payload=1, partition=0)
    waiting = blocked(
        connection,
        subscriber,
        lambda: subscriber.subscribe(subscription="s", topic="t", queue="q"),
    )
    for partition in (1, 2):
        publisher.publish(topic="t", payload=1, partition=partition)
    publisher.commit()
    assert waiting.result(PATIENCE).subscription == "s"


def test_alter_topic_beside_open_publishers(shared_connect: Connect, log: Session) -> None:
    """New partitions and a new retention wait for nobody; what is open is stored all the same."""
    topic = new_topic(log, partitions=1)
    publisher, altering = shared_connect(), shared_connect(autocommit=True)
    publisher.publish(topic=topic, payload=1)
    altering.execute("set lock_timeout = '2s'")
    altering.alter_topic(topic=topic, partitions=2, retention="5 days")
    assert altering.publish(topic=topic, payload=9, partition=1) == (1, 1, False)
    publisher.publish(topic=topic, payload=2, partition=0)
    publisher.commit()
    assert log.publish(topic=topic, payload=3, partition=0) == (0, 3, False)
    rows = log.fetch(topic=topic, consumer_group="readers", partition=0)
    assert [row.payload for row in rows] == [1, 2, 3]


@pytest.mark.parametrize("way", [*WAYS_TO_PUBLISH, "publish unkeyed"])
def test_a_publisher_that_waited_while_the_topic_was_made_anew(
    shared_connect: Connect, log: Session, way: str
) -> None:
    """A topic is dropped and made again in one transaction: who waited writes to the new one."""
    topic = new_topic(log, partitions=1, messages=5)
    keep, renewer, publisher = shared_connect(), shared_connect(), shared_connect(autocommit=True)
    keep.commit()
    write = {
        **ways_to_publish(publisher, topic),
        "publish unkeyed": lambda: publisher.publish(topic=topic, payload=7),
    }[way]
    renewer.drop_topic(topic=topic)
    renewer.create_topic(topic=topic, partitions=1)
    waiting = blocked(log, publisher, write)
    renewer.commit()
    assert waiting.result(PATIENCE)[:2] == (0, 1)
    assert newest(log, topic) == 1


# ---------------------------------------------------------------------------- more partitions


@pytest.mark.parametrize("holder", ["nobody", "member", "publisher"])
def test_all_partitions_have_their_turn_after_more_were_added(
    connect: Connect, connection: Session, holder: str
) -> None:
    """Wherever sessions begin to look, each partition is written to and read.

    One that a publisher holds while the others are added takes its place at the next cleanup.
    """
    topic = new_topic(connection, partitions=2, messages=100)
    holding = connect()
    if holder == "member":
        holding.consume(topic=topic, partition=1, max_messages=1, **READERS)
    elif holder == "publisher":
        holding.publish(topic=topic, partition=1, payload=0)
    connection.alter_topic(topic=topic, partitions=4)
    holding.commit()
    if holder == "publisher":
        connection.cleanup()
    for partition in (2, 3):
        connection.publish_batch(topic=topic, payloads=[0] * 100, partition=partition)

    connection.execute(
        "create or replace function pgq._hash_position() returns integer language sql stable"
        " as $$ select current_setting('pgq_test.place')::integer $$"
    )
    written, read = set(), set()
    for place in range(0, 1024, 64):
        connection.execute(f"set pgq_test.place = {place}")
        written.add(connection.publish(topic=topic, payload=0).partition)
        [message] = connection.consume(topic=topic, max_messages=1, **READERS)
        read.add(message.partition)
    assert written == read == {0, 1, 2, 3}


def test_partitions_that_are_moved_while_their_topic_is_altered(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """They get what the topic says when they are moved, and not what it said a moment before."""
    connection.create_topic(topic="many", partitions=60, retention="1 day")
    connection.create_topic(topic="last", partitions=1, retention="2 days")
    for topic in ("many", "last"):
        connection.publish(topic=topic, payload=1, partition=0)
    clock.advance("20 hours")
    connection.cleanup()
    holder, mover = connect(), connect(autocommit=True)
    holder.execute("select from pgq.storage_class where retention = '1 day' for update")
    moving = blocked(
        connection,
        mover,
        lambda: mover.execute("select pgq._settle_partitions(null, '{(,)}', 1000)"),
    )
    connection.alter_topic(topic="last", partitions=3, notify=True)
    holder.rollback()
    moving.result(PATIENCE)
    settings = connection.execute(
        "select partitions, has_delivery from pgq.partition where topic = 'last'"
    ).fetchall()
    assert settings == [(3, True)] * 3
