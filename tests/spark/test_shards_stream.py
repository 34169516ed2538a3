"""A stream from a topic that is spread over several databases."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.log import committed_offsets
from support.shards import Shards
from support.stream import needs_limits

pytest.importorskip("pyspark")

Batch = list[tuple[int, int]]
TOPIC = "readings"


class Query:
    """A query from the topic into a list, with a checkpoint, run again and again."""

    def __init__(self, spark: Any, shards: Shards, folder: Path, source: str) -> None:
        self._spark = spark
        self._shards = shards
        self._source = source
        self.checkpoint = folder / "checkpoint"
        self.batches: list[Batch] = []
        self.before_commit: Callable[[int], None] = lambda batch_id: None

    def run(self, urls: list[str] | None = None, **options: object) -> list[Batch]:
        """Run it to the end of what is there; shard and number of all that it got, by batch."""
        place = {**self._shards.options, "url": " ".join(urls or self._shards.urls)}
        frame = self._spark.readStream.format(self._source).options(**place, topic=TOPIC)
        query = (
            frame.options(**{"startingOffsets": "earliest", **options})
            .load()
            .writeStream.option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .foreachBatch(self._take)
            .start()
        )
        query.awaitTermination()
        return self.batches

    def _take(self, frame: Any, batch_id: int) -> None:
        columns = frame.columns
        rows = frame.selectExpr(
            "shard" if "shard" in columns else "-1 as shard", "int(string(value)) as number"
        ).collect()
        self.before_commit(batch_id)
        self.batches.append(sorted((row["shard"], row["number"]) for row in rows))

    def positions(self) -> dict[str, Any]:
        """What the newest batch's end is in the checkpoint."""
        newest = max((self.checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        found: dict[str, Any] = json.loads(newest.read_text().splitlines()[-1])
        return found


@pytest.fixture(params=["pgq", pytest.param("pgq_plain", marks=pytest.mark.long)])
def query(
    request: pytest.FixtureRequest, spark: Any, shards: Shards, plain: str, tmp_path: Path
) -> Query:
    """By the reader of this Spark, and by that for Spark before 4.2."""
    from pgq.spark import register

    register(spark)
    return Query(spark, shards, tmp_path, request.param)


def publish(shards: Shards, shard: int, *numbers: int) -> None:
    """Publish numbers in one database."""
    shards.logs[shard].publish_batch(topic=TOPIC, payloads=list(numbers), partition=0)


@pytest.mark.slow
def test_all_of_them_are_read_once(query: Query, shards: Shards) -> None:
    """From run to run, also where one has nothing new; a batch that failed is repeated."""
    shards.create(TOPIC)
    publish(shards, 0, 1, 2)
    publish(shards, 1, 3)
    assert query.run() == [[(0, 1), (0, 2), (1, 3)]]
    assert query.run() == [[(0, 1), (0, 2), (1, 3)]]
    publish(shards, 1, 4)

    def fail(batch_id: int) -> None:
        raise RuntimeError("not this time")

    query.before_commit = fail
    with pytest.raises(Exception, match="not this time"):
        query.run()
    publish(shards, 0, 5)
    query.before_commit = lambda batch_id: None
    query.run()
    assert query.run()[1:] == [[(1, 4)], [(0, 5)]]
    assert [part[TOPIC]["0"] for part in query.positions()["@shards"]] == [4, 3]


@pytest.mark.slow
def test_a_database_is_added(query: Query, shards: Shards) -> None:
    """To one, and while a batch that was planned before is repeated: it is read from its start."""
    shards.create(TOPIC)
    publish(shards, 0, 1, 2)
    publish(shards, 1, 11, 12)
    assert query.run(shards.urls[:1]) == [[(-1, 1), (-1, 2)]]
    publish(shards, 0, 3)

    def fail(batch_id: int) -> None:
        raise RuntimeError("not this time")

    query.before_commit = fail
    with pytest.raises(Exception, match="not this time"):
        query.run(shards.urls[:1])
    query.before_commit = lambda batch_id: None
    query.run(startingOffsets="latest")
    query.run(startingOffsets="latest")
    assert query.batches[1:] == [[(0, 3)], [(1, 11), (1, 12)]]
    publish(shards, 0, 4)
    publish(shards, 1, 13)
    assert query.run()[3:] == [[(0, 4), (1, 13)]]


@pytest.mark.slow
def test_the_order_of_the_urls_is_kept(query: Query, shards: Shards) -> None:
    """Another one is an error, and one that is taken away too; nothing is read twice."""
    shards.create(TOPIC)
    publish(shards, 0, 1)
    publish(shards, 1, 11)
    query.run()
    publish(shards, 0, 2)
    with pytest.raises(Exception, match="'url' has another order than the checkpoint: shard 0 of"):
        query.run(shards.urls[::-1])
    with pytest.raises(Exception, match="the checkpoint is one of 2 databases, and 'url' has 1"):
        query.run([*shards.urls[:1]])
    with pytest.raises(Exception, match="one database twice, as the shards 0 and 1"):
        query.run([shards.urls[0]] * 2)
    assert query.run()[1:] == [[(0, 2)]]


@pytest.mark.slow
def test_what_is_lost_is_said(query: Query, shards: Shards) -> None:
    """With its shard; a topic that was made anew in one of them is read from its start."""
    shards.create(TOPIC)
    publish(shards, 0, 1)
    publish(shards, 1, 11)
    query.run()
    shards.logs[1].drop_topic(topic=TOPIC)
    shards.logs[1].create_topic(topic=TOPIC, partitions=2)
    publish(shards, 1, 12)
    with pytest.raises(Exception, match="topic 'readings' of shard 1, it was dropped and created"):
        query.run()
    assert query.run(failOnDataLoss="false")[1:] == [[(1, 12)]]
    assert query.run()[2:] == []


@pytest.mark.slow
def test_groups_follow_in_each(query: Query, shards: Shards) -> None:
    """A run begins by noting where the last one has ended."""
    shards.create(TOPIC)
    for log in shards.logs:
        log.create_group(topic=TOPIC, consumer_group="readers")
    publish(shards, 0, 1, 2)
    publish(shards, 1, 3)
    for _ in range(2):
        query.run(consumerGroup="readers")
    assert [committed_offsets(log, TOPIC, "readers") for log in shards.logs] == [[2, 0], [1, 0]]
    shards.logs[1].drop_group(topic=TOPIC, consumer_group="readers")
    with pytest.raises(Exception, match="cannot be moved in topic 'readings' of shard 1"):
        query.run(consumerGroup="readers")


@pytest.mark.slow
def test_a_limit_is_shared(spark: Any, shards: Shards, tmp_path: Path) -> None:
    """In proportion to what waits in each; the bounds of a list begin in each."""
    from pgq.spark import register

    needs_limits()
    register(spark)
    shards.create(TOPIC)
    publish(shards, 0, *range(1, 5))
    publish(shards, 1, *range(10, 22))
    query = Query(spark, shards, tmp_path, "pgq")
    starts = json.dumps([{TOPIC: {"0": 1, "1": 1}}, {TOPIC: {"0": 5, "1": 1}}])
    batches = query.run(startingOffsets=starts, maxOffsetsPerTrigger=3)
    assert [len(batch) for batch in batches] == [3, 3, 3, 3]
    assert [{shard for shard, _ in batch} for batch in batches[:2]] == [{0, 1}, {0, 1}]
    assert sorted(row for batch in batches for row in batch) == [
        *((0, number) for number in range(1, 5)),
        *((1, number) for number in range(14, 22)),
    ]


@pytest.mark.slow
def test_a_stream_waits_for_enough(spark: Any, shards: Shards, tmp_path: Path) -> None:
    """The least number of a batch is that of all databases together."""
    from pgq.spark import register

    needs_limits()
    register(spark)
    shards.create(TOPIC)
    publish(shards, 0, 1)
    found: list[list[int]] = []
    query = (
        spark.readStream.format("pgq")
        .options(**shards.options, topic=TOPIC, startingOffsets="earliest")
        .options(minOffsetsPerTrigger=4, maxTriggerDelay="1h")
        .load()
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(
            lambda frame, _: found.append(
                sorted(row[0] for row in frame.selectExpr("int(string(value))").collect())
            )
        )
        .start()
    )
    query.processAllAvailable()
    publish(shards, 0, 2, 3)
    query.processAllAvailable()
    assert found == [[1]]
    publish(shards, 1, 4, 5)
    query.processAllAvailable()
    query.stop()
    assert found == [[1], [2, 3, 4, 5]]
