"""What readers of the log see once cleanup has removed messages, in a database of their own."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.log import committed_offsets, new_topic, offsets
from support.session import Connect, Session, refused

READERS = {"consumer_group": "readers"}


@pytest.fixture
def own(connection: psycopg.Connection[Any]) -> Session:
    """The log in a database of the test's own, where cleanup disturbs nobody."""
    return connection


def expire(log: Session, clock: Clock) -> None:
    """Let all that is stored become older than its retention, and clean up."""
    log.publish(topic=new_topic(log, groups=()), payload=0)
    for move in ("3 days", "0", "8 days", "0"):
        clock.advance(move)
        log.cleanup()


def test_messages_older_than_the_retention_go(own: Session, clock: Clock) -> None:
    """They are kept at least as long as the topic says, and at most a third longer."""
    topic = new_topic(own, messages=3)
    for _ in range(20):
        clock.advance("8 hours")
        own.cleanup()
    assert len(own.fetch(topic=topic, **READERS)) == 3
    for _ in range(9):
        clock.advance("8 hours")
        own.cleanup()
    assert own.execute("select count(*) from pgq.message where partition_id > 0").fetchone() == (0,)


def test_offsets_go_on(own: Session, clock: Clock) -> None:
    """After all messages are gone the next one has the next offset; time does not go back."""
    topic = new_topic(own, messages=3)
    expire(own, clock)
    assert own.publish(topic=topic, payload=4) == (0, 4, False)
    stats = own.execute(
        "select first_offset, last_offset, messages from pgq.topic_stats where topic = %s", [topic]
    ).fetchone()
    assert stats == (4, 4, 1)


def test_reading_what_is_gone_is_an_error(own: Session, clock: Clock) -> None:
    """Never silence: the offset is out of range, and DETAIL has the first one that there is."""
    topic = new_topic(own, messages=3)
    expire(own, clock)
    own.publish_batch(topic=topic, payloads=[4, 5])
    detail = "First available offset: 4; last available offset: 5."
    for function in ("claim_offsets", "consume", "fetch", "poll"):
        error = refused("MQ004", own.call, function, topic=topic, **READERS)
        assert error.diag.message_detail == detail
        assert "pgq.seek" in str(error.diag.message_hint)
        assert "pgq.alter_group" in str(error.diag.message_hint)
    for first, last in ((1, 5), (3, 4), (1, 1), (1, 3), (5, 6)):
        error = refused(
            "MQ004",
            own.fetch_range,
            topic=topic,
            partition=0,
            first_offset=first,
            last_offset=last,
        )
        assert error.diag.message_detail == detail
        missing = "Retention has removed it. pgq.list_offsets" if first < 4 else "not published yet"
        assert missing in str(error.diag.message_hint)
    assert offsets(own.fetch_range(topic=topic, partition=0, first_offset=4, last_offset=5)) == [
        4,
        5,
    ]


def test_seek_goes_on_behind_the_gap(own: Session, clock: Clock) -> None:
    """To the earliest, to a time before, to the first offset that there is; not to a lower one."""
    topic = new_topic(own, messages=3)
    expire(own, clock)
    own.publish_batch(topic=topic, payloads=[4, 5])
    refused("MQ004", own.seek, topic=topic, partition=0, log_offset=3, **READERS)
    for target in ({"start": "earliest"}, {"published_at": "-infinity"}):
        assert own.seek(topic=topic, **target, **READERS) == [(0, 4)]
    assert own.seek(topic=topic, partition=0, log_offset=4, **READERS) == [(0, 4)]
    assert offsets(own.consume(topic=topic, **READERS)) == [4, 5]


def test_a_group_may_skip_what_is_gone(own: Session, clock: Clock) -> None:
    """With out_of_range => skip, reading goes on with the oldest message that there is."""
    topic = new_topic(own, messages=3, groups=())
    groups = ("claim_offsets", "consume", "fetch", "poll")
    for group in groups:
        own.create_group(topic=topic, consumer_group=group, out_of_range="skip")
    expire(own, clock)
    for group in groups:
        assert own.call(group, topic=topic, consumer_group=group) == []
    own.publish_batch(topic=topic, payloads=[4, 5])
    assert own.claim_offsets(topic=topic, consumer_group="claim_offsets") == [(0, 4, 5)]
    for group in groups[1:]:
        assert offsets(own.call(group, topic=topic, consumer_group=group)) == [4, 5]


@pytest.mark.parametrize("function", ["claim_offsets", "consume", "poll"])
def test_skipping_an_emptied_partition_does_not_hide_the_others(
    own: Session, clock: Clock, function: str
) -> None:
    """Where all is gone in one partition, the messages of the other ones are found all the same."""
    topic = new_topic(own, partitions=8, messages=2, groups=())
    read = getattr(own, function)
    for group in ("g", "h"):
        own.create_group(topic=topic, consumer_group=group, out_of_range="skip")
    expire(own, clock)
    own.publish(topic=topic, payload=3, partition=5)
    for group in ("g", "h"):
        assert [row.partition for row in read(topic=topic, consumer_group=group)] == [5]
        assert read(topic=topic, consumer_group=group) == []
        assert read(topic=topic, consumer_group=group, partition=0) == []
    own.publish(topic=topic, payload=3, partition=0)
    assert [row.partition for row in read(topic=topic, consumer_group="g")] == [0]


