"""A topic that gets a retention while somebody publishes to it, and maintenance beside readers."""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.log import offsets
from support.session import Connect, Session
from support.storage import actions, clean
from support.waiting import blocked, results

READERS = {"consumer_group": "readers"}


@pytest.fixture
def topic(connection: Session) -> str:
    """A topic without a retention, with five messages that its group has read."""
    connection.create_topic(topic="t", partitions=1, no_limit=["retention"])
    connection.create_group(topic="t", **READERS)
    connection.publish_batch(topic="t", payloads=[1, 2, 3, 4, 5])
    assert len(connection.consume(topic="t", **READERS)) == 5
    return "t"


@pytest.mark.parametrize("commits", [False, True], ids=["rolled back", "committed"])
def test_a_partition_that_is_held_keeps_its_newest_messages(
    connect: Connect, connection: Session, clock: Clock, topic: str, commits: bool
) -> None:
    """They stay for the whole retention from then on, and no offset is given twice."""
    publisher = connect()
    assert publisher.publish(topic=topic, payload=6).log_offset == 6
    connection.alter_topic(topic=topic, retention="1 minute")
    clock.advance("61 seconds")
    connection.cleanup()
    if commits:
        publisher.commit()
        assert connection.publish(topic=topic, payload=7).log_offset == 7
    else:
        publisher.rollback()
        assert connection.publish(topic=topic, payload=6).log_offset == 6
    last = 7 if commits else 6
    clean(connection)
    assert offsets(connection.consume(topic=topic, **READERS)) == list(range(6, last + 1))
    clock.advance("59 seconds")
    clean(connection)
    [place] = connection.list_offsets(topic=topic)
    assert place.last_offset == last
    assert place.first_offset <= 6
    for _ in range(3):
        clock.advance("1 minute")
        clean(connection)
    [place] = connection.list_offsets(topic=topic)
    assert (place.first_offset, place.last_offset) == (last + 1, last)
    assert connection.publish(topic=topic, payload=8).log_offset == last + 1


def test_a_message_from_after_the_change_is_kept_as_long_as_it_says(
    connect: Connect, connection: Session, clock: Clock, topic: str
) -> None:
    """Also where the partition could only be moved later."""
    publisher = connect()
    publisher.publish(topic=topic, payload=6)
    connection.alter_topic(topic=topic, retention="1 hour")
    publisher.commit()
    clock.advance("3500 seconds")
    connection.publish(topic=topic, payload=7)
    clean(connection)
    clock.advance("3500 seconds")
    clean(connection)
    [place] = connection.list_offsets(topic=topic)
    assert place.first_offset <= 7 <= place.last_offset


def test_publishers_and_consumers_do_not_wait_behind_a_reader(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """While cleanup waits for somebody who reads an old segment, it holds no row of theirs."""
    for name, retention in (("read", "9 hours"), ("busy", "30 hours")):
        connection.create_topic(topic=name, partitions=1, retention=retention)
        connection.create_group(topic=name, **READERS)
        connection.publish_batch(topic=name, payloads=list(range(2200)))
    for _ in range(1050):
        connection.consume(topic="busy", max_messages=1, **READERS)
    clock.advance("3 hours")
    clean(connection)
    clock.advance("9 hours")
    reader, cleaner = connect(), connect()
    reader.fetch_range(topic="read", partition=0, first_offset=1, last_offset=1)
    # now the partition is to leave its segment, and the journal of its group is to be trimmed
    assert "segment sealed" in actions(connection)
    for _ in range(1050):
        connection.consume(topic="busy", max_messages=1, **READERS)
    connection.execute("alter function pgq.cleanup() set lock_timeout = 0")
    cleaning = blocked(connection, cleaner, lambda: actions(cleaner))
    connection.execute("set lock_timeout = '1ms'")
    assert connection.publish(topic="busy", payload=1, partition=0).log_offset == 2201
    assert connection.consume(topic="busy", **READERS)
    reader.rollback()
    [done] = results(cleaning)
    cleaner.commit()
    connection.execute("alter function pgq.cleanup() set lock_timeout = '200ms'")
    assert "segment truncated" in done


def test_one_reader_of_many_segments_costs_one_wait(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """Where cleanup has met somebody who reads, it does not wait for the next segment."""
    connection.create_topic(topic="t", partitions=1, retention="9 hours")
    connection.publish(topic="t", payload=1)
    clock.advance("3 hours")
    clean(connection)
    [segment] = connection.execute("select segment from pgq.segment where state = 'closed'")
    reader = connect()
    reader.fetch_range(topic="t", partition=0, first_offset=1, last_offset=1)
    [report] = connection.execute(
        "select * from pgq._truncate_segment(%s, false)", segment
    ).fetchall()
    assert report[0] == "segment busy"
    reader.rollback()
