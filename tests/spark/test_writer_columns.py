"""What becomes of the columns of a DataFrame that the data source writes."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F

from support.cluster import PATIENCE
from support.log import new_topic
from support.session import Connect, Session, new_name
from support.waiting import aside, blocked, wait_until
from support.writer import assert_nothing_left, messages

Location = tuple[str, dict[str, str]]


@pytest.fixture
def load(spark: Any, location: Location) -> Any:
    """Read a topic of the test's own database, by the data source."""
    from pgq.spark import register

    register(spark)
    url, properties = location

    def read(topic: str) -> Any:
        return spark.read.format("pgq").options(url=url, **properties, topic=topic).load()

    return read


# ---------------------------------------------------------------------------- what was read


def test_what_was_read_is_written_as_it_is(save: Any, load: Any, own: Session) -> None:
    """To its topic again, or to another, into the partitions it comes from, in their order."""
    source, other = new_topic(own, partitions=3), new_topic(own, partitions=3)
    for number in range(30):
        own.publish(
            topic=source,
            body=b"%d" % number,
            key=None if number % 5 == 0 else f"k{number % 4}",
            headers=None if number % 3 else {"h": "é", "none": None},
        )
    columns = "partition, log_offset, body, key, headers"
    was = messages(own, source, columns)
    save(load(source), topic=other)
    assert messages(own, other, columns) == was

    save(load(other))
    twice = messages(own, other, "partition, body, key, headers")
    for partition in range(3):
        once = [(p, *rest) for p, _, *rest in was if p == partition]
        assert [row for row in twice if row[0] == partition] == once * 2
    assert messages(own, source, columns) == was


def test_json_can_stay_json(save: Any, load: Any, own: Session) -> None:
    """Written as bytes it would be a body."""
    source, other = new_topic(own, messages=3), new_topic(own)
    save(load(source), topic=other)
    assert messages(own, other, "payload, body") == [(None, b"%d" % n) for n in (1, 2, 3)]
    save(load(source), topic=other, valueFormat="json")
    assert messages(own, other, "payload, body")[3:] == [(n, None) for n in (1, 2, 3)]


def test_what_was_read_becomes_jobs(save: Any, load: Any, own: Session) -> None:
    source = new_topic(own, partitions=2, messages=2)
    own.create_queue(queue="work")
    save(load(source), queue="work")
    found = own.execute("select body from pgq.peek_jobs('work')").fetchall()
    assert sorted(found) == [(b"1",), (b"1",), (b"2",), (b"2",)]


# ---------------------------------------------------------------------------- several topics


def test_each_row_says_its_topic(spark: Any, save: Any, own: Session) -> None:
    topics = sorted(new_topic(own, partitions=2) for _ in range(3))
    frame = spark.range(0, 60, 1, 4).select(
        F.col("id").cast("string").alias("value"),
        F.element_at(F.array(*map(F.lit, topics)), (F.col("id") % 3 + 1).cast("int")).alias(
            "topic"
        ),
    )
    save(frame, chunkRows=2)
    for place, topic in enumerate(topics):
        found = sorted(int(body) for (body,) in messages(own, topic))
        assert found == list(range(place, 60, 3))
    assert_nothing_left(own)
    # the option wins over the column
    save(frame, topic=topics[0])
    assert [len(messages(own, topic)) for topic in topics] == [80, 20, 20]


COMMITTING = (
    "select pid from pg_stat_activity where wait_event_type = 'Lock'"
    " and datname = current_database() and query ~ 'commit_write'"
)


def routed(spark: Any, *topics: str, rows: int = 20, tasks: int = 2) -> Any:
    """Rows of which each goes to all of these topics, with keys."""
    return spark.range(0, rows, 1, tasks).select(
        F.col("id").cast("string").alias("value"),
        F.col("id").cast("string").alias("key"),
        F.explode(F.array(*map(F.lit, topics))).alias("topic"),
    )


