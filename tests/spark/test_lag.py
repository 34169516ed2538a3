"""How far a stream is behind, by its progress."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.log import new_topic
from support.session import Session
from support.stream import Stream, needs_limits
from support.waiting import wait_until

pytest.importorskip("pyspark")

from pgq.spark import Lag, LagListener, PartitionLag, _lag, lag


def told(topic: str, first: int, second: int) -> Lag:
    return Lag((PartitionLag(topic, 0, first), PartitionLag(topic, 1, second)))


@pytest.mark.slow
def test_the_lag_of_each_batch(spark: Any, stream: Stream, own: Session) -> None:
    """By the progress of a query, and by a listener; what came meanwhile is counted."""
    needs_limits()
    topic = new_topic(own, partitions=2, messages=4)
    heard: list[tuple[int, Lag]] = []
    listener = LagListener(lambda progress, found: heard.append((progress.batchId, found)))
    spark.streams.addListener(listener)
    try:
        query = stream.start(topic, startingOffsets="earliest", maxOffsetsPerTrigger=6)
        query.awaitTermination()
        lags = [told(topic, 1, 1), told(topic, 0, 0)]
        assert [lag(progress) for progress in query.recentProgress][:2] == lags
        assert [found.messages for found in lags] == [2, 0]
        first = query.recentProgress[0]
        assert lag(first.json) == lag(json.loads(first.json)) == lags[0]
        wait_until(lambda: len(heard) > 1, what="for the listener")
        assert heard[:2] == [(0, lags[0]), (1, lags[1])]
        # a query that reads from somewhere else is not reported
        count = len(heard)
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        other = rate.writeStream.format("noop").trigger(availableNow=True).start()
        other.awaitTermination()
        assert lag(other.recentProgress[0]) == Lag(())
        stream.run(topic)
        assert len(heard) == count
    finally:
        spark.streams.removeListener(listener)


def test_several_topics_and_shards() -> None:
    """In all forms of a position; another source is left out, and so is one before a batch."""
    one = {"a": {"0": 5, "1": 1}, "@id": 1, "@from": {"0": 1, "1": 1}}
    two = {"a": {"0": 9}, "b": {"0": 3}, "@id": {"a": 1, "b": 2}}
    sources = [
        {"endOffset": one, "latestOffset": {"a": {"0": 6, "1": 1, "2": 4}, "@id": 1}},
        {"endOffset": {**two, "@id": {"a": 1, "b": 2}}, "latestOffset": {**two, "a": {"0": 8}}},
        {"endOffset": {"a": {"0": 9}, "@id": {"a": 1}}, "latestOffset": two},
        {"endOffset": None, "latestOffset": one},
        {"endOffset": {"a": {"0": 5}}, "latestOffset": {"a": {"0": 7}}},
        {"endOffset": one, "latestOffset": {"@shards": [one, two], "@created": []}},
    ]
    found = [lag({"sources": [source]}).partitions for source in sources]
    assert found == [
        (("a", 0, 1, None), ("a", 1, 0, None), ("a", 2, 3, None)),
        (("a", 0, 0, None), ("b", 0, 0, None)),
        (("a", 0, 0, None), ("b", 0, 2, None)),
        (),
        (),
        (("a", 0, 0, 0), ("a", 1, 0, 0), ("a", 0, 8, 1), ("b", 0, 2, 1)),
    ]
    assert lag({"sources": sources}).messages == 1 + 3 + 2 + 8 + 2
    with pytest.raises(ValueError, match=r"from 4\.2 on"):
        lag({"sources": [{"endOffset": one, "latestOffset": None}]})


def test_a_spark_that_tells_no_latest_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lag, "HAS_LIMITS", False)
    with pytest.raises(NotImplementedError, match=r"Spark 4\.2"):
        LagListener()
