"""Streams by the data source pgq: ``spark.readStream.format("pgq")``."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest
from psycopg import sql

from pgq.errors import UnknownPartition
from support.clock import Clock
from support.cluster import PATIENCE
from support.log import new_topic
from support.session import Connect, Session
from support.stream import Stream, needs_limits, remove
from support.waiting import wait_until

pytest.importorskip("pyspark")


def sources(query: Any) -> list[dict[str, Any]]:
    """What the progress of a query tells of the source, batch by batch."""
    return [json.loads(progress.json)["sources"][0] for progress in query.recentProgress]


# ---------------------------------------------------------------------------- batches


@pytest.mark.slow
def test_each_message_once_over_restarts(stream: Stream, own: Session) -> None:
    topic = new_topic(own, partitions=2, messages=3)
    assert stream.run(topic, startingOffsets="earliest") == [
        [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]
    ]
    # nothing new is no batch, and the options of the start do not count any more
    assert len(stream.run(topic, startingOffsets="latest")) == 1
    own.publish(topic=topic, payload=4, partition=1)
    assert stream.run(topic, startingOffsets="earliest")[1:] == [[(1, 4)]]


@pytest.mark.slow
def test_limits_and_what_comes_later(stream: Stream, own: Session, connect: Connect) -> None:
    """AvailableNow takes what was there at its start, in batches within the limit."""
    needs_limits()
    topic = new_topic(own, partitions=2, messages=5)
    late = connect(autocommit=True)

    def publish(batch_id: int) -> None:
        late.publish(topic=topic, payload=6, partition=batch_id % 2)

    stream.before_commit = publish
    query = stream.start(topic, startingOffsets="earliest", maxOffsetsPerTrigger=3, minPartitions=2)
    query.awaitTermination()
    first = stream.batches()
    assert [len(batch) for batch in first] == [3, 3, 3, 1]
    assert sorted(chain(*first)) == [(p, n) for p in (0, 1) for n in range(1, 6)]
    # the lag: where the topic ended while a batch was planned
    ends = [source["latestOffset"][topic] for source in sources(query)]
    assert ends[0] == {"0": 6, "1": 6}
    assert sum(ends[-1].values()) > 12
    assert sources(query)[-1]["endOffset"][topic] == {"0": 6, "1": 6}

    stream.before_commit = lambda batch_id: None
    second = stream.run(topic, maxOffsetsPerTrigger=3)[len(first) :]
    assert [len(batch) for batch in second] == [3, 1]
    assert sorted(chain(*second)) == [(0, 6), (0, 7), (1, 6), (1, 7)]


@pytest.mark.slow
def test_a_stream_begins_at_the_latest(stream: Stream, own: Session) -> None:
    """By default; and a connection that was cut between two batches does not end the query."""
    topic = new_topic(own, messages=2)
    query = stream.start(topic, available_now=False)
    planners = (
        "select pid from pg_stat_activity where application_name = 'pgq spark'"
        " and datname = current_database() and state = 'idle' and query ~ 'list_offsets'"
    )
    (pid,) = wait_until(
        lambda: own.execute(planners).fetchone(), PATIENCE, "for the stream to begin"
    )
    own.publish(topic=topic, payload=3)
    query.processAllAvailable()
    assert stream.batches() == [[(0, 3)]]
    own.execute("select pg_terminate_backend(%s)", [pid])
    own.publish(topic=topic, payload=4)
    query.processAllAvailable()
    assert stream.batches() == [[(0, 3)], [(0, 4)]]
    query.stop()
    wait_until(lambda: own.execute(planners).fetchone() is None, what="for the connection to end")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trigger", "refusal"),
    [
        # which Spark before 4.2 does not have
        (
            {"realTime": "5 minutes"},
            "STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED|unexpected keyword.* 'realTime'",
        ),
        ({"continuous": "1 second"}, "does not support continuous processing"),
    ],
)
def test_triggers_that_spark_refuses(
    spark: Any, own: Session, location: Any, trigger: dict[str, str], refusal: str
) -> None:
    from pgq.spark import register

    register(spark)
    options = {"url": location[0], **location[1], "topic": new_topic(own)}
    frame = spark.readStream.format("pgq").options(**options).load()
    with pytest.raises(Exception, match=refusal):
        sink = frame.writeStream.format("console").outputMode("update")
        sink.trigger(**trigger).start().awaitTermination()


@pytest.mark.slow
def test_the_latest_is_that_of_the_first_run(stream: Stream, own: Session) -> None:
    """Also if nothing was there to read; what comes between two runs is not passed over."""
    topic = new_topic(own, messages=2)
    assert stream.run(topic) == []
    own.publish(topic=topic, payload=3)
    assert stream.run(topic) == [[(0, 3)]]


@pytest.mark.slow
@pytest.mark.parametrize("source", ["pgq", "pgq_plain"])
def test_a_first_batch_that_is_repeated(
    stream: Stream, plain: str, own: Session, source: str
) -> None:
    """It has the messages that it had, wherever a new stream would begin by now."""
    stream.source = source
    topic = new_topic(own, messages=4)

    def fail(batch_id: int) -> None:
        raise RuntimeError("pgq: not this time")

    stream.before_commit = fail
    assert "not this time" in stream.fail(topic, startingOffsets=json.dumps({topic: {"0": 3}}))
    own.publish(topic=topic, payload=5)
    stream.before_commit = lambda batch_id: None
    # without SupportsTriggerAvailableNow, Spark ends a run after the batch that it repeated
    stream.run(topic, startingOffsets="latest")
    assert stream.run(topic, startingOffsets="latest") == [[(0, 3), (0, 4)], [(0, 5)]]


@pytest.mark.slow
def test_where_a_stream_begins(stream: Stream, own: Session, clock: Clock) -> None:
    topic = new_topic(own, messages=2)
    clock.advance("1 hour")
    row = own.execute("select (extract(epoch from pgq._clock()) * 1000)::bigint - 1").fetchone()
    assert row is not None
    own.publish_batch(topic=topic, payloads=[3, 4])
    offsets = json.dumps({topic: {"0": 2}})
    starts: list[dict[str, object]] = [{"startingTimestamp": row[0]}, {"startingOffsets": offsets}]
    for number, options in enumerate(starts):
        stream.checkpoint = stream.checkpoint.with_name(f"checkpoint {number}")
        own.execute("truncate public.got")
        assert stream.run(topic, **options) == [[(0, n) for n in range(3 - number, 5)]]


@pytest.mark.slow
def test_partitions_that_are_added(stream: Stream, own: Session) -> None:
    """While a query runs, and between two: they are read from their beginnings."""
    topic = new_topic(own, messages=1)
    query = stream.start(topic, available_now=False, startingOffsets="earliest")
    query.processAllAvailable()
    own.alter_topic(topic=topic, partitions=2)
    own.publish(topic=topic, payload=1, partition=1)
    query.processAllAvailable()
    query.stop()
    own.alter_topic(topic=topic, partitions=3)
    own.publish_batch(topic=topic, payloads=[1, 2], partition=2)
    assert stream.run(topic) == [[(0, 1)], [(1, 1)], [(2, 1), (2, 2)]]


@pytest.mark.slow
def test_a_reader_without_limits(stream: Stream, plain: str, own: Session) -> None:
    """The one for Spark before 4.2, which later versions can run as well."""
    stream.source = plain
    topic = new_topic(own, messages=2)
    assert stream.run(topic) == []
    own.publish(topic=topic, payload=3)
    assert stream.run(topic, startingOffsets="earliest") == [[(0, 3)]]
    assert stream.run(topic) == [[(0, 3)]]
    own.publish(topic=topic, payload=4)
    assert stream.run(topic) == [[(0, 3)], [(0, 4)]]


# ---------------------------------------------------------------------------- data loss


@pytest.mark.slow
def test_what_retention_removed(stream: Stream, own: Session, clock: Clock) -> None:
    topic = new_topic(own, messages=2)
    stream.run(topic, startingOffsets="earliest")
    own.publish_batch(topic=topic, payloads=[3, 4])
    remove(own, clock)
    own.publish_batch(topic=topic, payloads=[5, 6])
    text = stream.fail(topic)
    assert "offsets 3 to 4 are not there any more" in text
    assert "failOnDataLoss" in text
    assert stream.batches() == [[(0, 1), (0, 2)]]
    assert stream.run(topic, failOnDataLoss="false")[1:] == [[(0, 5), (0, 6)]]
    # the gap is behind it, so it goes on as strictly as before
    own.publish(topic=topic, payload=7)
    assert stream.run(topic)[2:] == [[(0, 7)]]


@pytest.mark.slow
def test_a_topic_made_anew(stream: Stream, own: Session) -> None:
    topic = new_topic(own, messages=3)
    stream.run(topic, startingOffsets="earliest")
    own.execute("select pgq.drop_topic(topic => %s)", [topic])
    own.create_topic(topic=topic, partitions=1)
    own.publish_batch(topic=topic, payloads=[11, 12, 13, 14, 15])
    assert "created again" in stream.fail(topic)
    assert stream.run(topic, failOnDataLoss="false")[1:] == [[(0, n) for n in range(1, 6)]]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_topic_made_anew_since_a_batch_was_planned(
    own: Session, location: tuple[str, dict[str, str]], fails: str
) -> None:
    """What the tasks of the batch would read is of another topic, so they fail with either."""
    from pgq.spark import PgqDataSource
    from pgq.spark._fetch import SCHEMA

    topic = new_topic(own, messages=3)
    url, properties = location
    options = {"url": url, **properties, "topic": topic, "failOnDataLoss": fails}
    reader = PgqDataSource({**options, "startingOffsets": "earliest"}).streamReader(SCHEMA)
    start = reader.initialOffset()
    (task,) = reader.partitions(start, {**start, topic: {"0": 4}})
    assert sum(batch.num_rows for batch in reader.read(task)) == 3
    own.drop_topic(topic=topic)
    own.create_topic(topic=topic, partitions=1)
    own.publish_batch(topic=topic, payloads=[1, 2, 3])
    with pytest.raises(UnknownPartition, match="is not the one that was planned"):
        list(reader.read(task))
    reader.stop()


@pytest.mark.slow
def test_a_checkpoint_of_another_topic(stream: Stream, own: Session) -> None:
    topic, other = new_topic(own, messages=1), new_topic(own, messages=1)
    stream.run(topic, startingOffsets="earliest")
    assert f"but of '{topic}'" in stream.fail(other)


@pytest.mark.slow  # four streams
def test_a_checkpoint_ahead_of_the_topic(stream: Stream, own: Session) -> None:
    """As after a restore of an older state: an error, or nothing is read until it is there."""
    topic = new_topic(own, messages=3)
    stream.run(topic, startingOffsets="earliest")
    leaf = own.execute("select tableoid::regclass::text from pgq.message limit 1").fetchone()
    assert leaf is not None
    own.execute(sql.SQL("delete from {}").format(sql.SQL(leaf[0])))
    own.publish(topic=topic, payload=10)
    assert "the topic ends at 1" in stream.fail(topic)
    assert len(stream.run(topic, failOnDataLoss="false")) == 1
    own.publish_batch(topic=topic, payloads=[20, 30, 40])
    assert stream.run(topic)[1:] == [[(0, 4)]]
