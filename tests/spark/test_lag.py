"""How far a stream is behind, by its progress."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.log import new_topic
from support.session import Session
from support.shards import Shards
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
