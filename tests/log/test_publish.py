"""publish: one message, its place, and what is stored."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.log import new_topic, newest, offsets
from support.session import Session, new_name, refused, unchanged

# What hashtextextended gives does not depend on the version of PostgreSQL; the second column is the
# partition of 8, the third of 5. Keys with a negative hash are marked.
GOLDEN = [
    ("", 5, 4),  # negative
    ("a", 1, 1),
    ("b", 0, 2),  # negative
    ("c", 2, 4),  # negative
    ("d", 2, 4),  # negative
    ("N725MQ", 5, 4),
    ("user-42", 7, 3),
    ("Köln", 1, 1),  # negative
    ("0", 4, 3),
    ("a long key with spaces in it", 4, 3),
    ("k1", 4, 4),  # negative
    ("k2", 0, 4),
    ("k3", 3, 4),  # negative
]


def test_the_first_offset_is_one_and_they_rise_by_one(log: Session) -> None:
    """Publish appends and returns partition and offset; nothing is a duplicate here."""
    topic = new_topic(log)
    assert [log.publish(topic=topic, payload=n) for n in range(3)] == [
        (0, 1, False),
        (0, 2, False),
        (0, 3, False),
    ]


def test_what_goes_in_comes_out(log: Session) -> None:
    """Key, headers and payload return as they were; published_at is the time of the clock."""
    topic = new_topic(log)
    headers = {"trace": "x", "n": [1, None]}
    log.publish(topic=topic, payload={"a": [1, None, "ü"]}, key="k", headers=headers)
    (row,) = log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=1)
    assert (row.key, row.headers, row.payload, row.body) == (
        "k",
        headers,
        {"a": [1, None, "ü"]},
        None,
    )
    recent = log.execute(
        "select %s between clock_timestamp() - interval '1 minute' and clock_timestamp()",
        [row.published_at],
    ).fetchone()
    assert recent == (True,)


@pytest.mark.parametrize("body", [b"", b"\x00\xff bytes", b"x" * 1_000_000])
def test_raw_bytes(log: Session, body: bytes) -> None:
    """A body of any bytes, an empty one too, instead of a payload."""
    topic = new_topic(log)
    log.publish(topic=topic, body=body)
    (row,) = log.fetch(topic=topic, consumer_group="readers")
    assert (row.body, row.payload) == (body, None)


@pytest.mark.parametrize("payload", ["null", "false", "0", '""', "[]", "{}"])
def test_empty_json_is_content(log: Session, payload: str) -> None:
    """A JSON null and other empty values are payloads like any other."""
    topic = new_topic(log)
    log.publish(topic=topic, payload=payload)
    text = log.execute("select payload::text from pgq.fetch_range(%s, 0, 1, 1)", [topic]).fetchone()
    assert text == (payload,)


def test_keys_have_their_partition(log: Session) -> None:
    """The same key always goes to the same partition, a negative hash too: golden values."""
    eight, five = new_topic(log, partitions=8), new_topic(log, partitions=5)
    found = [
        (
            key,
            log.publish(topic=eight, payload=1, key=key).partition,
            log.publish(topic=five, payload=1, key=key).partition,
        )
        for key, _, _ in GOLDEN
    ]
    assert found == GOLDEN
    negative = log.execute(
        "select count(*) from unnest(%s::text[]) as k where hashtextextended(k, 0) < 0",
        [[key for key, _, _ in GOLDEN]],
    ).fetchone()
    assert negative == (7,)


def test_a_named_partition_comes_before_the_key(log: Session) -> None:
    """With both, the message goes where it was told and keeps its key."""
    topic = new_topic(log, partitions=8)
    assert log.publish(topic=topic, payload=1, key="a", partition=6) == (6, 1, False)
    (row,) = log.fetch_range(topic=topic, partition=6, first_offset=1, last_offset=1)
    assert row.key == "a"


def test_it_does_so_where_a_segment_is_full(connection: Session, clock: Clock) -> None:
    """Whichever of them is the first to notice."""
    connection.create_topic(topic="t", partitions=4, retention="1 day")
    for partition in range(4):
        clock.advance("20 hours")
        found = connection.publish(topic="t", key="a", payload=1, partition=partition)
        assert found == (partition, 1, False)


def test_partitions_count_for_themselves(log: Session) -> None:
    """Each partition has its own offsets from 1."""
    topic = new_topic(log, partitions=3)
    for partition in (0, 1, 0, 2, 0):
        log.publish(topic=topic, payload=1, partition=partition)
    assert [newest(log, topic, partition) for partition in range(3)] == [3, 1, 1]


def test_topics_count_for_themselves(log: Session) -> None:
    """Offsets belong to a topic, and a reader gets the messages of its topic only."""
    one, other = new_topic(log, messages=2), new_topic(log)
    assert log.publish(topic=other, payload=9) == (0, 1, False)
    assert [row.payload for row in log.fetch(topic=other, consumer_group="readers")] == [9]
    assert len(log.fetch(topic=one, consumer_group="readers")) == 2


def test_without_a_key_a_free_partition_is_taken(log: Session) -> None:
    """Neither key nor partition: any partition; the message is there once."""
    topic = new_topic(log, partitions=4)
    place = log.publish(topic=topic, payload=1)
    assert place.partition in range(4)
    assert place.log_offset == 1
    assert sum(newest(log, topic, partition) for partition in range(4)) == 1


def test_time_rises_with_the_offset(log: Session, shared_clock: Clock) -> None:
    """A clock that is set back does not make a later message older."""
    topic = new_topic(log)
    for move in ("0", "1 hour", "-2 hours", "0"):
        shared_clock.advance(move)
        log.publish(topic=topic, payload=1)
        log.publish_batch(topic=topic, payloads=[1, 2])
    times = [
        row.published_at
        for row in log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=12)
    ]
    assert times == sorted(times)


def test_time_rises_into_another_segment(log: Session, shared_clock: Clock) -> None:
    """As it does within one: a clock that is set back does not make a later message older."""
    topic = new_topic(log)
    shared_clock.advance("1 hour")
    log.publish(topic=topic, payload=1)
    shared_clock.advance("-2 hours")
    log.alter_topic(topic=topic, retention="3 days")
    log.publish(topic=topic, payload=2)
    first, second = log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=2)
    assert first.published_at <= second.published_at


def test_rollback_leaves_no_gap(log: Session) -> None:
    """What was rolled back is gone and its offset is given out again; savepoints as well."""
    topic = new_topic(log)
    with log.transaction(force_rollback=True):
        assert log.publish(topic=topic, payload=1) == (0, 1, False)
    with log.transaction():
        assert log.publish(topic=topic, payload=2) == (0, 1, False)
        with log.transaction(force_rollback=True):
            assert log.publish(topic=topic, payload=3) == (0, 2, False)
        assert log.publish(topic=topic, payload=4) == (0, 2, False)
    rows = log.fetch(topic=topic, consumer_group="readers")
    assert [(row.log_offset, row.payload) for row in rows] == [(1, 2), (2, 4)]


@pytest.mark.parametrize(
    "level", ["read uncommitted", "read committed", "repeatable read", "serializable"]
)
def test_twice_in_one_transaction(log: Session, level: str) -> None:
    """In every isolation level the second call goes on where the first one ended."""
    topic = new_topic(log, partitions=2)
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        assert log.publish(topic=topic, payload=1, partition=1) == (1, 1, False)
        assert log.publish(topic=topic, payload=2, partition=1) == (1, 2, False)
        assert log.publish(topic=topic, payload=3, partition=0) == (0, 1, False)
        assert log.publish(topic=topic, body=b"4", key="k", headers={"h": 1}).log_offset in (2, 3)
        unkeyed = {log.publish(topic=topic, payload=n).partition for n in range(3)}
        assert len(unkeyed) == 1


def test_one_notification_for_each_transaction(log: Session) -> None:
    """A topic with notify tells the channel its name at commit, once, and others stay silent."""
    loud, silent = new_name("loud"), new_topic(log)
    log.create_topic(topic=loud, notify=True)
    log.execute("listen pgq_topic")
    try:
        with log.transaction():
            log.publish(topic=silent, payload=1)
            for n in range(3):
                log.publish(topic=loud, payload=n)
        with log.transaction(force_rollback=True):
            log.publish(topic=loud, payload=1)
        log.publish(topic=silent, payload=1)
        with log.transaction():
            log.execute("set transaction isolation level serializable")
            log.publish(topic=loud, payload=4)
        heard = [(notice.channel, notice.payload) for notice in log.notifies(timeout=0.05)]
        assert heard == [("pgq_topic", loud), ("pgq_topic", loud)]
    finally:
        log.execute("unlisten *")


def test_content_that_is_refused(log: Session) -> None:
    """No content, two contents, headers that are no object: an error and nothing stored."""
    topic = new_topic(log)
    with unchanged(log):
        refused("22004", log.publish, topic=topic)
        refused("22004", log.publish, topic=topic, payload=None, body=None, key="k")
        refused("22023", log.publish, topic=topic, payload=1, body=b"1")
        for headers in ("[]", '"text"', "1", "null", "true"):
            refused("22023", log.publish, topic=topic, payload=1, headers=headers)
        refused("22P02", log.publish, topic=topic, payload="{not json")
    assert log.publish(topic=topic, payload=1) == (0, 1, False)


def test_places_that_are_refused(log: Session) -> None:
    """An unknown topic or partition is an error, never a message that vanishes."""
    topic = new_topic(log, partitions=2)
    with unchanged(log):
        error = refused("MQ001", log.publish, topic="no-such-topic", payload=1)
        assert 'unknown topic "no-such-topic"' in str(error)
        refused("MQ001", log.publish, topic="no-such-topic", payload=1, key="k")
        refused("MQ001", log.publish, topic="no-such-topic", payload=1, partition=0)
        refused("MQ001", log.publish, topic="x' or '1'='1", payload=1)
        refused("MQ001", log.publish, topic="x" * 64, payload=1)
        refused("MQ001", log.publish, topic=topic.upper(), payload=1)
        refused("22004", log.publish, topic=None, payload=1)
        for partition in (-1, 2, 2**31 - 1, -(2**31)):
            error = refused("MQ007", log.publish, topic=topic, payload=1, partition=partition)
            assert error.diag.message_detail is not None
            assert "2 partitions" in error.diag.message_detail
        refused("22003", log.publish, topic=topic, payload=1, partition=2**31)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_refusals_in_other_isolation_levels(log: Session, level: str) -> None:
    """The same errors as under READ COMMITTED."""
    topic = new_topic(log)

    def publish(**arguments: Any) -> Any:
        with log.transaction():
            log.execute(f"set transaction isolation level {level}")
            return log.publish(**arguments)

    with unchanged(log):
        refused("MQ001", publish, topic="no-such-topic", payload=1)
        refused("MQ007", publish, topic=topic, payload=1, partition=1)
        refused("22004", publish, topic=topic)
        refused("22023", publish, topic=topic, payload=1, body=b"")
        refused("22023", publish, topic=topic, payload=1, headers="[]")
        refused("22004", publish, topic=None, payload=1)


def test_a_temporary_table_of_a_known_name_changes_nothing(log: Session) -> None:
    """Names in pg_temp never come before those of pgq."""
    topic = new_topic(log)
    log.execute("create temporary table topic (topic text, topic_id bigint)")
    log.execute("create temporary table message (payload jsonb)")
    log.execute("set search_path = pg_temp, pgq, public")
    try:
        assert log.publish(topic=topic, payload=1) == (0, 1, False)
        assert offsets(log.consume(topic=topic, consumer_group="readers")) == [1]
    finally:
        log.execute("reset search_path")
        log.execute("drop table pg_temp.topic, pg_temp.message")


def test_prepared_statements(log: Session) -> None:
    """It works as a prepared statement, again and again, when its plan has become generic."""
    topic = new_topic(log)
    for n in range(12):
        row = log.execute(
            "select * from pgq.publish(topic => %s, payload => %s)",
            [topic, psycopg.types.json.Jsonb(n)],
            prepare=True,
        ).fetchone()
        assert row == (0, n + 1, False)
    rows = log.fetch(topic=topic, consumer_group="readers")
    assert json.dumps([row.payload for row in rows]) == json.dumps(list(range(12)))
