"""Topics become DataFrames."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from psycopg.types.json import Jsonb
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pgq.errors import OffsetOutOfRange, UnknownTopic
from pgq.spark import register
from pgq.spark._connection import DriverConnection
from support.clock import Clock
from support.session import Session


@pytest.fixture
def topic(connection: Session) -> str:
    """1000 messages in each of two partitions; partition 1 has JSON, with keys and headers."""
    connection.execute("select pgq.create_topic('readings', partitions => 2)")
    connection.execute(
        "select pgq.publish_batch('readings', partition => 0, bodies =>"
        " array(select convert_to('v' || i, 'UTF8') from generate_series(1, 1000) as i))"
    )
    connection.execute(
        "select pgq.publish_batch('readings', partition => 1,"
        " payloads => array(select jsonb_build_object('i', i) from generate_series(1, 1000) as i),"
        " keys => array(select 'k' || i from generate_series(1, 1000) as i),"
        " headers => array_fill(%s::jsonb, array[1000]))",
        [Jsonb({"trace": "é", "level": 3, "more": {"a": None}})],
    )
    return "readings"


def test_it_has_the_columns_of_the_kafka_source(broker: Any, topic: str) -> None:
    assert [
        (field.name, field.dataType.simpleString()) for field in broker.read(topic=topic).schema
    ] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]


def test_each_message_is_read_once_and_whole(broker: Any, topic: str, connection: Session) -> None:
    frame = broker.read(topic=topic, min_partitions=7)
    assert frame.rdd.getNumPartitions() >= 7
    rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    assert [(row.partition, row.offset) for row in rows] == [
        (partition, offset) for partition in (0, 1) for offset in range(1, 1001)
    ]
    first = rows[0]
    assert (first.key, bytes(first.value), first.topic, first.headers) == (
        None,
        b"v1",
        "readings",
        None,
    )
    last = rows[-1]
    assert (bytes(last.key), bytes(last.value)) == (b"k1000", b'{"i": 1000}')
    assert {header.key: bytes(header.value) for header in last.headers} == {
        "trace": "é".encode(),
        "level": b"3",
        "more": b'{"a": null}',
    }
    (published,) = connection.execute(
        "select published_at at time zone 'UTC' from pgq.messages"
        " where partition = 1 and log_offset = 1000"
    ).fetchone() or (None,)
    # collect shows the time in the zone of this process
    assert last.timestamp.astimezone(timezone.utc).replace(tzinfo=None) == published


def test_json_as_columns(broker: Any, topic: str, connection: Session) -> None:
    """What is not such JSON is null, and the other columns stay as they are."""
    connection.execute(
        "select pgq.publish_batch('readings', partition => 1, bodies => array["
        "'{\"i\": \"x\"}'::bytea, '{', '\\xff', '[1]'])"
    )
    for schema in ("i int, at timestamp", StructType().add("i", "integer").add("at", "timestamp")):
        frame = broker.read(topic=topic, start={0: 999, 1: 1000}, payload_schema=schema)
        assert frame.columns[-1] == "payload"
        rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
        assert [row.payload and row.payload.i for row in rows] == [None, None, 1000, *[None] * 4]
        assert bytes(rows[3].value) == b'{"i": "x"}'
    frame = broker.read(topic=topic, start={0: 1001, 1: 1000}, payload_schema="variant")
    # payload:i would be shorter, which Spark 4.0 does not know yet
    i = F.variant_get("payload", "$.i", "string")
    found = frame.orderBy("offset").select(i, F.col("payload").isNull())
    assert [tuple(row) for row in found.collect()] == [
        ("1000", False),
        ("x", False),
        (None, True),
        (None, True),
        (None, False),
    ]


@pytest.mark.parametrize("is_cut", [False, True])
def test_one_connection_plans_it(
    is_cut: bool, broker: Any, topic: str, connection: Session, monkeypatch: Any
) -> None:
    """Where that is cut, each of the other calls has a connection of its own."""
    connected, calls = DriverConnection._connect, DriverConnection.call
    seen: list[str] = []

    def connect(self: DriverConnection) -> None:
        seen.append("connect")
        connected(self)

    def call(self: DriverConnection, function: str, arguments: Any) -> Any:
        answer = calls(self, function, arguments)
        if is_cut and len(seen) == 1:
            connection.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
        seen.append(function)
        return answer

    monkeypatch.setattr(DriverConnection, "_connect", connect)
    monkeypatch.setattr(DriverConnection, "call", call)
    assert broker.read(topic=topic).count() == 2000
    more = ["connect"] if is_cut else []
    assert seen == ["connect", "check_range", *more, "list_offsets", *more, "fetch_packed"]


def test_what_is_published_later_is_not_in_it(broker: Any, topic: str, connection: Session) -> None:
    frame = broker.read(topic=topic)
    connection.execute("select pgq.publish('readings', payload => '1')")
    assert frame.count() == 2000
    assert broker.read(topic=topic).count() == 2001


def test_a_large_partition_is_read_by_several_tasks(broker: Any, connection: Session) -> None:
    connection.execute("select pgq.create_topic('large', partitions => 1)")
    connection.execute(
        "select pgq.publish_batch('large', bodies => array_fill('x'::bytea, array[500001]))"
    )
    frame = broker.read(topic="large")
    assert frame.rdd.getNumPartitions() == 3
    assert frame.agg(F.count("*"), F.countDistinct("offset")).first() == (500001, 500001)


def test_offsets_bound_it(broker: Any, topic: str) -> None:
    frame = broker.read(topic=topic, start={0: 11, 1: 991}, end={0: 21, 1: -1})
    found = frame.groupBy("partition").agg(F.min("offset"), F.max("offset"), F.count("*"))
    assert sorted(tuple(row) for row in found.collect()) == [(0, 11, 20, 10), (1, 991, 1000, 10)]


def test_offsets_may_come_as_kafkas_json(broker: Any, topic: str) -> None:
    frame = broker.read(
        topic=topic,
        start='{"readings": {"0": 1000, "1": -1}}',
        end='{"readings": {"0": 1001, "1": -1}}',
    )
    assert [(row.partition, row.offset) for row in frame.collect()] == [(0, 1000)]


def test_times_bound_it(broker: Any, connection: Session, clock: Clock) -> None:
    connection.execute("select pgq.create_topic('timed', partitions => 1)")
    moments = []
    for number in range(4):
        connection.execute("select pgq.publish('timed', payload => %s)", [Jsonb(number)])
        (moment,) = connection.execute(
            "select published_at from pgq.messages order by log_offset desc limit 1"
        ).fetchone() or (None,)
        moments.append(moment)
        clock.advance("1 hour")

    def values(**bounds: datetime) -> list[bytes]:
        frame = broker.read(topic="timed", **bounds)
        return sorted(bytes(row.value) for row in frame.collect())

    assert values(start=moments[1], end=moments[3]) == [b"1", b"2"]
    assert values(start=moments[2] + timedelta(seconds=1)) == [b"3"]
    assert values(end=moments[0]) == []


def test_an_empty_range_is_an_empty_frame(broker: Any, topic: str) -> None:
    frame = broker.read(topic=topic, start={0: -1, 1: -1})
    assert frame.count() == 0
    assert "value" in frame.columns


def remove_the_first_messages(connection: Session, clock: Clock) -> None:
    """Let retention take away what there is, and publish anew."""
    for _ in range(6):
        clock.advance("3 days")
        connection.execute("select pgq.publish('readings', payload => '1', partition => 0)")
        connection.execute("select pgq.publish('readings', payload => '1', partition => 1)")
        for _ in range(3):
            connection.execute("select pgq.cleanup()")
    (first,) = connection.execute(
        "select min(first_offset) from pgq.list_offsets('readings')"
    ).fetchone() or (0,)
    assert first > 1000


def test_what_retention_took_away_is_an_error(
    broker: Any, topic: str, connection: Session, clock: Clock
) -> None:
    planned = broker.read(topic=topic)
    remove_the_first_messages(connection, clock)
    with pytest.raises(Exception, match="out of range"):
        planned.count()
    with pytest.raises(OffsetOutOfRange, match=r"offsets 1 to \d+ are not there any more"):
        broker.read(topic=topic, start={0: 1, 1: 1})
    # from the earliest on there is nothing amiss
    assert broker.read(topic=topic).count() > 0


def test_what_retention_took_away_can_be_left_out(
    broker: Any, topic: str, connection: Session, clock: Clock
) -> None:
    remove_the_first_messages(connection, clock)
    (kept,) = connection.execute("select count(*) from pgq.messages").fetchone() or (0,)
    frame = broker.read(topic=topic, start={0: 1, 1: 1}, fail_on_data_loss=False)
    assert frame.count() == kept > 0


def test_offsets_that_are_not_there_yet_are_an_error(broker: Any, topic: str) -> None:
    """Unless what is there is enough."""
    end = {0: 10**12, 1: 1001}
    with pytest.raises(OffsetOutOfRange, match="the topic ends at 1000"):
        broker.read(topic=topic, end=end)
    assert broker.read(topic=topic, end=end, fail_on_data_loss=False).count() == 2000


def test_offsets_of_a_checkpoint_are_of_one_topic(
    broker: Any, topic: str, connection: Session
) -> None:
    """They come with its id, and a later topic of the same name is another one."""
    (topic_id,) = connection.execute("select pgq.check_range('readings', 0, 1, 0)").fetchone() or (
        0,
    )
    start = json.dumps({"readings": {"0": 1000, "1": 1001}, "@id": topic_id})
    assert broker.read(topic=topic, start=start).count() == 1
    connection.execute("select pgq.drop_topic('readings')")
    connection.execute("select pgq.create_topic('readings', partitions => 2)")
    with pytest.raises(OffsetOutOfRange, match="created again"):
        broker.read(topic=topic, start=start)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "first"}, "'start' is 'first'"),
        ({"end": '{"other": {"0": 1}}'}, "'end' is"),
        ({"start": "latest"}, "must not be 'latest'"),
        ({"end": "earliest"}, "nothing ends at the earliest"),
        ({"start": {0: 1}}, "were given for"),
        ({"end": {0: 1, 1: 1, 2: 1}}, "were given for"),
        ({"min_partitions": 0}, "min_partitions"),
    ],
    ids=str,
)
def test_bad_bounds_are_refused(
    broker: Any, topic: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        broker.read(topic=topic, **options)


def test_an_unknown_topic_is_an_error(broker: Any) -> None:
    with pytest.raises(UnknownTopic, match="nowhere"):
        broker.read(topic="nowhere")


def test_a_condition_on_the_partition_goes_to_the_database(broker: Any, topic: str) -> None:
    frame = broker.read(topic=topic).where("partition = 1 and offset <= 3").select("offset")
    assert sorted(row.offset for row in frame.collect()) == [1, 2, 3]
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "EqualTo(partition,1)" in plan


@pytest.mark.slow  # Spark tries its tasks four times
@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_made_anew_since_the_dataframe_was_made(
    broker: Any, connection: Session, topic: str, fails: bool
) -> None:
    frame = broker.read(topic=topic, fail_on_data_loss=fails)
    connection.drop_topic(topic=topic)
    connection.create_topic(topic=topic, partitions=2)
    connection.publish_batch(topic=topic, bodies=[b"another"] * 1000, partition=0)
    with pytest.raises(Exception, match="is not the one that was planned to be read"):
        frame.collect()


SEVERAL = """array(
    named_struct('key', 'twice', 'value', cast('a"b' as binary)),
    named_struct('key', 'o"nce', 'value', cast('c' as binary)),
    named_struct('key', 'twice', 'value', cast(null as binary)),
    named_struct('key', 'list', 'value', cast('["1", "2"]' as binary)),
    named_struct('key', 'twice', 'value', cast('a"b' as binary))
)"""


@pytest.mark.parametrize("source", ["jdbc", "python"])
def test_a_header_twice(
    spark: Any, broker: Any, location: Any, connection: Session, source: str
) -> None:
    """As Kafka allows it: what was written is what is read, and may be written again."""
    connection.create_topic(topic="readings", partitions=1)
    connection.create_topic(topic="copy", partitions=1)
    rows = spark.sql(f"select 'x' as value, {SEVERAL} as headers")
    broker.publish(rows, topic="readings")
    assert connection.execute("select headers from pgq.messages").fetchall() == [
        ({"twice": ['a"b', None, 'a"b'], 'o"nce': "c", "list": '["1", "2"]'},)
    ]
    for topic in ("readings", "copy"):
        if source == "jdbc":
            frame = broker.read(topic=topic)
        else:
            register(spark)
            options = {"url": location[0], **location[1], "topic": topic}
            frame = spark.read.format("pgq").options(**options).load()
        if topic == "readings":
            broker.publish(frame.select("value", "headers"), topic="copy")
        (row,) = frame.collect()
        # in the order of their keys, those of a key in that in which they were written
        assert sorted(
            (header.key, header.value and bytes(header.value))
            for header in row.headers
            if header.key != "twice"
        ) == [("list", b'["1", "2"]'), ('o"nce', b"c")]
        assert [
            header.value and bytes(header.value) for header in row.headers if header.key == "twice"
        ] == [b'a"b', None, b'a"b']


def test_jobs_that_ended_are_read_from_the_archive_and_the_dead_letters(
    spark: Any, broker: Any, connection: Session
) -> None:
    connection.execute("select pgq.create_queue('mail', max_attempts => 1, backoff => '0')")
    connection.execute("select pgq.create_queue('other')")
    for queue in ("mail", "other"):
        connection.execute(
            "select pgq.enqueue_batch(%s, payloads =>"
            " array(select jsonb_build_object('n', i) from generate_series(1, 10) as i))",
            [queue],
        )
    connection.execute(
        "select pgq.ack(c.job_id, c.lease_token) from pgq.claim_job('mail', max_jobs => 6) as c"
    )
    connection.execute(
        "select pgq.nack(c.job_id, c.lease_token, error => 'no such address')"
        " from pgq.claim_job('mail', max_jobs => 4) as c"
    )
    archived = broker.read_archived_jobs(queue="mail", num_partitions=2)
    assert archived.rdd.getNumPartitions() == 2
    numbers = archived.select(F.get_json_object("payload", "$.n").cast("int").alias("n"), "outcome")
    assert sorted((row.n, row.outcome) for row in numbers.collect()) == [
        (number, "acked") for number in range(1, 7)
    ]
    dead = (
        broker.read_dead_letters(queue="mail").select("queue", "attempt", "last_error").distinct()
    )
    assert [tuple(row) for row in dead.collect()] == [("mail", 1, "no such address")]
    with pytest.raises(Exception, match='unknown queue "nowhere"'):
        broker.read_archived_jobs(queue="nowhere")


@pytest.mark.parametrize("safe", [True, False])
def test_windows_by_time_beside_an_open_publisher(
    broker: Any, connection: Session, connect: Any, safe: bool
) -> None:
    """It commits after the window was read: what the guide says of the end of windows."""
    connection.create_topic(topic="readings", partitions=2)
    late = connect()
    late.publish(topic="readings", body=b"late", partition=0)
    connection.publish(topic="readings", body=b"early", partition=1)
    if safe:
        end = broker.watermark(topic="readings")
    else:
        (end,) = connection.execute("select clock_timestamp()").fetchone() or (None,)
    first = broker.read(topic="readings", end=end).collect()
    late.commit()
    second = broker.read(topic="readings", start=end).collect()
    found = sorted(bytes(row.value) for row in first + second)
    assert found == ([b"early", b"late"] if safe else [b"early"])
