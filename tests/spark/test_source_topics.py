"""Several topics, partitions and patterns read by the data source pgq."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from support.cluster import PATIENCE
from support.log import new_topic
from support.session import Session, new_name
from support.stream import needs_limits
from support.waiting import wait_until

pytest.importorskip("pyspark")

Location = tuple[str, dict[str, str]]
Place = tuple[str, int, int]


@pytest.fixture
def read(spark: Any, location: Location) -> Any:
    """Topic, partition and offset of what a batch reads."""
    from pgq.spark import register

    register(spark)
    url, properties = location

    def found(**options: object) -> list[Place]:
        settings = {"url": url, **properties, **options}
        frame = spark.read.format("pgq").options(**settings).load()
        return sorted((row["topic"], row["partition"], row["offset"]) for row in frame.collect())

    return found


class Copy:
    """A stream into memory, run again and again from one checkpoint; batch by batch."""

    source = "pgq"

    def __init__(self, spark: Any, location: Location, checkpoint: Path) -> None:
        url, properties = location
        self._spark = spark
        self._settings = {"url": url, **properties}
        self.checkpoint = checkpoint
        self.batches: dict[int, list[Place]] = {}

    def start(self, *, available_now: bool = True, **options: object) -> Any:
        settings = {"startingOffsets": "earliest", **self._settings, **options}
        trigger = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
        return (
            self._spark.readStream.format(self.source)
            .options(**settings)
            .load()
            .writeStream.option("checkpointLocation", str(self.checkpoint))
            .trigger(**trigger)
            .foreachBatch(self._write)
            .start()
        )

    def run(self, **options: object) -> list[list[Place]]:
        """Run to the end of what is there; what came in this run."""
        before = set(self.batches)
        self.start(**options).awaitTermination()
        return [self.batches[batch] for batch in sorted(self.batches) if batch not in before]

    def position(self) -> Any:
        """What the checkpoint has of the last batch that was planned."""
        files = [path for path in (self.checkpoint / "offsets").iterdir() if path.name.isdecimal()]
        return json.loads(max(files, key=lambda path: int(path.name)).read_text().splitlines()[-1])

    def _write(self, frame: Any, batch_id: int) -> None:
        self.batches[batch_id] = sorted(
            (row["topic"], row["partition"], row["offset"]) for row in frame.collect()
        )


@pytest.fixture
def copy(spark: Any, location: Location, tmp_path: Path) -> Iterator[Copy]:
    from pgq.spark import register

    register(spark)
    yield Copy(spark, location, tmp_path / "checkpoint")
    for query in spark.streams.active:
        query.stop()


def all_of(topic: str, partitions: int, messages: int, first: int = 1) -> list[Place]:
    return [
        (topic, partition, offset)
        for partition in range(partitions)
        for offset in range(first, messages + 1)
    ]


# ---------------------------------------------------------------------------- batches


def test_a_batch_of_several_topics(read: Any, own: Session) -> None:
    one, two = sorted([new_topic(own, 2, messages=3), new_topic(own, messages=2)])
    every = sorted(read(topic=one) + read(topic=two))
    assert len(every) == 8
    new_topic(own, messages=1)
    assert read(subscribe=f"{one}, {two}", minPartitions=5) == every
    assert read(subscribePattern=f"({one}|{two})") == every
    assert read(subscribePattern=one) == read(topic=one)
    # the whole name has to match
    assert read(subscribePattern=one[:-1]) == []
    assert read(assign=json.dumps({one: [0], two: [0]})) == [
        place for place in every if place[1] == 0
    ]


def test_bounds_of_each_topic(read: Any, own: Session) -> None:
    one, two = new_topic(own, 2, messages=3), new_topic(own, messages=3)
    places = {"startingOffsets": json.dumps({one: {"0": 3, "1": -2}, two: {"0": 2}})}
    places["endingOffsets"] = json.dumps({one: {"0": -1, "1": 2}, two: {"0": 3}})
    wanted = sorted([(one, 0, 3), (one, 1, 1), (two, 0, 2)])
    assert read(subscribe=f"{one},{two}", **places) == wanted
    assert read(subscribePattern=f"{one}|{two}", **places) == wanted
    assigned = json.dumps({one: [1], two: [0]})
    with pytest.raises(Exception, match=r"partitions \[1\], offsets were given for \[0, 1\]"):
        read(assign=assigned, **places)
    with pytest.raises(Exception, match=f"has nothing for topic '{two}'"):
        read(subscribePattern=f"{one}|{two}", startingOffsets=json.dumps({one: {"0": 1, "1": 1}}))
    with pytest.raises(Exception, match=r"has the partitions \[0, 1\], 'assign' has \[7\]"):
        read(assign=json.dumps({one: [0, 7]}))
    with pytest.raises(Exception, match="unknown topic"):
        read(subscribe=f"{one},nowhere")


def test_a_time_for_each_partition(read: Any, own: Session) -> None:
    topic, other = new_topic(own, 2), new_topic(own)
    moments = []
    for payload in range(3):
        for partition in range(2):
            own.publish(topic=topic, payload=payload, partition=partition)
        own.publish(topic=other, payload=payload)
        # times are given in milliseconds
        (moment,) = own.execute(
            "select pg_sleep(0.002), ceil(extract(epoch from clock_timestamp()) * 1000)::bigint"
        ).fetchone()[1:]
        own.execute("select pg_sleep(0.002)")
        moments.append(moment)
    times = {topic: {"0": moments[0], "1": moments[1]}, other: {"0": moments[2]}}
    both = {"subscribe": f"{topic},{other}"}
    # nothing came after the last one: it begins at the end
    assert read(**both, startingOffsetsByTimestamp=json.dumps(times)) == [
        *((topic, 0, 2), (topic, 0, 3), (topic, 1, 3)),
    ]
    assert read(**both, endingOffsetsByTimestamp=json.dumps(times)) == sorted(
        [*((topic, 0, 1), (topic, 1, 1), (topic, 1, 2)), *all_of(other, 1, 3)]
    )
    with pytest.raises(Exception, match="times were given for"):
        read(topic=topic, startingOffsetsByTimestamp=json.dumps({topic: {"0": moments[0]}}))


# ---------------------------------------------------------------------------- streams


@pytest.mark.slow
def test_a_stream_of_several_topics(copy: Copy, own: Session) -> None:
    """Limits are shared among all, and each message comes once over restarts."""
    needs_limits()
    one, two = new_topic(own, 2, messages=4), new_topic(own, messages=4)
    names = {"subscribe": f"{one},{two}", "maxOffsetsPerTrigger": 5}
    batches = copy.run(**names)
    assert [len(batch) for batch in batches] == [5, 5, 2]
    assert {topic for topic, _, _ in batches[0]} == {one, two}
    assert sorted(chain(*batches)) == sorted(all_of(one, 2, 4) + all_of(two, 1, 4))
    position = copy.position()
    assert position[one] == {"0": 5, "1": 5}
    assert position[two] == {"0": 5}
    assert position["@id"].keys() == {one, two}
    own.publish(topic=two, payload=5)
    assert copy.run(**names) == [[(two, 0, 5)]]
    assert copy.run(**names) == []


@pytest.mark.slow
def test_several_topics_without_limits(copy: Copy, plain: str, own: Session) -> None:
    """As Spark before 4.2 reads them."""
    copy.source = plain
    prefix = new_name("many")
    for name in ("a", "b"):
        own.create_topic(topic=f"{prefix}.{name}", partitions=1)
        own.publish_batch(topic=f"{prefix}.{name}", payloads=[1, 2])
    one, two, three = (f"{prefix}.{name}" for name in "abc")
    pattern = {"subscribePattern": f"{prefix}.*"}
    assert copy.run(**pattern) == [all_of(one, 1, 2) + all_of(two, 1, 2)]
    own.create_topic(topic=three, partitions=1)
    for topic in (one, three):
        own.publish(topic=topic, payload=3)
    found = copy.run(**pattern) + copy.run(**pattern)
    assert sorted(chain(*found)) == [(one, 0, 3), (three, 0, 1)]


@pytest.mark.slow
def test_topics_that_match_are_found_while_a_stream_runs(copy: Copy, own: Session) -> None:
    """A later one is read from its beginning, wherever the stream began."""
    prefix = new_name("many")
    first = f"{prefix}.a"
    own.create_topic(topic=first, partitions=1)
    own.publish(topic=first, payload=1)
    query = copy.start(
        available_now=False, subscribePattern=f"{prefix}.*", startingOffsets="latest"
    )
    planned = (
        "select from pg_stat_activity where application_name = 'pgq spark'"
        " and datname = current_database() and query ~ 'l.topic = any'"
    )
    wait_until(
        lambda: own.execute(planned).fetchone() is not None, PATIENCE, "for the stream to begin"
    )
    own.publish(topic=first, payload=2)
    query.processAllAvailable()
    second = f"{prefix}.b"
    own.create_topic(topic=second, partitions=2)
    for partition in range(2):
        own.publish_batch(topic=second, payloads=[1, 2], partition=partition)
    new_topic(own, messages=1)
    query.processAllAvailable()
    query.stop()
    assert copy.position()["@id"].keys() == {first, second}
    found = list(chain(*copy.batches.values()))
    assert sorted(place for place in found if place[0] == second) == all_of(second, 2, 2)
    assert (first, 0, 2) in found
    assert len(found) == len(set(found))
    own.publish(topic=second, payload=3, partition=1)
    assert copy.run(subscribePattern=f"{prefix}.*") == [[(second, 1, 3)]]


@pytest.mark.slow
def test_checkpoints_of_one_topic(copy: Copy, own: Session) -> None:
    """They are written as ever, and go on when more topics are named."""
    one, two = new_topic(own, messages=2), new_topic(own, messages=2)
    assert copy.run(topic=one) == [all_of(one, 1, 2)]
    assert isinstance(copy.position()["@id"], int)
    assert copy.run(subscribe=one) == []
    own.publish(topic=one, payload=3)
    wanted = sorted([(one, 0, 3), *all_of(two, 1, 2)])
    assert copy.run(subscribe=f"{one},{two}") == [wanted]
    assert copy.position()["@id"].keys() == {one, two}
    query = copy.start(topic=two)
    with pytest.raises(Exception, match="another topic needs a checkpoint of its own"):
        query.awaitTermination()


@pytest.mark.slow
def test_a_topic_that_was_dropped(copy: Copy, own: Session) -> None:
    prefix = new_name("many")
    for name in ("a", "b"):
        own.create_topic(topic=f"{prefix}.{name}", partitions=1)
        own.publish(topic=f"{prefix}.{name}", payload=1)
    pattern = {"subscribePattern": f"{prefix}.*"}
    assert len(copy.run(**pattern)[0]) == 2
    own.drop_topic(topic=f"{prefix}.b")
    own.publish(topic=f"{prefix}.a", payload=2)
    with pytest.raises(Exception, match=f"{prefix}.b', it was dropped"):
        copy.run(**pattern)
    assert copy.run(**pattern, failOnDataLoss="false") == [[(f"{prefix}.a", 0, 2)]]
    assert copy.position()["@id"].keys() == {f"{prefix}.a"}


@pytest.mark.slow
def test_a_batch_waits_until_it_is_large_enough(copy: Copy, own: Session) -> None:
    """The first of a run does not wait, nor does one of AvailableNow."""
    needs_limits()
    topic = new_topic(own, messages=1)
    query = copy.start(available_now=False, topic=topic, minOffsetsPerTrigger=3)
    wait_until(lambda: 0 in copy.batches, PATIENCE, "for the first batch")
    own.publish(topic=topic, payload=2)
    query.processAllAvailable()
    assert sorted(copy.batches) == [0]
    own.publish_batch(topic=topic, payloads=[3, 4])
    wait_until(lambda: 1 in copy.batches, PATIENCE, "for the second batch")
    query.stop()
    assert copy.batches[1] == [(topic, 0, 2), (topic, 0, 3), (topic, 0, 4)]
    own.publish(topic=topic, payload=5)
    assert copy.run(topic=topic, minOffsetsPerTrigger=3) == [[(topic, 0, 5)]]
    own.publish(topic=topic, payload=6)
    # one that has waited for so long does not wait any more
    query = copy.start(
        available_now=False, topic=topic, minOffsetsPerTrigger=100, maxTriggerDelay="1ms"
    )
    for number in (7, 8):
        wait_until(lambda number=number: number - 4 in copy.batches, PATIENCE, "for a batch")
        own.publish(topic=topic, payload=number)
    wait_until(lambda: 5 in copy.batches, PATIENCE, "for the last batch")
