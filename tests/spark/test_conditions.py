"""Conditions of a query go to the database: only the messages that they leave are read."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.log import new_topic
from support.session import Session

pytest.importorskip("pyspark")

from pgq.messages import OffsetRange
from pgq.spark import PgqDataSource, register
from pgq.spark._source import KEEPS_PLANS, FilteringDataSource

if KEEPS_PLANS:
    from pyspark.sql.datasource import EqualTo, GreaterThan, IsNotNull, StringStartsWith

pytestmark = pytest.mark.skipif(not KEEPS_PLANS, reason="Spark 4.0 hands no conditions over")

Location = tuple[str, dict[str, str]]


@pytest.fixture
def load(spark: Any, location: Location) -> Any:
    register(spark)
    url, properties = location
    reader = spark.read.format("pgq").option("url", url).options(**properties)
    return lambda topics, **more: reader.option("subscribe", topics).options(**more).load()


@pytest.fixture
def reading(load: Any, own: Session, clock: Clock) -> Any:
    """A topic with 50 messages in each of three partitions, ten at each of five times."""
    topic = new_topic(own, partitions=3)
    for _ in range(5):
        clock.advance("1 minute")
        for partition in range(3):
            own.publish_batch(topic=topic, payloads=list(range(10)), partition=partition)
    return load(topic)


def places(frame: Any) -> list[tuple[int, int]]:
    return sorted((row["partition"], row["offset"]) for row in frame.collect())


def plan(frame: Any) -> str:
    """What Spark does, without what it may do while it runs."""
    text: str = frame._jdf.queryExecution().optimizedPlan().toString()
    return text


CONDITIONS = [
    "offset >= 48",
    "offset > 48 and partition = 0",
    "offset < 3 and partition in (0, 2)",
    "offset <= 3 and partition <=> 1",
    "offset = 7",
    "offset > 40 and offset >= 45 and offset < 50 and offset < 48",
    "not offset > 2",
    "offset between 3 and 5 and partition = 5",
    "partition in (0, 1) and partition in (1, 2) and offset = 9",
    "offset > 20 and offset < 10",
    "offset != 3 and offset < 5",
    "partition = 1 or offset = 3",
    "offset > 9223372036854775806",
    "offset % 10 = 3 and partition = 1",
    "key is null and offset = 3",
    "topic = 'another'",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_it_chooses_what_spark_would(reading: Any, condition: str) -> None:
    spark = reading.sparkSession
    rows = [(row["topic"], row["partition"], row["offset"]) for row in reading.collect()]
    kept = spark.createDataFrame(rows, "topic string, partition int, offset bigint")
    wanted = places(kept.selectExpr("*", "cast(null as string) as key").where(condition))
    assert places(reading.where(condition)) == wanted


def test_times_choose_exactly(reading: Any) -> None:
    everything = [(row["partition"], row["offset"], row["timestamp"]) for row in reading.collect()]
    at = sorted({moment for *_, moment in everything})
    one, other = at[3].isoformat() + "Z", at[9].isoformat() + "Z"
    for condition, keeps in (
        (f"timestamp >= '{one}'", lambda t: t >= at[3]),
        (f"timestamp > '{one}'", lambda t: t > at[3]),
        (f"timestamp < '{other}'", lambda t: t < at[9]),
        (f"timestamp <= '{other}'", lambda t: t <= at[9]),
        (f"timestamp = '{other}'", lambda t: t == at[9]),
        (f"timestamp > '{one}' and timestamp < '{other}'", lambda t: at[3] < t < at[9]),
    ):
        wanted = sorted((p, offset) for p, offset, moment in everything if keeps(moment))
        assert places(reading.where(condition)) == wanted, condition


def test_nothing_else_is_asked_for(load: Any, location: Location, own: Session) -> None:
    """Of 20,004 messages four, and Spark has no filter of its own left."""
    topic = new_topic(own, partitions=2, messages=10_002)
    frame = load(topic).where("offset > 9998 and partition = 0")
    assert places(frame) == [(0, n) for n in range(9999, 10_003)]
    filters = [line for line in plan(frame).splitlines() if "Filter" in line]
    assert [line for line in filters if "offset" in line or "partition" in line] == []
    url, properties = location
    source = FilteringDataSource({"url": url, **properties, "topic": topic})
    reader: Any = source.reader(source.schema())
    conditions = [GreaterThan(("offset",), 9998), EqualTo(("partition",), 0)]
    other = [IsNotNull(("key",)), StringStartsWith(("topic",), "t"), GreaterThan(("key",), b"x")]
    assert list(reader.pushFilters([*conditions, *other])) == other
    [task] = reader.partitions()
    [(_, _, ranges, _)] = task.value
    assert ranges == [OffsetRange(0, 9999, 10_002)]


def test_a_session_that_hands_nothing_over(spark: Any, location: Location, own: Session) -> None:
    """Spark filters what was read."""
    url, properties = location
    topic = new_topic(own, messages=9)
    spark = spark.newSession()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    spark.dataSource.register(PgqDataSource)
    frame = spark.read.format("pgq").options(url=url, topic=topic, **properties).load()
    assert places(frame.where("offset > 7")) == [(0, 8), (0, 9)]
