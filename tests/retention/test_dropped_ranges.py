"""What is noted to be deleted where no segment is ever truncated: not too much, nor too little."""

from __future__ import annotations

from support.clock import Clock
from support.queue import ack, claim_one, enqueue, new_queue
from support.session import Connect, Session, row
from support.storage import actions, clean, states

FOREVER = {"no_limit": ["retention"]}


def _notes(session: Session) -> int:
    (number,) = row(session, "select count(*) from pgq.dropped_range")
    return int(number)


def _stored(session: Session) -> int:
    (number,) = row(session, "select count(*) from pgq.message where partition_id > 0")
    return int(number)


def test_what_goes_from_sight_with_a_segment_is_deleted_too(
    connection: Session, clock: Clock
) -> None:
    """It was stored before the topic had max_bytes, so no segment that is truncated has it."""
    connection.create_topic(topic="other", partitions=1, **FOREVER)
    connection.create_topic(topic="t", partitions=1, **FOREVER)
    for topic in ("other", "t"):
        connection.publish_batch(topic=topic, payloads=[1, 2, 3])
    connection.alter_topic(topic="t", max_bytes=1)
    for _ in range(6):
        connection.publish(topic="t", body=b"x" * 100_000)
        clean(connection)
    [place] = connection.list_offsets(topic="t")
    assert place.first_offset > 4
    assert _stored(connection) == 3 + place.last_offset - place.first_offset + 1
    assert _notes(connection) == 0


def test_a_dropped_queue_notes_no_longer_than_one_cleanup(connection: Session) -> None:
    """However many of them are dropped, later cleanups have nothing to look through."""
    connection.create_topic(topic="other", partitions=1, **FOREVER)
    queue = new_queue(connection)
    connection.alter_queue(queue=queue, retention="3 days")
    assert _notes(connection) == 0
    connection.drop_queue(queue=queue)
    for _ in range(2):
        clean(connection)
    assert _notes(connection) == 0


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


def test_a_clock_that_was_ahead(connection: Session, clock: Clock) -> None:
    """What was dropped then goes at once all the same."""
    connection.create_topic(topic="t", partitions=1, **FOREVER)
    connection.publish_batch(topic="t", payloads=[1, 2, 3])
    queue = new_queue(connection, no_limit=["retention", "job_ttl"])
    enqueue(connection, queue)
    ack(connection, claim_one(connection, queue))
    clock.advance("100 days")
    connection.drop_topic(topic="t")
    connection.drop_queue(queue=queue)
    clock.advance("-100 days")
    for _ in range(2):
        clean(connection)
    assert (_stored(connection), _notes(connection)) == (0, 0)
