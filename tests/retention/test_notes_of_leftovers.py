"""What is noted to be removed, where there is no retention: neither too much nor too little."""

from __future__ import annotations

import psycopg
import pytest

from support.clock import Clock
from support.session import Connect, Session, row
from support.storage import clean

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
