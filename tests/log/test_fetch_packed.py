"""fetch_packed: a range of messages, many in a row."""

from __future__ import annotations

import json
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from support.session import Session, refused

TOPIC = {"topic": "readings"}


@pytest.fixture
def log(connection: Session) -> Session:
    connection.create_topic(**TOPIC, partitions=2)
    return connection


def publish(log: Session, bodies: list[Any], **columns: Any) -> None:
    log.publish_batch(**TOPIC, bodies=bodies, partition=0, **columns)


def fetched(log: Session, first: int, last: int, **more: Any) -> list[Any]:
    return log.fetch_packed(**TOPIC, partition=0, first_offset=first, last_offset=last, **more)


def test_what_it_gives_is_what_fetch_range_gives(log: Session) -> None:
    log.publish(**TOPIC, payload=Jsonb({"a": "ä"}), key="k", partition=0)
    publish(log, [b"x", b""], headers=[None, Jsonb({"h": "1", "n": None})])
    (packed,) = fetched(log, 1, 3)
    rows = log.fetch_range(**TOPIC, partition=0, first_offset=1, last_offset=3)
    assert (packed.first_offset, packed.messages) == (1, 3)
    assert packed.contents == ['{"a": "ä"}'.encode(), b"x", b""]
    assert packed.keys == [b"k", None, None]
    assert [json.loads(h) if h else h for h in packed.headers] == [
        None,
        None,
        [{"key": "h", "value": "1"}, {"key": "n", "value": None}],
    ]
    epoch = log.execute("select timestamptz 'epoch'").fetchone()[0]
    micros = [round((row.published_at - epoch).total_seconds() * 1e6) for row in rows]
    assert packed.published_micros == micros


def test_a_column_that_nobody_has_is_null(log: Session) -> None:
    publish(log, [b"x"])
    (packed,) = fetched(log, 1, 1)
    assert (packed.keys, packed.headers) == (None, None)


def test_a_header_with_several_texts_is_there_once_for_each(log: Session) -> None:
    several = {"twice": ["1", "2"], "null": ["1", None]}
    others = {"one": ["1"], "none": [], "mixed": ["1", 2], "nested": [["1"], "2"], "object": {}}
    publish(log, [b"x"], headers=[Jsonb({**several, **others})])
    (packed,) = fetched(log, 1, 1)
    found = [[entry["key"], entry["value"]] for entry in json.loads(packed.headers[0])]
    assert sorted(found, key=lambda entry: entry[0]) == [
        ["mixed", '["1", 2]'],
        ["nested", '[["1"], "2"]'],
        ["none", "[]"],
        ["null", "1"],
        ["null", None],
        ["object", "{}"],
        ["one", '["1"]'],
        ["twice", "1"],
        ["twice", "2"],
    ]


def test_a_thousand_in_a_row(log: Session) -> None:
    publish(log, [b"%d" % number for number in range(1, 2502)])
    packed = fetched(log, 2, 2501)
    assert [(row.first_offset, row.messages) for row in packed] == [
        (2, 1000),
        (1002, 1000),
        (2002, 500),
    ]
    assert [content for row in packed for content in row.contents] == [
        b"%d" % number for number in range(2, 2502)
    ]


def test_large_messages_are_fewer_in_a_row(log: Session) -> None:
    sizes = [10, 900_000, 200_000, 10, 3_000_000, 10]
    log.alter_topic(**TOPIC, max_message_bytes=4_000_000)
    publish(log, [bytes(size) for size in sizes])
    packed = fetched(log, 1, 6)
    assert [[len(content) for content in row.contents] for row in packed] == [
        [10, 900_000, 200_000],
        [10, 3_000_000],
        [10],
    ]


def test_large_payloads_are_fewer_in_a_row(log: Session) -> None:
    """They are stored compressed; what counts is what is sent."""
    payloads = [Jsonb("x" * 700_000)] * 3
    log.publish_batch(**TOPIC, payloads=payloads, partition=0)
    assert [row.messages for row in fetched(log, 1, 3)] == [2, 1]


def test_an_empty_range(log: Session) -> None:
    assert fetched(log, 1, 0) == []


