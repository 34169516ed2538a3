"""DataFrames written by the data source: ``write.format("pgq")``."""

from __future__ import annotations

from typing import Any

import pytest

from support.bulk import begin, stage, staged
from support.clock import Clock
from support.cluster import PATIENCE
from support.log import new_topic
from support.session import Session
from support.stage import ROWS, Stage
from support.waiting import aside
from support.writer import assert_nothing_left, messages, numbers

pytest.importorskip("pyspark")


def test_a_dataframe_becomes_messages(spark: Any, save: Any, own: Session) -> None:
    topic = new_topic(own, partitions=2)
    save(numbers(spark, 1000), topic=topic, chunkRows=70)
    found = [int(body) for (body,) in messages(own, topic)]
    # each task to a partition of its own, in the order of its rows
    assert found == list(range(1000))
    assert_nothing_left(own)


def test_tasks_without_rows_and_frames_without_any(spark: Any, save: Any, own: Session) -> None:
    topic = new_topic(own)
    save(numbers(spark, 3, tasks=5), topic=topic)
    save(numbers(spark, 0), topic=topic)
    save(spark.createDataFrame([], "value string"), topic=topic)
    assert sorted(messages(own, topic)) == [(b"0",), (b"1",), (b"2",)]
    assert_nothing_left(own)


def test_a_write_with_a_name_is_written_once(spark: Any, save: Any, own: Session) -> None:
    """Once more it writes nothing, and the rows of the second time are not sent."""
    topic = new_topic(own)
    for rows in (30_000, 200_000):
        save(numbers(spark, rows), topic=topic, producer="p", seq=1, checkRepeated="false")
    assert len(messages(own, topic)) == 30_000
    save(numbers(spark, 5), topic=topic, producer="p", seq=2)
    assert len(messages(own, topic)) == 30_005
    assert_nothing_left(own)
    # without a name each write is new
    save(numbers(spark, 5), topic=topic)
    save(numbers(spark, 5), topic=topic)
    assert len(messages(own, topic)) == 30_015


def test_what_earlier_attempts_have_staged_is_removed(spark: Any, save: Any, own: Session) -> None:
    """Not what other writes have, which may run at the same time."""
    topic, other = new_topic(own), new_topic(own)
    mine = {"topic": topic, "owner": f"p 1 {topic}", "seq": 1}
    dead = begin(own, **mine)
    others = [
        begin(own, **{**mine, "owner": f"p 2 {topic}"}),
        begin(own, **{**mine, "owner": f"q 1 {topic}"}),
        begin(own, **{**mine, "owner": f"p 1 {other}"}),
        begin(own, **{**mine, "seq": 2**62}),
    ]
    for write_id in (dead, *others):
        stage(own, write_id, [b"-1"])
    save(numbers(spark, 5), topic=topic)
    assert staged(own, dead) > 0
    save(numbers(spark, 5), topic=topic, producer="p", seq=1)
    assert staged(own, dead) == 0
    for write_id in others:
        assert own.commit_write(write_id=write_id).messages == 1


def test_the_name_is_that_of_publish_too(spark: Any, broker: Any, save: Any, own: Session) -> None:
    topic = new_topic(own)
    save(numbers(spark, 5), topic=topic, producer="p", seq=1)
    done = broker.publish(numbers(spark, 5), topic=topic, producer="p", seq=1)
    assert (done.messages, done.duplicate) == (5, True)


def test_rows_become_jobs(spark: Any, save: Any, own: Session) -> None:
    own.create_queue(queue="work")
    frame = spark.sql(
        """select '{"n": 1}' as payload, 'k' as key, 'late' as label, map('h', 'v') as headers"""
    )
    save(frame, queue="work", priority=2, delay="1 hour", producer="p", seq=1)
    save(frame, queue="work", priority=2, delay="1 hour", producer="p", seq=1)
    found = own.execute(
        "select payload, key, label, headers, priority, state from pgq.peek_jobs('work')"
    ).fetchall()
    assert found == [({"n": 1}, "k", "late", {"h": "v"}, 2, "delayed")]


@pytest.mark.slow  # Spark tries its tasks four times
def test_a_job_that_fails_publishes_nothing(
    spark: Any, save: Any, own: Session, clock: Clock
) -> None:
    """What tasks have staged that failed then is cleaned up when it is old."""
    topic = new_topic(own)
    frame = numbers(spark, 100).selectExpr(
        "if(value = '99', raise_error('not this one'), value) as value"
    )
    with pytest.raises(Exception, match="not this one"):
        save(frame, topic=topic)
    assert messages(own, topic) == []
    clock.advance("2 days")
    own.cleanup()
    assert messages(own, topic) == []
    assert_nothing_left(own)


def test_a_number_that_is_not_the_expected_one(spark: Any, save: Any, own: Session) -> None:
    topic = new_topic(own)
    for options in ({"topic": topic}, {}):
        frame = numbers(spark, 4).selectExpr("value", f"'{topic}' as topic")
        with pytest.raises(Exception, match="5"):
            save(frame, expectedMessages=5, **options)
        assert messages(own, topic) == []
        assert_nothing_left(own)
    save(numbers(spark, 5), topic=topic, expectedMessages=5)
    assert len(messages(own, topic)) == 5


def test_what_cannot_be_done_is_said(spark: Any, save: Any, own: Session) -> None:
    topic, frame = new_topic(own), numbers(spark, 1)
    with pytest.raises(Exception, match="cannot overwrite a topic"):
        save(frame, mode="overwrite", topic=topic)
    for mode in ("error", "ignore"):
        with pytest.raises(Exception, match=r"(?i)append"):
            save(frame, mode=mode, topic=topic)
    with pytest.raises(Exception, match="'topic' is missing"):
        save(frame)
    with pytest.raises(Exception, match="unknown topic"):
        save(frame, topic="nowhere")
    with pytest.raises(Exception, match="cannot be written: val"):
        save(frame.selectExpr("value as val"), topic=topic)
    assert messages(own, topic) == []


def test_the_connection_is_lost_while_the_commit_runs(spark: Any, stage: Stage, save: Any) -> None:
    """The driver asks again, and the database knows whether it was committed."""
    stage.stop_commit_after("update of committed_at on pgq.bulk_write")
    with stage.barrier():
        write = aside(lambda: save(numbers(spark, ROWS), topic=stage.topic))
        (committing,) = stage.until_waiting("advisory", "commit")
        stage.terminate(committing)
        stage.until_waiting("advisory", "commit")
        assert stage.visible() == []
    write.result(PATIENCE)
    stage.assert_every_row_once()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sslmode": "verify-full", "sslrootcert": "/nowhere/ca.pem"}, "SSL|certificate"),
        ({"options": "-c role=nobody_here"}, "nobody_here"),
    ],
)
def test_how_to_connect(
    spark: Any, save: Any, location: Any, own: Session, options: dict[str, str], message: str
) -> None:
    """The options of connections hold for reads and writes."""
    topic = new_topic(own)
    with pytest.raises(Exception, match=message):
        save(numbers(spark, 1), topic=topic, **options)
    url, properties = location
    settings = {"url": url, **properties, "topic": topic, **options}
    with pytest.raises(Exception, match=message):
        spark.read.format("pgq").options(**settings).load().collect()
