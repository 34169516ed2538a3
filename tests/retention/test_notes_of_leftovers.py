"""What is noted to be removed, where there is no retention: neither too much nor too little."""

from __future__ import annotations

import psycopg
import pytest

from support.clock import Clock
from support.queue import ack, claim_one, enqueue, new_queue
from support.session import Connect, Session, row
from support.storage import actions, clean, states

FOREVER = {"no_limit": ["retention"]}


@pytest.fixture
def topic(connection: Session) -> str:
    """A topic without a retention, beside another one, with five messages."""
    connection.create_topic(topic="other", partitions=1, **FOREVER)
    connection.create_topic(topic="t", partitions=1, **FOREVER)
    connection.publish_batch(topic="t", payloads=[1, 2, 3, 4, 5])
    return "t"


def _notes(session: Session) -> int:
    (number,) = row(session, "select count(*) from pgq.leftover")
    return int(number)


def _stored(session: Session) -> int:
    (number,) = row(session, "select count(*) from pgq.message where partition_id > 0")
    return int(number)


@pytest.mark.parametrize("level", ["read committed", "repeatable read"])
def test_a_topic_that_is_kept_for_ever_again(
    connect: Connect, connection: Session, clock: Clock, topic: str, level: str
) -> None:
    """A partition is moved, and what it leaves is noted, where alter_topic does not see it."""
    publisher, cleaner, late = connect(), connect(), connect()
    publisher.publish(topic=topic, payload=6)
    connection.alter_topic(topic=topic, retention="1 hour")
    late.isolation_level = psycopg.IsolationLevel[level.replace(" ", "_").upper()]
    assert _notes(late) == 0
    publisher.commit()
    clean(cleaner)
    assert _notes(cleaner) == 1
    if level == "repeatable read":
        cleaner.commit()
    late.alter_topic(topic=topic, **FOREVER)
    late.commit()
    cleaner.commit()
    clean(connection)
    assert _notes(connection) == 0
    clock.advance("2 hours")
    clean(connection)
    [place] = connection.list_offsets(topic=topic)
    assert (place.first_offset, place.last_offset) == (1, 6)


def test_a_note_counts_when_the_topic_has_a_retention_again(
    connect: Connect, connection: Session, clock: Clock, topic: str
) -> None:
    """All of it is kept for the second one, although the first was noted late."""
    publisher, cleaner = connect(), connect()
    publisher.publish(topic=topic, payload=6)
    connection.alter_topic(topic=topic, retention="1 hour")
    publisher.commit()
    clean(cleaner)
    connection.alter_topic(topic=topic, **FOREVER)
    cleaner.commit()
    clean(connection)
    connection.alter_topic(topic=topic, retention="3 hours")
    clock.advance("2 hours")
    clean(connection)
    assert connection.list_offsets(topic=topic)[0].first_offset == 1
    clock.advance("2 hours")
    clean(connection)
    assert connection.list_offsets(topic=topic)[0].first_offset == 7
    assert _stored(connection) == 0


def test_what_goes_from_sight_with_a_segment_is_removed_too(
    connection: Session, clock: Clock, topic: str
) -> None:
    """It was stored without a retention, so no segment that is emptied takes it along."""
    connection.alter_topic(topic=topic, retention="1 hour")
    connection.publish(topic=topic, payload=6)
    connection.alter_topic(topic=topic, **FOREVER)
    connection.publish(topic=topic, payload=7)
    for _ in range(4):
        clock.advance("1 hour")
        clean(connection)
    [place] = connection.list_offsets(topic=topic)
    assert (place.first_offset, place.last_offset) == (7, 7)
    assert (_stored(connection), _notes(connection)) == (1, 0)


def test_queues_that_always_had_a_retention_note_nothing(connection: Session, topic: str) -> None:
    """However many of them are altered or dropped, cleanup has nothing to look through."""
    queue = new_queue(connection)
    connection.alter_queue(queue=queue, retention="3 days")
    assert _notes(connection) == 0
    connection.drop_queue(queue=queue)
    assert _notes(connection) == 0


def test_a_dropped_queue_that_had_a_retention_at_last(connection: Session, clock: Clock) -> None:
    """What it finished before it had one goes at once, and not when the retention is over."""
    queue = new_queue(connection, no_limit=["job_ttl", "retention"])
    enqueue(connection, queue)
    assert ack(connection, claim_one(connection, queue))
    connection.alter_queue(queue=queue, retention="6 days")
    clean(connection)
    assert _stored(connection) == 1
    connection.drop_queue(queue=queue)
    for _ in range(2):
        clean(connection)
    assert (_stored(connection), _notes(connection)) == (0, 0)
    assert row(connection, "select count(*) from pgq.job_archive") == (0,)


def test_an_alter_beside_a_segment_that_is_emptied(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """Its leaf is taken by the queue that was altered; what that finishes there is kept."""
    connection.create_topic(topic="full", partitions=1, max_bytes=1, **FOREVER)
    connection.publish(topic="full", payload=1)
    queue = new_queue(connection, retention="6 hours", job_ttl="5 hours")
    enqueue(connection, queue)
    while "closed" not in states(connection):
        connection.cleanup()
    connection.publish(topic="full", payload=1)
    altering = connect()
    altering.alter_queue(queue=queue, lease="1 minute")
    assert "segment truncated" in actions(connection)
    altering.commit()
    for _ in range(2):
        clock.advance("2 hours 30 minutes")
        connection.cleanup()
    enqueue(connection, queue)
    assert ack(connection, claim_one(connection, queue))
    clock.advance("90 minutes")
    clean(connection)
    assert row(connection, "select count(*) from pgq.job_archive where outcome = 'acked'") == (1,)


@pytest.mark.parametrize("dropped", [True, False])
def test_a_clock_that_was_ahead(
    connection: Session, clock: Clock, topic: str, dropped: bool
) -> None:
    """What was noted then is kept no longer than what is noted now."""
    queue = new_queue(connection, no_limit=["retention", "job_ttl"])
    enqueue(connection, queue)
    ack(connection, claim_one(connection, queue))
    clock.advance("100 days")
    if dropped:
        connection.drop_topic(topic=topic)
        connection.drop_queue(queue=queue)
    else:
        connection.alter_topic(topic=topic, retention="1 day")
        connection.alter_queue(queue=queue, retention="1 day")
    clock.advance("-100 days")
    clean(connection)
    assert _stored(connection) == (0 if dropped else 6)
    clock.advance("25 hours")
    clean(connection)
    clean(connection)
    assert _stored(connection) == 0
    assert _notes(connection) == 0


def test_leftovers_of_others_are_not_waited_for(
    connect: Connect, connection: Session, topic: str
) -> None:
    """Somebody removes what another topic has left, when one is kept for ever again."""
    connection.publish(topic="other", payload=1)
    for name in ("other", topic):
        connection.alter_topic(topic=name, retention="1 hour")
    clean(connection)
    remover = connect()
    held = remover.execute(
        "select from pgq.leftover where partition_id = any(select stored_partition_id"
        " from pgq.partition where topic = 'other') for update"
    ).fetchall()
    assert held
    before = _notes(connection)
    connection.execute("set lock_timeout = '5s'")
    connection.alter_topic(topic=topic, **FOREVER)
    assert _notes(connection) < before
