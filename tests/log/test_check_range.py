"""check_range: the key to a range in the view messages, or an error."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.log import new_topic
from support.session import Connect, Session, refused, unchanged

READ = """
    select log_offset, payload
    from pgq.messages
    where partition_id = pgq.check_range(%s, %s, %s, %s) and log_offset between %s and %s
    order by log_offset
"""


def read(
    connection: psycopg.Connection[Any], topic: str, first: int, last: int, partition: int = 0
) -> list[tuple[int, Any]]:
    """A range of the view."""
    return connection.execute(READ, [topic, partition, first, last, first, last]).fetchall()


def test_it_is_the_key_of_the_partition(log: Session) -> None:
    """The same for each range of a partition, another one for another partition."""
    topic = new_topic(log, partitions=2, messages=3)
    place = {"topic": topic, "partition": 1}
    key = log.check_range(first_offset=1, last_offset=3, **place)
    assert log.check_range(first_offset=2, last_offset=2, **place) == key
    other = log.check_range(topic=topic, partition=0, first_offset=1, last_offset=3)
    assert other != key
    rows = log.execute(
        "select distinct topic, partition from pgq.messages where partition_id = %s", [key]
    ).fetchall()
    assert rows == [(topic, 1)]


def test_an_empty_range_is_there(log: Session) -> None:
    """Wherever it lies."""
    topic = new_topic(log, messages=2)
    for first, last in ((2, 1), (3, 2), (1, 0), (1, -5), (9, 8), (2**63 - 1, -(2**63))):
        assert log.check_range(topic=topic, partition=0, first_offset=first, last_offset=last) > 0
        assert read(log, topic, first, last) == []


def test_a_range_that_is_not_there_as_a_whole(log: Session) -> None:
    """MQ004 with the offsets that there are, also when the view is read."""
    topic = new_topic(log, partitions=2, messages=3)
    top, bottom = 2**63 - 1, -(2**63)
    for first, last, missing in (
        (1, 4, 4),
        (4, 4, 4),
        (7, 9, 7),
        (0, 3, 0),
        (0, 0, 0),
        (1, top, 4),
        (bottom, top, bottom),
    ):
        error = refused(
            "MQ004",
            log.check_range,
            topic=topic,
            partition=1,
            first_offset=first,
            last_offset=last,
        )
        assert f"offset {missing} of topic" in str(error)
        assert error.diag.message_detail == ("First available offset: 1; last available offset: 3.")
        refused("MQ004", lambda: read(log, topic, first, last, 1))  # noqa: B023


def test_what_retention_has_removed(connection: psycopg.Connection[Any], clock: Clock) -> None:
    """An error, and so is a range that begins before what is left."""
    log = connection
    topic, other = new_topic(log, messages=3), new_topic(log, messages=1)
    for move in ("3 days", "0", "8 days", "0"):
        clock.advance(move)
        log.cleanup()
        log.publish(topic=other, payload=0)
    log.publish(topic=topic, payload=4)
    for first, last in ((1, 3), (1, 4), (3, 4)):
        with pytest.raises(psycopg.Error) as caught:
            read(connection, topic, first, last)
        assert caught.value.sqlstate == "MQ004"
        assert caught.value.diag.message_detail == (
            "First available offset: 4; last available offset: 4."
        )
    assert read(connection, topic, 4, 4) == [(4, 4)]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_an_old_snapshot_does_not_read_past_a_truncation(
    connection: psycopg.Connection[Any], connect: Connect, clock: Clock, level: str
) -> None:
    """It still knows the range, but the messages are gone: an error, never silence."""
    log = connection
    topic, other = new_topic(log, messages=3), new_topic(log, messages=1)
    session = connect(isolation_level=level)
    clock.advance("3 days")
    log.cleanup()
    log.publish(topic=topic, payload=4)
    session.execute("select from pgq.segment_range")
    for move in ("0", "8 days", "0"):
        clock.advance(move)
        log.cleanup()
        log.publish(topic=other, payload=0)
    assert log.list_offsets(topic=topic)[0].first_offset > 1
    for first, last in ((1, 3), (1, 4), (3, 3)):
        with pytest.raises(psycopg.Error) as caught:
            read(session, topic, first, last)
        assert caught.value.sqlstate == "MQ004"
        session.rollback()
        session.execute("select from pgq.segment_range")


@pytest.mark.parametrize(
    "level", ["read uncommitted", "read committed", "repeatable read", "serializable"]
)
def test_twice_in_one_transaction(log: Session, level: str) -> None:
    """It sees what its own transaction published in between; and it only reads."""
    topic = new_topic(log, messages=1)
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        assert read(log, topic, 1, 1) == [(1, 1)]
        log.publish(topic=topic, payload=2)
        assert read(log, topic, 1, 2) == [(1, 1), (2, 2)]
    with unchanged(log), log.transaction():
        log.execute("set transaction read only")
        assert read(log, topic, 2, 2) == [(2, 2)]


def test_refusals(log: Session) -> None:
    """Unknown places and nulls are errors, also for an empty range."""
    topic = new_topic(log, messages=1)
    for first, last in ((1, 1), (2, 1)):
        bounds = {"first_offset": first, "last_offset": last}
        refused("MQ001", log.check_range, topic="no-such-topic", partition=0, **bounds)
        refused("22004", log.check_range, topic=None, partition=0, **bounds)
        refused("22004", log.check_range, topic=topic, partition=None, **bounds)
        for partition in (-1, 1, 2**31 - 1):
            refused("MQ007", log.check_range, topic=topic, partition=partition, **bounds)
    for first, last in ((None, 1), (1, None), (None, None)):
        refused(
            "22004",
            log.check_range,
            topic=topic,
            partition=0,
            first_offset=first,
            last_offset=last,
        )
