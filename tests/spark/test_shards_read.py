"""Reading a topic that is spread over several databases, as one DataFrame."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from typing import Any

import pytest
from pyspark.sql import functions as F

from pgq.errors import UnknownTopic
from support.session import Session
from support.shards import Shards

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "headers", "shard"]


@pytest.fixture
def topic(shards: Shards) -> str:
    """Ten messages in the first database, and twenty in the second."""
    topic = shards.create("readings")
    for shard, log in enumerate(shards.logs):
        for number in range(10 * (shard + 1)):
            log.publish(topic=topic, partition=number % 2, payload=100 * shard + number)
    return topic


WANTED = sorted([*range(10), *range(100, 120)])


def load(spark: Any, shards: Shards, **options: object) -> Any:
    """The topic by the data source."""
    from pgq.spark import register

    register(spark)
    return spark.read.format("pgq").options(**shards.options, topic="readings", **options).load()


def values(frame: Any) -> list[int]:
    """The numbers, sorted; each stands in the shard that it says."""
    rows = frame.select("shard", F.col("value").cast("string").cast("int")).collect()
    assert all(shard == number // 100 for shard, number in rows)
    return sorted(number for _, number in rows)


def test_all_as_one(spark: Any, shards: Shards, topic: str) -> None:
    """By both ways, with the same columns."""
    frames = [shards.broker(spark).read(topic=topic), load(spark, shards)]
    assert [frame.columns for frame in frames] == [COLUMNS, COLUMNS]
    assert frames[0].dtypes == frames[1].dtypes
    assert [values(frame) for frame in frames] == [WANTED, WANTED]
    shards.logs[1].publish(topic=topic, payload=120)
    assert values(frames[0]) == WANTED


def test_offsets_for_each(spark: Any, shards: Shards, topic: str) -> None:
    """A list has a bound for each database; both ways say the same."""
    frame = shards.broker(spark).read(
        topic=topic, start=[{0: 3, 1: -2}, {0: 11, 1: 1}], end=["latest", {0: -1, 1: 2}]
    )
    assert values(frame) == [1, 3, 4, 5, 6, 7, 8, 9, 101]
    source = load(
        spark,
        shards,
        startingOffsets='[{"readings": {"0": 3, "1": -2}}, {"readings": {"0": 11, "1": 1}}]',
        endingOffsets='[{"readings": {"0": -1, "1": -1}}, {"readings": {"0": -1, "1": 2}}]',
    )
    assert values(source) == values(frame)


@pytest.mark.parametrize("start", [{0: 1, 1: 1}, '{"readings": {"0": 1, "1": 1}}', ["earliest"]])
def test_offsets_for_all(spark: Any, shards: Shards, topic: str, start: Any) -> None:
    """Cannot be: each database has others."""
    with pytest.raises(ValueError, match=r"'start' has .*list with"):
        shards.broker(spark).read(topic=topic, start=start)
    if isinstance(start, str):
        with pytest.raises(Exception, match="for 2 databases it must be a list with a part for"):
            load(spark, shards, startingOffsets=start)


def test_a_time_is_for_all(spark: Any, shards: Shards, topic: str) -> None:
    """As the watermark is: the oldest of all."""
    broker = shards.broker(spark)
    end = broker.watermark(topic=topic)
    marks = [log.watermark(topic=topic) for log in shards.logs]
    assert end <= min(marks)
    for log in shards.logs:
        log.publish(topic=topic, payload=-1)
    assert values(broker.read(topic=topic, end=end)) == WANTED
    millis = str(int(datetime(2100, 1, 1, tzinfo=timezone.utc).timestamp() * 1000))
    assert values(load(spark, shards, startingTimestamp=millis)) == []


@pytest.mark.parametrize("wanted", [None, 6, 12])
def test_tasks_are_shared_by_what_there_is(
    spark: Any, shards: Shards, topic: str, wanted: int | None
) -> None:
    """As many as are wanted, of nearly the same size."""
    frames = [
        shards.broker(spark).read(topic=topic, min_partitions=wanted),
        load(spark, shards, **({} if wanted is None else {"minPartitions": wanted})),
    ]
    for frame in frames:
        sizes = Counter(row[0] for row in frame.select(F.spark_partition_id()).collect())
        assert len(sizes) >= (wanted or 1)
        assert wanted is None or max(sizes.values()) <= 30 // wanted


def test_a_database_twice(spark: Any, shards: Shards, topic: str) -> None:
    """Would be read twice."""
    from pgq.spark import Pgq

    urls = [shards.urls[0], shards.urls[1], shards.urls[0] + "?ApplicationName=again"]
    with pytest.raises(ValueError, match="one database twice, as the shards 0 and 2"):
        Pgq(spark, urls, shards.properties).read(topic=topic)
    twice = {**shards.options, "url": " ".join(urls), "topic": topic}
    with pytest.raises(Exception, match="one database twice, as the shards 0 and 2"):
        spark.read.format("pgq").options(**twice).load().collect()


def test_a_topic_that_one_does_not_have(spark: Any, shards: Shards) -> None:
    """Is unknown."""
    shards.logs[0].create_topic(topic="readings")
    with pytest.raises(UnknownTopic):
        shards.broker(spark).read(topic="readings")
    with pytest.raises(Exception, match='unknown topic "readings"'):
        load(spark, shards).collect()


def test_what_is_lost_is_said_with_its_shard(spark: Any, shards: Shards, topic: str) -> None:
    """So that one knows where to look."""
    start = [{0: 1, 1: 1}, {0: 99, 1: 1}]
    with pytest.raises(Exception, match="topic 'readings' of shard 1, partition 0: offset 99"):
        shards.broker(spark).read(topic=topic, start=start)


def test_each_database_by_itself(spark: Any, shards: Shards, topic: str) -> None:
    """As for a step of a group, which is one transaction in one of them."""
    broker = shards.broker(spark)
    for log in shards.logs:
        log.create_group(topic=topic, consumer_group="g", start="earliest")
    steps = [
        shard.consume(lambda frame: None, topic=topic, consumer_group="g")
        for shard in broker.shards
    ]
    assert [step.messages for step in steps] == [10, 20]
    assert "shard" not in broker.shards[1].read(topic=topic).columns
    names = [url.rpartition("/")[2] for url in shards.urls]
    assert all(name in repr(broker) for name in names)


def test_archives_and_dead_letters(spark: Any, shards: Shards) -> None:
    """With the shard of each."""
    for number, log in enumerate(shards.logs):
        log.create_queue(queue="work", max_attempts=1)
        _finish(log, number + 1)
    broker = shards.broker(spark)
    archived = broker.read_archived_jobs(queue="work", num_partitions=2).groupBy("shard").count()
    assert sorted(map(tuple, archived.collect())) == [(0, 1), (1, 2)]
    dead = broker.read_dead_letters(queue="work").groupBy("shard").count()
    assert sorted(map(tuple, dead.collect())) == [(0, 1), (1, 2)]


def _finish(log: Session, count: int) -> None:
    """So many jobs that succeed, and as many that die."""
    for outcome in ("ack", "nack"):
        for _ in range(count):
            log.enqueue(queue="work", payload=1)
            (job,) = log.claim_job(queue="work")
            if outcome == "ack":
                log.ack(job_id=job.job_id, lease_token=job.lease_token)
            else:
                log.nack(job_id=job.job_id, lease_token=job.lease_token, error="no")