def test_a_write_to_several_topics_is_written_once(spark: Any, save: Any, own: Session) -> None:
    topics = [new_topic(own), new_topic(own)]
    for _ in range(2):
        save(routed(spark, *topics), producer="p", seq=1)
        assert [len(messages(own, topic)) for topic in topics] == [20, 20]
        assert_nothing_left(own)
    save(routed(spark, *topics), producer="p", seq=2)
    assert [len(messages(own, topic)) for topic in topics] == [40, 40]


def test_all_topics_or_none(spark: Any, save: Any, own: Session, connect: Connect) -> None:
    """They are committed in one transaction: nobody sees one of them before another."""
    first, second = sorted([new_topic(own), new_topic(own)])
    holder = connect()
    holder.publish(topic=second, payload=0)
    done = aside(lambda: save(routed(spark, first, second)))
    wait_until(lambda: own.execute(COMMITTING).fetchone(), PATIENCE, "for the commit")
    assert messages(own, first) == messages(own, second) == []
    holder.rollback()
    done.result(PATIENCE)
    assert len(messages(own, first)) == len(messages(own, second)) == 20


@pytest.mark.slow  # Spark tries its tasks four times
def test_a_topic_that_is_not_there_stores_nothing(spark: Any, save: Any, own: Session) -> None:
    topic = new_topic(own)
    with pytest.raises(Exception, match='unknown topic "nowhere"'):
        save(routed(spark, topic, "nowhere"))
    with pytest.raises(Exception, match="column topic is null, and there is no option topic"):
        save(spark.sql(f"select 'x' as value, if(id = 1, '{topic}', null) as topic from range(2)"))
    assert messages(own, topic) == []
    assert_nothing_left(own)


def test_publishers_that_meet_crosswise(
    spark: Any, save: Any, own: Session, connect: Connect
) -> None:
    """A write that is the victim of a deadlock is committed all the same."""
    topic = new_topic(own, partitions=3)
    other, gate = connect(), connect()
    # so it does not find the deadlock
    other.execute("set deadlock_timeout = '1 h'")
    other.publish(topic=topic, payload=0, partition=2)
    gate.publish(topic=topic, payload=0, partition=1)
    frame = spark.range(0, 3, 1, 3).selectExpr(
        "'x' as value", f"'{topic}' as topic", "cast(id as int) as partition"
    )
    done = aside(lambda: save(frame))
    wait_until(lambda: own.execute(COMMITTING).fetchone(), PATIENCE, "for the commit")
    crosswise = blocked(own, other, lambda: other.publish(topic=topic, payload=0, partition=0))
    # the write goes on to partition 2, and whoever waits last looks for a deadlock
    gate.rollback()
    crosswise.result(PATIENCE)
    other.commit()
    done.result(PATIENCE)
    found = messages(own, topic, "partition, body")
    assert found == [(0, None), (0, b"x"), (1, b"x"), (2, None), (2, b"x")]


# ---------------------------------------------------------------------------- columns


@pytest.mark.parametrize(
    "headers",
    [
        """map('trace', 'a"b')""",
        """to_json(named_struct('trace', 'a"b'))""",
        """array(named_struct('key', 'trace', 'value', cast('a"b' as binary)))""",
    ],
    ids=["map", "json", "as Kafka's source has them"],
)
@pytest.mark.parametrize("large", [False, True])
def test_headers_and_arrows_large_types(
    spark: Any, save: Any, own: Session, headers: str, large: bool
) -> None:
    topic = new_topic(own)
    name = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(name, large)
    try:
        frame = spark.range(2).select(
            F.expr("X'00ff'").alias("value"),
            F.expr("X'6b'").alias("key"),
            F.when(F.col("id") == 1, F.expr(headers)).alias("headers"),
        )
        save(frame.coalesce(1), topic=topic)
    finally:
        spark.conf.unset(name)
    assert messages(own, topic, "body, key, headers") == [
        (b"\x00\xff", "k", None),
        (b"\x00\xff", "k", {"trace": 'a"b'}),
    ]