LAST = 2**63 - 1


@pytest.mark.parametrize(
    ("first", "last"),
    [(0, 1), (1, 3), (3, 3), (-5, -1), (1, LAST), (LAST - 500, LAST), (LAST, LAST), (-LAST, LAST)],
)
def test_what_is_not_there(log: Session, first: int, last: int) -> None:
    publish(log, [b"x", b"y"])
    refused("MQ004", log.fetch_packed, **TOPIC, partition=0, first_offset=first, last_offset=last)


def test_what_retention_has_removed(log: Session, clock: Any) -> None:
    log.alter_topic(**TOPIC, retention="1 hour")
    publish(log, [b"x", b"y"])
    for _ in range(3):
        clock.advance("3 hours")
        publish(log, [b"z"])
        log.cleanup()
    place = log.list_offsets(**TOPIC)[0]
    assert place.first_offset > 1
    whole = {"partition": 0, "last_offset": place.last_offset}
    refused("MQ004", log.fetch_packed, **TOPIC, first_offset=1, **whole)
    kept = log.fetch_packed(**TOPIC, first_offset=place.first_offset, **whole)
    assert sum(row.messages for row in kept) == place.last_offset - place.first_offset + 1


def test_over_runs(log: Session) -> None:
    """What bulk writes have stored beforehand, beside what was published one by one."""
    publish(log, [b"first"])
    for seq in (1, 2):
        begun = log.begin_write(**TOPIC, producer="bulk", seq=seq)
        for chunk in (0, 1):
            bodies = [b"%d %d %d" % (seq, chunk, number) for number in range(400)]
            log.write_chunk(
                write_id=begun.write_id,
                task=0,
                task_attempt="00000000-0000-0000-0000-000000000000",
                chunk=chunk,
                lengths=[len(body) for body in bodies],
                packed_bodies=b"".join(bodies),
                partition=0,
                last_chunk=chunk == 1,
            )
        log.commit_write(write_id=begun.write_id)
        publish(log, [b"between"])
    runs = log.execute("select count(*) from pgq.segment_range where shift <> 0").fetchone()[0]
    assert runs == 2
    last = log.list_offsets(**TOPIC)[0].last_offset
    for first, upto in ((1, last), (2, 2), (801, 803), (300, 1100), (last, last)):
        rows = log.fetch_range(**TOPIC, partition=0, first_offset=first, last_offset=upto)
        packed = fetched(log, first, upto)
        assert [c for row in packed for c in row.contents] == [row.body for row in rows]
        offsets = [row.first_offset + n for row in packed for n in range(row.messages)]
        assert offsets == list(range(first, upto + 1))
        epoch = log.execute("select timestamptz 'epoch'").fetchone()[0]
        micros = [round((row.published_at - epoch).total_seconds() * 1e6) for row in rows]
        assert [m for row in packed for m in row.published_micros] == micros


def test_another_topic_with_the_name(log: Session) -> None:
    publish(log, [b"x"])
    topic_id = log.check_range(**TOPIC, partition=0, first_offset=1, last_offset=0)
    assert fetched(log, 1, 1, first_partition_id=topic_id)[0].messages == 1
    assert (
        log.fetch_packed(
            **TOPIC, partition=1, first_offset=1, last_offset=0, first_partition_id=topic_id
        )
        == []
    )
    log.drop_topic(**TOPIC)
    log.create_topic(**TOPIC, partitions=2)
    publish(log, [b"another"])
    planned = {"first_offset": 1, "last_offset": 1, "first_partition_id": topic_id}
    refused("MQ007", log.fetch_packed, **TOPIC, partition=0, **planned)


def test_what_is_unknown(log: Session) -> None:
    span = {"first_offset": 1, "last_offset": 1}
    refused("MQ001", log.fetch_packed, topic="nowhere", partition=0, **span)
    refused("MQ007", log.fetch_packed, **TOPIC, partition=2, **span)
    for name in ("topic", "partition", "first_offset", "last_offset"):
        given = {**TOPIC, "partition": 0, **span, name: None}
        refused("22004", log.fetch_packed, **given)
