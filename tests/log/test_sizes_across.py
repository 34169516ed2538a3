"""How much one read returns, across partitions and segments: by sizes, not by their bounds."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.log import new_topic, offsets
from support.session import Connect, Session, new_name, refused, row
from support.storage import clean
from support.waiting import blocked

MEGABYTE = 1 << 20


def test_a_large_message_of_the_past(log: Session) -> None:
    """A partition that had one hides no other: fetch returns all that fits."""
    topic = new_topic(log, partitions=4)
    for partition in range(4):
        log.publish(topic=topic, body=bytes(MEGABYTE), partition=partition)
        log.commit_offset(
            topic=topic, consumer_group="readers", partition=partition, committed_offset=1
        )
        log.publish(topic=topic, payload=partition, partition=partition)
    rows = log.fetch(topic=topic, consumer_group="readers", max_bytes=MEGABYTE)
    assert [(m.partition, m.payload, m.cut_short) for m in rows] == [
        (n, n, False) for n in range(4)
    ]
    log.publish(topic=topic, body=bytes(MEGABYTE), partition=3)
    rows = log.fetch(topic=topic, consumer_group="readers", max_bytes=MEGABYTE)
    assert [m.partition for m in rows] == [0, 1, 2, 3]
    assert [m.cut_short for m in rows] == [False, False, False, True]


@pytest.mark.parametrize("call", ["consume", "poll", "fetch"])
def test_over_segments(connection: Session, clock: Clock, call: str) -> None:
    log, topic = connection, new_topic(connection)
    log.alter_topic(topic=topic, retention="3 hours")
    log.publish_batch(topic=topic, bodies=[bytes(MEGABYTE), b"1", b"2"])
    log.commit_offset(topic=topic, consumer_group="readers", partition=0, committed_offset=1)
    clock.advance("70 minutes")
    clean(log)
    log.publish_batch(topic=topic, bodies=[b"3", bytes(MEGABYTE), b"5"])
    for more, read in ((2, [2, 3, 4]), (3, [2, 3, 4, 5]), (4, [2, 3, 4, 5, 6])):
        with log.transaction(force_rollback=True):
            rows = getattr(log, call)(
                topic=topic, consumer_group="readers", max_bytes=MEGABYTE + more
            )
            assert offsets(rows) == read
            assert rows[-1].cut_short == (len(read) < 5)
    # the bound of the first two alone is as much
    rows = getattr(log, call)(topic=topic, consumer_group="readers", max_bytes=2 * MEGABYTE + 10)
    assert [message.cut_short for message in rows] == [False] * 5


@pytest.mark.parametrize("call", ["consume", "poll"])
def test_a_cut_in_a_partition_that_another_member_has(
    connection: Session, connect: Connect, call: str
) -> None:
    """What the next partition gives is not cut by that."""
    log, topic = connection, new_topic(connection, partitions=2)
    log.publish_batch(topic=topic, bodies=[bytes(1000)] * 10, partition=0)
    log.publish(topic=topic, payload=1, partition=1)
    (group_id,) = row(
        log, "select distinct group_id from pgq.group_partition where topic = %s", [topic]
    )
    places = dict(
        log.execute(
            "select partition, hash_position from pgq.partition where topic = %s", [topic]
        ).fetchall()
    )
    first, other = connect(), connect()
    first.execute(
        "select from pgq.group_partition where topic = %s and partition = 0 for no key update",
        [topic],
    )
    other.execute(
        "create or replace function pgq._hash_position() returns integer language sql volatile"
        f" as $$ select {places[0]} $$"
    )
    other.execute(
        "select set_config('pgq.found_in', pgq._found_in(%s), false),"
        " set_config('pgq.found_at', %s, false)",
        [group_id, str(places[1])],
    )
    rows = getattr(other, call)(topic=topic, consumer_group="readers", max_bytes=3000)
    assert [(m.partition, m.payload, m.cut_short) for m in rows] == [(1, 1, False)]
    other.rollback()


@pytest.mark.parametrize("call", ["consume", "poll", "fetch"])
@pytest.mark.parametrize("out_of_range", ["skip", "error"])
def test_a_segment_that_goes_while_it_is_measured(
    connection: Session, connect: Connect, clock: Clock, call: str, out_of_range: str
) -> None:
    """Nothing is claimed: between two looks cleanup has truncated what was found."""
    topic = new_name("topic")
    connection.create_topic(topic=topic, partitions=1, retention="3 hours")
    connection.create_group(topic=topic, consumer_group="readers", out_of_range=out_of_range)
    connection.publish_batch(topic=topic, payloads=[1, 2, 3])
    clock.advance("70 minutes")
    clean(connection)
    connection.publish_batch(topic=topic, payloads=[4, 5, 6])
    connection.execute(
        "create or replace function pgq._first_available(partition_id bigint) returns bigint"
        " language plpgsql volatile as $$ declare found bigint; begin"
        " select min(r.first_offset) into found from pgq.segment_range as r"
        " where r.partition_id = _first_available.partition_id;"
        " perform pg_advisory_xact_lock(4711); return found; end $$"
    )
    reader, holder = connect(), connect(autocommit=True)
    holder.execute("select pg_advisory_lock(4711)")
    asked: Any = {"topic": topic, "consumer_group": "readers", "max_messages": 2}
    waits = blocked(connection, reader, lambda: getattr(reader, call)(**asked))
    clock.advance("4 hours")
    clean(holder)
    holder.execute("select pg_advisory_unlock(4711)")
    gone = "MQ004" if (call, out_of_range) == ("fetch", "error") else "40001"
    refused(gone, waits.result, 10)
    reader.rollback()
