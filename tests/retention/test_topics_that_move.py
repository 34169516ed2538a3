"""A topic that gets another retention beside a publisher, and maintenance beside readers."""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.queue import new_queue
from support.session import Connect, Session, new_name, refused, row
from support.storage import actions, clean
from support.waiting import blocked, results, wait_until

READERS = {"consumer_group": "readers"}


@pytest.fixture
def topic(connection: Session) -> str:
    """A topic with five messages that its group has read."""
    connection.create_topic(topic="t", partitions=1, retention="1 day")
    connection.create_group(topic="t", **READERS)
    connection.publish_batch(topic="t", payloads=[1, 2, 3, 4, 5])
    assert len(connection.consume(topic="t", **READERS)) == 5
    return "t"


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

    # what runs in another database holds it up for a moment, an autovacuum say
    def closed() -> tuple[object, ...] | None:
        clean(connection)
        return connection.execute(
            "select segment from pgq.segment where state = 'closed'"
        ).fetchone()

    segment = wait_until(closed, what="for the segment to be closed")
    reader = connect()
    reader.fetch_range(topic="t", partition=0, first_offset=1, last_offset=1)
    [report] = connection.execute(
        "select * from pgq._truncate_segment(%s, false)", segment
    ).fetchall()
    assert report[0] == "segment busy"
    reader.rollback()


def test_one_wait_for_all_classes_that_are_busy(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """Behind the first one, a class whose queue somebody holds is left to the next cleanup."""
    new_queue(connection, retention="9 hours")
    clock.advance("3 hours")
    holder = connect()
    holder.execute("select from pgq.queue for share")
    [found] = connection.execute("select storage_class_id from pgq.queue").fetchall()
    connection.execute("insert into pgq.message select 1, 1, now(), segment from pgq.queue")
    error = refused(
        "55P03",
        lambda: connection.execute("select pgq._seal_segment(%s, pgq._clock(), false)", [found[0]]),
    )
    assert "could not obtain lock" in str(error)
    holder.rollback()


def test_partitions_have_places_of_their_own(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """Also beside one that could not move yet: of two at one place, one would never be chosen."""
    connection.create_topic(topic="t", partitions=2)
    publisher = connect()
    publisher.publish(topic="t", payload=1, partition=1)
    positions = (
        "select count(*), count(distinct hash_position), max(hash_position) < 1024"
        " from pgq.partition"
    )
    for partitions in (4, 5, 1024):
        connection.alter_topic(topic="t", partitions=partitions)
        assert row(connection, positions) == (partitions, partitions, True)
    publisher.commit()
    clean(connection)
    assert row(connection, positions) == (1024, 1024, True)


def test_a_partition_that_was_read_in_the_future_has_its_turn(
    connection: Session, clock: Clock
) -> None:
    """The clock was ahead for a while; the partition read then is not the last for that long."""
    connection.create_topic(topic="t", partitions=3, retention="9 hours")
    connection.create_group(topic="t", **READERS)
    for partition in range(3):
        connection.publish_batch(topic="t", payloads=list(range(20)), partition=partition)
    clock.advance("3 hours")
    clean(connection)
    clock.advance("30 minutes")
    connection.consume(topic="t", partition=1, max_messages=1, **READERS)
    clock.advance("-30 minutes")
    read = [connection.consume(topic="t", max_messages=1, **READERS)[0].partition for _ in range(6)]
    assert 1 in read


def test_partitions_at_one_hash_position(connection: Session) -> None:
    """Two cleanups may bring them there; then one of them would never be chosen."""
    topic = new_name("topic")
    connection.create_topic(topic=topic, partitions=8)
    where = "from pgq.partition where topic = %s order by partition"
    places = connection.execute(f"select hash_position {where}", [topic]).fetchall()
    connection.execute("update pgq.partition set hash_position = 384 where topic = %s", [topic])
    clean(connection)
    found = connection.execute(f"select hash_position {where}", [topic]).fetchall()
    assert len(set(found)) == 8
    assert found[1:3] + found[4:] == places[1:3] + places[4:]


def test_a_topic_that_came_back_to_a_segment_that_is_emptied(
    connection: Session, clock: Clock
) -> None:
    """All that it has there goes at once, and with it what stands between in another one."""
    for retention in ("1 day", "2 days"):  # its class stays in use
        connection.create_topic(topic=new_name("other"), partitions=1, retention=retention)
    connection.create_topic(topic="back", partitions=1, retention="1 day")
    for retention in ("2 days", "1 day", "1 day"):
        connection.publish_batch(topic="back", payloads=[1, 2])
        connection.alter_topic(topic="back", retention=retention)
        connection.cleanup()
    clock.advance("9 hours")
    assert "segment sealed" in actions(connection)
    connection.publish(topic="back", payload=3)
    clean(connection)
    clock.advance("25 hours")
    assert "segment truncated" in clean(connection)
    [found] = connection.list_offsets(topic="back")
    assert (found.first_offset, found.last_offset) == (7, 7)
    ranges = (
        "select array_agg(r.first_offset order by r.first_offset) from pgq.segment_range as r"
        " inner join pgq.partition as p using (partition_id) where p.topic = 'back'"
    )
    assert row(connection, ranges)[0][0] == 7
