"""Transactions that began before a segment was sealed: nothing that they write is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.clock import Clock
from support.queue import claim, enqueue, new_queue
from support.session import Connect, Session, refused, row
from support.storage import actions, close_segment, misplaced, publish, states
from support.waiting import PATIENCE, blocked


def test_an_enqueue_that_began_before_the_sealing(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """The segment it writes to is not closed before it ends, and its job is not lost."""
    queue = new_queue(connection, job_ttl="9 hours", retention="9 hours", no_limit=["max_attempts"])
    enqueue(connection, queue, "first")
    slow = connect()
    enqueue(slow, queue, "slow")
    clock.advance("3 hours")
    assert actions(connection) == ["segment sealed"]
    for _ in range(3):
        assert actions(connection) == []
    assert states(connection) == ["open", "sealed"]
    # those that come later write elsewhere, and are not waited for
    later = connect()
    enqueue(later, queue, "later")
    slow.commit()
    assert actions(connection) == ["segment closed"]
    assert [job.payload for job in claim(connection, queue, 10)] == ["first", "slow"]
    later.commit()
    assert [job.payload for job in claim(connection, queue, 10)] == ["later"]
    clock.advance("31 seconds")
    assert [job.payload for job in claim(connection, queue, 10)] == ["first", "slow", "later"]


def test_an_enqueue_during_the_sealing(connect: Connect, connection: Session, clock: Clock) -> None:
    """One that cannot know of it yet keeps the segment open, though its id is the higher one."""
    queue = new_queue(connection, job_ttl="9 hours", retention="9 hours")
    enqueue(connection, queue, "first")
    clock.advance("3 hours")
    sealer, slow = connect(), connect()
    assert actions(sealer) == ["segment sealed"]
    enqueue(slow, queue, "slow")
    sealer.commit()
    for _ in range(3):
        assert actions(connection) == []
    slow.commit()
    assert row(
        connection, "select count(distinct segment) from pgq.message where partition_id > 0"
    ) == (1,)
    assert "segment closed" in actions(connection) + actions(connection)
    assert [job.payload for job in claim(connection, queue, 10)] == ["first", "slow"]


def test_cleanup_in_the_middle_of_a_transaction(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """It cannot tell who is at work then, and leaves the closing to the next one."""
    queue = new_queue(connection, job_ttl="9 hours", retention="9 hours")
    enqueue(connection, queue)
    clock.advance("3 hours")
    early, slow = connect(), connect()
    early.execute("select pg_current_xact_id()")
    enqueue(slow, queue, "slow")
    assert actions(connection) == ["segment sealed"]
    assert actions(early) == []
    early.commit()
    assert actions(connection) == []
    slow.commit()
    assert "segment closed" in actions(connection) + actions(connection)


def test_a_transaction_that_began_before_the_sealing_and_enqueues_after_it(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """It writes to the new segment; with a snapshot that cannot know that, it must try again."""
    queue = new_queue(connection, job_ttl="9 hours", retention="9 hours")
    enqueue(connection, queue, "first")
    committed, repeatable = connect(), connect(isolation_level="repeatable read")
    for session in (committed, repeatable):
        row(session, "select count(*) from pgq.queue")
    close_segment(connection, clock, "3 hours")
    enqueue(committed, queue, "committed")
    committed.commit()
    refused("40001", repeatable.enqueue, queue=queue, payload="1")
    repeatable.rollback()
    enqueue(repeatable, queue, "repeated")
    repeatable.commit()
    assert row(
        connection,
        "select count(distinct segment), count(*) from pgq.message where partition_id > 0",
    ) == (2, 3)
    assert [job.payload for job in claim(connection, queue, 10)] == [
        "first",
        "committed",
        "repeated",
    ]


def test_a_publisher_that_began_before_the_sealing(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """The segment stays until its partition can go on; other partitions move on meanwhile."""
    connection.create_topic(topic="t", partitions=2, retention="9 hours")
    for partition in range(2):
        publish(connection, "t", partition=partition)
    slow = connect()
    publish(slow, "t", partition=0)
    clock.advance("3 hours")
    assert actions(connection) == ["segment sealed"]
    assert actions(connection) == []
    publish(connection, "t", partition=1)
    assert actions(connection) == []
    slow.commit()
    assert actions(connection) == ["segment closed"]
    publish(connection, "t", partition=0)
    for partition, last in ((0, 3), (1, 2)):
        found = connection.fetch_range(
            topic="t", partition=partition, first_offset=1, last_offset=last
        )
        assert [message[1] for message in found] == list(range(1, last + 1))
        times = [message[2] for message in found]
        assert times == sorted(times)


def test_keyed_batches_over_a_switch(connection: Session, clock: Clock) -> None:
    """Offsets stay dense and time rises in every partition, whichever way a message came."""
    connection.create_topic(topic="t", partitions=3, retention="9 hours")
    keys = [f"key {n}" for n in range(20)]
    last_offsets = [0, 0, 0]
    for turn in range(4):
        for partition, first, last, _ in publish(connection, "t", 20, keys=keys):
            assert first == last_offsets[partition] + 1
            last_offsets[partition] = last
        place = row(connection, "select * from pgq.publish('t', '1', key => 'key 3')")
        assert place[1] == last_offsets[place[0]] + 1
        last_offsets[place[0]] += 1
        if turn < 2:
            clock.advance("3 hours")
            connection.cleanup()
    for partition, last in enumerate(last_offsets):
        found = connection.fetch_range(
            topic="t", partition=partition, first_offset=1, last_offset=last
        )
        assert [message[1] for message in found] == list(range(1, last + 1))
        times = [message[2] for message in found]
        assert times == sorted(times)
    assert row(
        connection, "select count(distinct segment) from pgq.message where partition_id > 0"
    ) == (3,)


WAYS: dict[str, Callable[[Session], Any]] = {
    "publish": lambda session: session.publish(topic="t", payload=2),
    "publish_batch": lambda session: session.publish_batch(topic="t", payloads=[2]),
    "publish_batch by key": lambda session: session.publish_batch(
        topic="t", payloads=[2], keys=["k"]
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_publish_whose_storage_class_goes_out_of_use(
    connect: Connect, connection: Session, clock: Clock, way: str
) -> None:
    """It waits for the class that the topic had; by then the topic has another one."""
    connection.create_topic(topic="t", partitions=1, retention="9 hours")
    connection.create_group(topic="t", consumer_group="g")
    connection.publish(topic="t", payload=1)
    clock.advance("3 hours")
    assert actions(connection) == ["segment sealed"]
    cleaner, publisher = connect(), connect(autocommit=True)
    cleaner.execute("select from pgq.storage_class where retention = '9 hours' for update")
    publishing = blocked(connection, publisher, lambda: WAYS[way](publisher))
    connection.alter_topic(topic="t", retention="90 hours")
    assert "segment sealed" in actions(cleaner)
    cleaner.commit()
    publishing.result(PATIENCE)
    assert misplaced(connection, "90 hours") == []
    found = connection.consume(topic="t", consumer_group="g")
    assert [(message.log_offset, message.payload) for message in found] == [(1, 1), (2, 2)]