def test_a_new_group_starts_at_what_is_kept(own: Session, clock: Clock) -> None:
    """The earliest message that there is, or behind the newest one."""
    topic = new_topic(own, messages=3, groups=())
    expire(own, clock)
    own.create_group(topic=topic, consumer_group="empty")
    own.publish(topic=topic, payload=4)
    own.create_group(topic=topic, consumer_group="all")
    own.create_group(topic=topic, consumer_group="new", start="latest")
    assert [committed_offsets(own, topic, group) for group in ("empty", "all", "new")] == [
        [3],
        [3],
        [4],
    ]


def test_ranges_that_span_segments(own: Session, clock: Clock) -> None:
    """Claims, reads and seeks know nothing of the segments below them."""
    topic = new_topic(own)
    for number in range(4):
        own.publish_batch(topic=topic, payloads=[number] * 3)
        clock.advance("60 hours")
        own.cleanup()
    own.publish(topic=topic, payload=4)
    first = own.execute("select first_offset from pgq.topic_stats").fetchone()
    assert first is not None
    start = first[0]
    segments = own.execute(
        "select count(distinct segment) from pgq.message where partition_id > 0"
    ).fetchone()
    assert segments is not None
    assert segments[0] >= 3
    rows = own.fetch_range(topic=topic, partition=0, first_offset=start, last_offset=13)
    assert offsets(rows) == list(range(start, 14))
    times = [row.published_at for row in rows]
    assert times == sorted(times)
    for row in rows:
        (place,) = own.seek(topic=topic, published_at=row.published_at, **READERS)
        assert place == (0, start + times.index(row.published_at))
    own.seek(topic=topic, start="earliest", **READERS)
    assert offsets(own.fetch(topic=topic, **READERS)) == list(range(start, 14))
    polled = own.poll(topic=topic, max_messages=5, **READERS)
    assert offsets(polled) == list(range(start, start + 5))
    own.commit_offset(
        topic=topic,
        partition=0,
        committed_offset=start + 4,
        lease_token=polled[0].lease_token,
        **READERS,
    )
    assert offsets(own.consume(topic=topic, **READERS)) == list(range(start + 5, 14))


def test_old_positions_are_trimmed(own: Session) -> None:
    """The journal of a group keeps its last thousand changes, and the position stays."""
    topic = new_topic(own, messages=1)
    for _ in range(1100):
        own.seek(topic=topic, start="latest", **READERS)
    own.seek(topic=topic, partition=0, log_offset=1, **READERS)
    assert ("positions trimmed", f"{topic}/readers", 101) in own.cleanup()
    assert committed_offsets(own, topic, "readers") == [0]
    assert offsets(own.consume(topic=topic, **READERS)) == [1]


def test_no_hole_when_the_retention_became_shorter(own: Session, clock: Clock) -> None:
    """Old messages were to be kept for longer, later ones are gone: the log begins behind those.

    A reader in the old part gets the error, and never the messages before and after a hole.
    """
    topic = new_topic(own, groups=("readers", "far"))
    own.alter_topic(topic=topic, retention="900 days")
    own.publish_batch(topic=topic, payloads=[1, 2, 3])
    own.alter_topic(topic=topic, retention="7 days")
    own.publish_batch(topic=topic, payloads=[4, 5, 6])
    own.commit_offset(topic=topic, partition=0, committed_offset=1, **READERS)
    own.commit_offset(topic=topic, consumer_group="far", partition=0, committed_offset=6)
    expire(own, clock)
    own.publish_batch(topic=topic, payloads=[7, 8])
    for function in ("claim_offsets", "consume", "fetch", "poll"):
        refused("MQ004", own.call, function, topic=topic, **READERS)
        refused("MQ004", own.call, function, topic=topic, partition=0, **READERS)
    assert offsets(own.consume(topic=topic, consumer_group="far")) == [7, 8]
    own.seek(topic=topic, start="earliest", **READERS)
    assert offsets(own.consume(topic=topic, **READERS)) == [7, 8]


def test_a_reader_in_an_old_snapshot(own: Session, connect: Connect, clock: Clock) -> None:
    """What was removed under a snapshot is an error for it as well, not an empty answer."""
    topic = new_topic(own, messages=3)
    clock.advance("3 days")
    while own.execute("select from pgq.segment where state = 'closed'").rowcount == 0:
        own.cleanup()
    reader = connect(isolation_level="repeatable read")
    reader.execute("select 1")
    clock.advance("8 days")
    assert "segment truncated" in [row.action for row in own.cleanup()]
    refused("MQ004", reader.fetch_range, topic=topic, partition=0, first_offset=1, last_offset=3)