def test_headers_with_a_key_more_than_once(spark: Any, save: Any, own: Session) -> None:
    topic = new_topic(own)
    pairs = [("a", "1"), ("b", None), ("a", "2")]
    headers = ", ".join(
        f"named_struct('key', '{key}', 'value', {'null' if value is None else repr(value)})"
        for key, value in pairs
    )
    save(spark.sql(f"select 'x' as value, array({headers}) as headers"), topic=topic)
    assert messages(own, topic, "headers") == [({"a": ["1", "2"], "b": None},)]


def test_bytes_of_all_sizes(spark: Any, save: Any, own: Session) -> None:
    topic = new_topic(own)
    values = [bytes(range(256)), b"", b"\x00", b"x" * 10_000] * 3
    frame = spark.createDataFrame([(value,) for value in values], "value binary").coalesce(1)
    save(frame, topic=topic, chunkBytes=1000)
    assert [bytes(body) for (body,) in messages(own, topic)] == values


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("'x' as val", "cannot be written: val"),
        ("'k' as key", "neither"),
        ("'x' as value, '{}' as payload", "both"),
        ("1 as value", "must be binary or string"),
        ("1 as payload", "must be a struct"),
        ("named_struct('a', 1) as payload", "to_json"),
        ("'x' as value, 1 as key", "must be string"),
        ("'x' as value, 'a' as partition", "must be an integer"),
        ("'x' as value, 1 as headers", "must be a map"),
        ("'x' as value, map('a', 1) as headers", "must be a map"),
        ("'x' as value, 1 as topic", "must be string"),
        ("'x' as value, 'l' as label", "cannot be written: label"),
    ],
)
def test_columns_that_do_not_fit_are_refused(spark: Any, columns: str, message: str) -> None:
    from pgq.spark._rows import Rows

    frame = spark.sql(f"select {columns}")
    with pytest.raises((ValueError, TypeError), match=message):
        Rows(frame.schema, topic="t", queue=None, value_is_json=False)


@pytest.mark.slow  # Spark tries its tasks four times
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("cast(null as string) as value", "must not be null"),
        ("'{oops' as payload", "column payload is no JSON"),
        ("'x' as value, X'FF' as key", "UTF-?8"),
        ("'x' as value, array(named_struct('key', 'h', 'value', X'FF')) as headers", "UTF-8"),
        ("'x' as value, 4294967296L as partition", "unknown partition -1"),
        ("'x' as value, -1 as partition", "unknown partition -1"),
    ],
)
def test_rows_that_cannot_be_written(
    spark: Any, save: Any, own: Session, columns: str, message: str
) -> None:
    topic = new_topic(own)
    with pytest.raises(Exception, match=message):
        save(spark.sql(f"select {columns}"), topic=topic)
    assert messages(own, topic) == []
    assert_nothing_left(own)


def test_names_of_writes_and_where_they_go() -> None:
    """What options there may be together; without a server."""
    from pgq.spark._write_options import parse_writer_options

    url = "jdbc:postgresql://db.example.org/shop"
    name = new_name("topic")

    def error(streaming: bool = False, **options: str) -> str:
        with pytest.raises(ValueError) as caught:
            parse_writer_options({"url": url, **options}, streaming=streaming)
        return str(caught.value)

    assert "both given" in error(topic=name, queue="q")
    assert "needs 'queue'" in error(topic=name, delay="1 s")
    assert "give both" in error(topic=name, producer="p")
    assert "give both" in error(topic=name, seq="1")
    assert "'seq' is for batches" in error(streaming=True, seq="1")
    assert "whole number" in error(topic=name, producer="p", seq="one")
    assert "bytes or json" in error(topic=name, valueFormat="avro")
    assert "'starting'" in error(topic=name, starting="S3CRET")
    options = parse_writer_options(
        {"URL": url, "Topic": name, "checkpointLocation": "/tmp/x", "chunkRows": "7"},
        streaming=True,
    )
    assert (options.topic, options.chunk_rows, options.producer) == (name, 7, None)
