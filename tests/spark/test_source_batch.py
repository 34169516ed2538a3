"""Batches by the data source pgq: ``spark.read.format("pgq")``."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from psycopg import sql

from support.clock import Clock
from support.log import new_topic
from support.session import Session
from support.stream import remove

pytest.importorskip("pyspark")

Location = tuple[str, dict[str, str]]


@pytest.fixture
def load(spark: Any, location: Location) -> Any:
    """Read a topic: ``load(topic, startingOffsets=…)`` gives a DataFrame."""
    from pgq.spark import register

    register(spark)
    url, properties = location

    def read(topic: str, **options: object) -> Any:
        reader = spark.read.format("pgq").option("url", url).options(**properties)
        return reader.option("topic", topic).options(**options).load()

    return read


def places(frame: Any) -> list[tuple[int, int]]:
    """Partition and offset of each message, in order; a message read twice is there twice."""
    return sorted((row["partition"], row["offset"]) for row in frame.collect())


def failure(frame: Any) -> str:
    """The error of a read that must fail."""
    with pytest.raises(Exception, match="pgq") as caught:
        frame.collect()
    return str(caught.value)


def offsets(topic: str, *next_offsets: int) -> str:
    return json.dumps({topic: {str(place): offset for place, offset in enumerate(next_offsets)}})


# ---------------------------------------------------------------------------- contents


def test_columns_are_those_of_kafka(load: Any, own: Session) -> None:
    frame = load(new_topic(own))
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    assert frame.collect() == []


def test_messages_arrive_as_they_are(load: Any, broker: Any, own: Session) -> None:
    topic = new_topic(own)
    own.publish(
        topic=topic,
        payload={"ä": [1, None, "x"]},
        key="schlüssel",
        headers={"a": "text ü", "b": {"c": [1, True]}, "d": 12, "e": False, "f": None},
    )
    own.publish(topic=topic, body=b"\0\xff{", headers={})
    own.publish(topic=topic, body=b"")
    own.publish(topic=topic, payload="null", key="")
    published = own.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=4)

    rows = sorted(load(topic).collect(), key=lambda row: row["offset"])
    assert [row["offset"] for row in rows] == [1, 2, 3, 4]
    assert {(row["topic"], row["partition"]) for row in rows} == {(topic, 0)}
    assert [row["key"] for row in rows] == ["schlüssel".encode(), None, None, b""]
    assert [bytes(row["value"]) for row in rows[1:]] == [b"\0\xff{", b"", b"null"]
    assert json.loads(rows[0]["value"]) == {"ä": [1, None, "x"]}
    assert [tuple(header) for header in rows[0]["headers"]] == [
        ("a", "text ü".encode()),
        ("b", b'{"c": [1, true]}'),
        ("d", b"12"),
        ("e", b"false"),
        ("f", None),
    ]
    assert [row["headers"] for row in rows[1:]] == [[], None, None]
    # the session's time zone is UTC, and so is the one that the rows are shown in
    times = [row["timestamp"].astimezone() for row in rows]
    assert times == [message.published_at for message in published]

    # the other way to read, by JDBC, gives the same
    others = sorted(broker.read(topic=topic).collect(), key=lambda row: row["offset"])
    for row, other in zip(rows, others, strict=True):
        assert row == other


@pytest.mark.slow
def test_many_messages_and_large_ones(load: Any, own: Session) -> None:
    """Several chunks, several batches, messages larger than a batch; each one is read once."""
    topic = new_topic(own, partitions=2)
    own.alter_topic(topic=topic, max_message_bytes=8 << 20)
    own.publish_batch(topic=topic, partition=0, bodies=[b"%d" % n for n in range(1, 30_001)])
    large = [bytes([n]) * (6 << 20) for n in range(3)]
    own.publish_batch(topic=topic, partition=1, bodies=[b"small", *large, b"small"])
    frame = load(topic)
    assert places(frame.select("partition", "offset")) == [
        *((0, n) for n in range(1, 30_001)),
        *((1, n) for n in range(1, 6)),
    ]
    assert frame.where("partition = 0 and cast(value as string) <> string(offset)").count() == 0
    got = frame.where("partition = 1").orderBy("offset").collect()
    assert [bytes(row["value"]) for row in got] == [b"small", *large, b"small"]


def test_the_first_action_decides_what_is_read(load: Any, own: Session) -> None:
    topic = new_topic(own, messages=3)
    frame = load(topic)
    assert frame.count() == 3
    own.publish(topic=topic, payload=4)
    assert places(frame) == [(0, 1), (0, 2), (0, 3)]
    assert load(topic).count() == 4


# ---------------------------------------------------------------------------- where


def test_offsets(load: Any, own: Session) -> None:
    """The start is included, the end is not."""
    topic = new_topic(own, partitions=2, messages=5)
    found = load(topic, startingOffsets=offsets(topic, 2, -2), endingOffsets=offsets(topic, 4, -1))
    assert places(found) == [(0, 2), (0, 3), *((1, n) for n in range(1, 6))]
    found = load(topic, startingOffsets=offsets(topic, 5, -1), endingOffsets=offsets(topic, 2, 6))
    assert places(found) == []
    assert load(topic, startingoffsets="EARLIEST", endingoffsets="latest").count() == 10


@pytest.mark.slow
def test_offsets_that_are_not_there(load: Any, own: Session) -> None:
    topic = new_topic(own, partitions=2, messages=5)
    assert "give one for each" in failure(load(topic, startingOffsets=offsets(topic, 1)))
    assert "give one for each" in failure(load(topic, endingOffsets=offsets(topic, 1, 1, 1)))
    for name in ("startingOffsets", "endingOffsets"):
        behind = {name: offsets(topic, 1, 7)}
        assert "offset 7 was asked for, but the topic ends at 5" in failure(load(topic, **behind))
    assert load(topic, endingOffsets=offsets(topic, 3, 7), failOnDataLoss=False).count() == 7


def test_timestamps(load: Any, own: Session, clock: Clock) -> None:
    topic = new_topic(own, partitions=2)
    times = []
    for number in range(4):
        clock.advance("1 hour")
        times.append(own.execute("select (extract(epoch from pgq._clock()) * 1000)::bigint - 1"))
        own.publish(topic=topic, payload=number, partition=0)
        own.publish(topic=topic, payload=number, partition=1 if number < 2 else 0)
    when = [cursor.fetchone()[0] for cursor in times]
    assert places(load(topic, startingTimestamp=when[1], endingTimestamp=when[2])) == [
        (0, 2),
        (1, 2),
    ]
    # no message that late: the end of partition 1, not an error
    assert places(load(topic, startingTimestamp=when[3])) == [(0, 5), (0, 6)]
    assert load(topic, startingTimestamp=0).count() == 8
    assert load(topic, endingTimestamp=when[0]).count() == 0
    both = load(topic, startingTimestamp=when[3], startingOffsets=offsets(topic, 1, 1))
    assert both.count() == 2


def test_tasks(load: Any, own: Session) -> None:
    topic = new_topic(own, partitions=2, messages=4)
    for wanted, tasks in ((None, 1), (1, 1), (3, 4), (4, 4), (100, 8)):
        options = {} if wanted is None else {"minPartitions": wanted}
        frame = load(topic, **options)
        assert frame.rdd.getNumPartitions() == tasks
        assert places(frame) == [(p, n) for p in (0, 1) for n in range(1, 5)]


# ---------------------------------------------------------------------------- errors


def test_wrong_options_are_an_error_of_load(load: Any) -> None:
    with pytest.raises(Exception, match="unknown option 'startingoffset'"):
        load("t", startingOffset="earliest")
    with pytest.raises(Exception, match="'minPartitions' is '0'"):
        load("t", minPartitions=0)


def test_a_topic_that_is_not_there(load: Any) -> None:
    assert 'unknown topic "nowhere"' in failure(load("nowhere"))


def test_what_retention_removed(load: Any, own: Session, clock: Clock) -> None:
    topic = new_topic(own, messages=3)
    remove(own, clock)
    own.publish_batch(topic=topic, payloads=[4, 5])
    assert places(load(topic)) == [(0, 4), (0, 5)]
    text = failure(load(topic, startingOffsets=offsets(topic, 2)))
    assert "offsets 2 to 3 are not there any more" in text
    assert "failOnDataLoss" in text
    found = load(topic, startingOffsets=offsets(topic, 2), failOnDataLoss="false")
    assert places(found) == [(0, 4), (0, 5)]


@pytest.mark.slow
def test_what_retention_removes_between_plan_and_task(
    load: Any, own: Session, clock: Clock
) -> None:
    topic = new_topic(own, messages=3)
    own.publish_batch(topic=new_topic(own), payloads=[1])
    frames = [load(topic, failOnDataLoss=fails, minPartitions=2) for fails in (True, False)]
    lost = [load(topic, failOnDataLoss=fails) for fails in (True, False)]
    for frame in lost:
        assert frame.rdd.getNumPartitions() == 1
    remove(own, clock)
    own.publish_batch(topic=topic, payloads=[4, 5])
    assert "offsets 1 to 3 are not there any more" in failure(lost[0])
    assert places(lost[1]) == []
    from pgq.spark import _source

    if _source.KEEPS_PLANS:
        # these are planned only now
        assert [places(frame) for frame in frames] == [[(0, 4), (0, 5)]] * 2


def test_a_topic_made_anew(load: Any, own: Session) -> None:
    topic = new_topic(own, messages=3)
    row = own.execute("select partition_id from pgq.partition").fetchone()
    assert row is not None
    start = json.dumps({topic: {"0": 2}, "@id": row[0]})
    assert places(load(topic, startingOffsets=start)) == [(0, 2), (0, 3)]
    own.execute("select pgq.drop_topic(topic => %s)", [topic])
    own.create_topic(topic=topic, partitions=1)
    own.publish_batch(topic=topic, payloads=[1, 2, 3])
    assert "created again" in failure(load(topic, startingOffsets=start))


@pytest.mark.slow  # Spark tries its tasks four times
@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_made_anew_since_it_was_planned(load: Any, own: Session, fails: bool) -> None:
    topic = new_topic(own, messages=3)
    frame = load(topic, failOnDataLoss=fails)
    assert frame.rdd.getNumPartitions() == 1
    own.drop_topic(topic=topic)
    own.create_topic(topic=topic, partitions=1)
    own.publish_batch(topic=topic, payloads=[1, 2, 3])
    assert "is not the one that was planned to be read" in failure(frame)


def test_a_role_that_may_only_read(
    load: Any, own: Session, connection: psycopg.Connection[Any]
) -> None:
    topic = new_topic(own, messages=3)
    role = sql.Identifier("pgq source reader")
    connection.execute(sql.SQL("create role {} login").format(role))
    try:
        assert "permission denied" in failure(load(topic, user="pgq source reader"))
        connection.execute(
            sql.SQL(
                "grant usage on schema pgq to {0}; grant execute on function"
                " pgq.list_offsets, pgq.check_range, pgq.fetch_packed to {0}"
            ).format(role)
        )
        assert load(topic, user="pgq source reader").count() == 3
    finally:
        connection.execute(sql.SQL("drop owned by {0}; drop role {0}").format(role))
