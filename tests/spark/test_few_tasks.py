"""Small ranges are read together, by tasks that share their connections."""

from __future__ import annotations

from typing import Any

import pytest

from pgq.errors import OffsetOutOfRange
from pgq.messages import OffsetRange
from support.clock import Clock
from support.log import new_topic
from support.session import Session
from support.stream import remove

pytest.importorskip("pyspark")

from pgq.spark import _fetch
from pgq.spark._fetch import Database, read_ranges
from pgq.spark._options import Options, parse_options

Location = tuple[str, dict[str, str]]


@pytest.fixture
def options(location: Location) -> Any:
    """The options of a read: ``options(topic, failOnDataLoss=…)``."""
    url, properties = location

    def parsed(topic: str, **more: str) -> Options:
        return parse_options({"url": url, **properties, "topic": topic, **more})

    return parsed


@pytest.fixture
def load(spark: Any, location: Location) -> Any:
    from pgq.spark import register

    register(spark)
    url, properties = location
    reader = spark.read.format("pgq").option("url", url).options(**properties)
    return lambda topic, **more: reader.option("topic", topic).options(**more).load()


def places(batches: list[Any]) -> list[tuple[int, int]]:
    return [
        place
        for batch in batches
        for place in zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True)
    ]


def test_large_messages_are_read_by_more_tasks(load: Any, broker: Any, own: Session) -> None:
    """By those of the end, though others are small."""
    topic = new_topic(own, messages=1000)
    own.execute(
        "select pgq.publish_batch(%s, bodies => array_fill(%s::bytea, array[20]))",
        [topic, b"x" * 2**20],
    )
    for frame in (load(topic), broker.read(topic=topic)):
        assert frame.rdd.getNumPartitions() == 8  # 128 of 1020 in each
        assert frame.count() == 1020


def test_messages_that_are_gone_tell_nothing(options: Any, own: Session, clock: Clock) -> None:
    """Of how large the others are; where that is an error, the tasks tell it."""
    topic = new_topic(own, messages=2)
    database = Database(options(topic))
    assert database.average(topic, OffsetRange(0, 1, 2)) == 1
    remove(own, clock)
    assert database.average(topic, OffsetRange(0, 1, 2)) is None
    database.close()


def test_small_ranges_come_in_few_batches(options: Any, own: Session) -> None:
    topic = new_topic(own, partitions=300, messages=4)
    own.publish(topic=topic, payload={"a": 1}, key="k", headers={"h": "v"}, partition=7)
    ranges = [OffsetRange(p, 1, 5 if p == 7 else 4) for p in range(300)]
    batches = list(read_ranges(options(topic), topic, ranges))
    assert [batch.num_rows for batch in batches] == [1001, 200]
    assert places(batches) == [(p, n) for p in range(300) for n in range(1, 6 if p == 7 else 5)]
    row = batches[0].slice(7 * 4 + 4, 1).to_pylist()[0]
    assert (row["key"], row["value"]) == (b"k", b'{"a": 1}')
    assert row["headers"] == [{"key": "h", "value": b"v"}]
    keys = batches[0]["key"].to_pylist()
    assert [place for place, key in enumerate(keys) if key is not None] == [7 * 4 + 4]


def test_large_messages_are_not_gathered(options: Any, own: Session) -> None:
    topic = new_topic(own)
    own.execute(
        "select pgq.publish_batch(%s, bodies => array_fill(%s::bytea, array[3]))",
        [topic, b"x" * 2**20],
    )
    found = read_ranges(options(topic), topic, [OffsetRange(0, 1, 3)])
    assert [batch.num_rows for batch in found] == [1, 1, 1]


def test_what_is_gone_of_one_range(options: Any, own: Session, clock: Clock) -> None:
    """Is an error behind what was there, or left out."""
    topic = new_topic(own, partitions=3)
    own.publish_batch(topic=topic, payloads=[1, 2, 3], partition=1)
    remove(own, clock)
    for partition, count in enumerate((5, 2, 5)):
        own.publish_batch(topic=topic, payloads=[0] * count, partition=partition)
    ranges = [OffsetRange(p, 1, 5) for p in range(3)]
    found = read_ranges(options(topic, failOnDataLoss="false"), topic, ranges)
    wanted = [(p, n) for p in range(3) for n in range(1, 6) if p != 1 or n > 3]
    assert places(list(found)) == wanted
    found = read_ranges(options(topic), topic, ranges)
    assert places([next(found)]) == [(0, n) for n in range(1, 6)]
    with pytest.raises(OffsetOutOfRange, match="partition 1: offsets 1 to 3"):
        next(found)


def readers(own: Session) -> list[int]:
    """The connections that read, by process."""
    rows = own.execute(
        "select pid from pg_stat_activity where datname = current_database()"
        " and application_name = 'pgq spark'"
    )
    return [pid for (pid,) in rows.fetchall()]


def test_the_next_task_has_the_connection_of_the_last(
    options: Any, own: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it was lost meanwhile, or left in the middle of an answer."""
    topic = new_topic(own, messages=5000)
    one = options(topic)

    def read() -> int:
        return sum(batch.num_rows for batch in read_ranges(one, topic, [OffsetRange(0, 1, 5000)]))

    assert read() == 5000
    [pid] = readers(own)
    assert read() == 5000
    assert readers(own) == [pid]
    left = read_ranges(one, topic, [OffsetRange(0, 1, 5000)])
    next(left)
    left.close()
    assert read() == 5000
    [pid] = readers(own)
    own.execute("select pg_terminate_backend(%s, 10000)", [pid])
    monkeypatch.setattr(_fetch, "_FRESH", 0.0)
    assert read() == 5000
    assert readers(own) not in ([], [pid])


def test_tasks_of_one_worker_share_a_connection(load: Any, options: Any, own: Session) -> None:
    """Of each of the two that local[2] has."""
    topic = new_topic(own, partitions=8, messages=50)
    frame = load(topic, minPartitions=8)
    assert frame.rdd.getNumPartitions() == 8
    for _ in range(3):
        assert frame.count() == 400
    assert 1 <= len(readers(own)) <= 2
