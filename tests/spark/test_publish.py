"""DataFrames become messages."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from pyspark.sql import functions as F

from pgq.errors import UnknownTopic
from support.bulk import MODES
from support.session import Session


@pytest.fixture
def topic(connection: Session) -> str:
    connection.execute("select pgq.create_topic('orders', partitions => 4)")
    return "orders"


def messages(connection: Session, columns: str = "body") -> list[Any]:
    return connection.execute(
        f"select {columns} from pgq.messages order by partition, log_offset".encode()
    ).fetchall()


def offsets_are_dense(connection: Session, expected: int) -> bool:
    return connection.execute(
        "select (select sum(last_offset) from pgq.list_offsets('orders')) = %(n)s"
        " and (select count(*) from pgq.messages) = %(n)s"
        " and (select count(distinct (partition, log_offset)) from pgq.messages) = %(n)s",
        {"n": expected},
    ).fetchone() == (True,)


def nothing_is_staged(connection: Session) -> bool:
    return connection.execute(
        "select not exists (select from pgq.staged_chunk)"
        " and not exists (select from pgq.staged_task)"
        " and not exists (select from pgq.published_chunk)"
    ).fetchone() == (True,)


@MODES
def test_every_row_becomes_one_message(
    spark: Any, broker: Any, connection: Session, topic: str, atomic: bool
) -> None:
    # more than a chunk per task, and a last chunk that is not full
    frame = spark.range(0, 5000, 1, 3).select(F.format_string("order %d", "id").alias("value"))
    result = broker.publish(frame, topic=topic, atomic=atomic, chunk_rows=300)
    assert (result.messages, result.duplicate) == (5000, False)
    assert connection.execute("select write_id from pgq.bulk_write").fetchone() == (
        result.write_id,
    )
    stored = sorted(bytes(body).decode() for (body,) in messages(connection))
    assert stored == sorted(f"order {number}" for number in range(5000))
    assert offsets_are_dense(connection, 5000)
    assert nothing_is_staged(connection)


@MODES
def test_where_transactions_are_serializable_by_default(
    spark: Any, broker: Any, connection: Session, atomic: bool
) -> None:
    """Tasks that meet in a partition wait for each other, as at READ COMMITTED."""
    connection.create_topic(topic="one", partitions=1)
    name = connection.info.dbname
    connection.execute(f"alter database {name} set default_transaction_isolation = serializable")
    frame = spark.range(0, 4000, 1, 4).select(F.format_string("order %d", "id").alias("value"))
    broker.publish(frame, topic="one", atomic=atomic, chunk_rows=100)
    assert [row.last_offset for row in connection.list_offsets(topic="one")] == [4000]


def test_rows_of_a_task_keep_their_order(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    frame = spark.range(0, 1000, 1, 2).select(F.col("id").cast("string").alias("value"))
    broker.publish(frame, topic=topic, chunk_rows=70)
    # unkeyed, so task 0 went to partition 0, and task 1 to partition 1
    found = connection.execute(
        "select partition, array_agg(convert_from(body, 'UTF8')::int order by log_offset)"
        " from pgq.messages group by partition order by partition"
    ).fetchall()
    assert found == [(0, list(range(500))), (1, list(range(500, 1000)))]


@MODES
def test_a_key_leads_to_the_partition_that_publish_would_choose(
    spark: Any, broker: Any, connection: Session, topic: str, atomic: bool
) -> None:
    frame = spark.range(0, 400, 1, 2).select(
        F.col("id").cast("string").alias("value"),
        F.concat(F.lit("customer "), F.col("id") % 10).alias("key"),
    )
    broker.publish(frame, topic=topic, atomic=atomic, chunk_rows=50)
    for number in range(10):
        connection.execute(
            "select pgq.publish('orders', payload => '1', key => %s)", [f"customer {number}"]
        )
    homes = connection.execute(
        "select key, count(distinct partition), count(*) from pgq.messages group by key"
    ).fetchall()
    assert len(homes) == 10
    assert all(home[1:] == (1, 41) for home in homes)


@MODES
def test_no_rows_are_a_write_of_none(
    spark: Any, broker: Any, connection: Session, topic: str, atomic: bool
) -> None:
    frame = spark.createDataFrame([], "value string")
    assert broker.publish(frame, topic=topic, atomic=atomic, producer="p", seq=1).messages == 0
    assert broker.publish(frame, topic=topic, atomic=atomic, producer="p", seq=1).duplicate
    assert messages(connection) == []


@MODES
def test_a_write_that_is_repeated_writes_nothing(
    spark: Any, broker: Any, connection: Session, topic: str, atomic: bool
) -> None:
    frame = spark.range(0, 100, 1, 2).select(F.col("id").cast("string").alias("value"))
    first = broker.publish(frame, topic=topic, atomic=atomic, producer="nightly", seq=7)
    again = broker.publish(frame, topic=topic, atomic=atomic, producer="nightly", seq=7)
    assert not first.duplicate
    assert again.duplicate
    assert (again.messages, again.committed_at) == (first.messages, first.committed_at)
    assert offsets_are_dense(connection, 100)
    # another number is another write
    assert not broker.publish(
        frame, topic=topic, atomic=atomic, producer="nightly", seq=8
    ).duplicate
    assert offsets_are_dense(connection, 200)


def failing_once(spark: Any, folder: str, *, always: bool = False) -> Any:
    """Rows of two tasks; the second one fails in its last rows, at its first attempt or at all."""
    marker = f"{folder}/failed"

    def fail(batches: Any) -> Any:
        from pathlib import Path

        for batch in batches:
            values = batch.column(0).to_pylist()
            if 999 in values and (always or not Path(marker).exists()):
                Path(marker).touch()
                # what came before has reached the database by now
                yield batch.slice(0, 400)
                raise RuntimeError("this task is made to fail")
            yield batch

    rows = spark.range(0, 1000, 1, 2).mapInArrow(fail, "id long")
    return rows.select(F.col("id").cast("string").alias("value"))


@pytest.mark.slow
@MODES
def test_a_task_that_fails_and_is_retried_counts_once(
    spark: Any, broker: Any, connection: Session, topic: str, atomic: bool, tmp_path: Any
) -> None:
    result = broker.publish(
        failing_once(spark, str(tmp_path)), topic=topic, atomic=atomic, chunk_rows=100
    )
    assert (tmp_path / "failed").exists()
    assert result.messages == 1000
    stored = sorted(int(bytes(body)) for (body,) in messages(connection))
    assert stored == list(range(1000))
    assert offsets_are_dense(connection, 1000)
    assert nothing_is_staged(connection)


@pytest.mark.slow  # Spark tries its tasks four times
def test_an_atomic_job_that_fails_leaves_nothing(
    spark: Any, broker: Any, connection: Session, topic: str, tmp_path: Any
) -> None:
    with pytest.raises(Exception, match="made to fail"):
        broker.publish(
            failing_once(spark, str(tmp_path), always=True), topic=topic, producer="p", seq=1
        )
    assert messages(connection) == []
    assert nothing_is_staged(connection)
    # and it can be run again
    (tmp_path / "failed").touch()
    broker.publish(failing_once(spark, str(tmp_path)), topic=topic, producer="p", seq=1)
    assert offsets_are_dense(connection, 1000)


@pytest.mark.slow  # Spark tries its tasks four times
def test_a_job_that_fails_amid_published_chunks_goes_on_where_it_was(
    spark: Any, broker: Any, connection: Session, topic: str, tmp_path: Any
) -> None:
    with pytest.raises(Exception, match="made to fail"):
        broker.publish(
            failing_once(spark, str(tmp_path), always=True),
            topic=topic,
            atomic=False,
            producer="p",
            seq=1,
            chunk_rows=100,
        )
    part = len(messages(connection))
    assert 0 < part < 1000
    result = broker.publish(
        failing_once(spark, str(tmp_path)),
        topic=topic,
        atomic=False,
        producer="p",
        seq=1,
        chunk_rows=100,
    )
    assert result.messages == 1000
    stored = sorted(int(bytes(body)) for (body,) in messages(connection))
    assert stored == list(range(1000))


@pytest.mark.slow
def test_other_rows_under_the_same_number_are_noticed(
    spark: Any, broker: Any, connection: Session, topic: str, tmp_path: Any
) -> None:
    with pytest.raises(Exception, match="made to fail"):
        broker.publish(
            failing_once(spark, str(tmp_path), always=True),
            topic=topic,
            atomic=False,
            producer="p",
            seq=1,
            chunk_rows=100,
        )
    other = spark.range(0, 500, 1, 1).select(F.lit("other").alias("value"))
    before = len(messages(connection))
    with pytest.raises(Exception, match="written before with other contents"):
        broker.publish(other, topic=topic, atomic=False, producer="p", seq=1, chunk_rows=100)
    assert len(messages(connection)) == before


def test_another_number_of_messages_than_expected_publishes_nothing(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    frame = spark.range(10).select(F.lit("x").alias("value"))
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="than expected"):
        broker.publish(frame, topic=topic, expected_messages=11)
    assert messages(connection) == []
    assert nothing_is_staged(connection)
    assert broker.publish(frame, topic=topic, expected_messages=10).messages == 10


def test_for_how_long_a_write_may_stay_open(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    """A day by default."""
    for number, timeout in enumerate((None, timedelta(days=2, hours=3))):
        options = {"producer": "p", "seq": number, "timeout": timeout}
        broker.publish(spark.sql("select 'x' as value"), topic=topic, **options)
    lengths = "select (expires_at - begun_at)::text from pgq.bulk_write order by seq"
    assert connection.execute(lengths).fetchall() == [("1 day",), ("2 days 03:00:00",)]


def test_an_unknown_topic_is_told_before_anything_runs(spark: Any, broker: Any) -> None:
    frame = spark.range(1).select(F.raise_error(F.lit("this ran")).cast("string").alias("value"))
    with pytest.raises(UnknownTopic, match="nowhere"):
        broker.publish(frame, topic="nowhere")


@pytest.mark.parametrize("options", [{"chunk_rows": 0}, {"chunk_bytes": 0}], ids=str)
def test_options_that_make_no_sense_are_refused(
    spark: Any, broker: Any, topic: str, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        broker.publish(spark.sql("select 'x' as value"), topic=topic, **options)


def test_errors_of_the_executors_do_not_show_what_was_written(
    spark: Any, broker: Any, topic: str
) -> None:
    frame = spark.sql("select 'the content of a message' as value, 9 as partition")
    with pytest.raises(Exception, match="unknown partition 9") as caught:
        broker.publish(frame, topic=topic)
    assert b"the content of a message".hex() not in str(caught.value)


@MODES
def test_a_topic_that_queues_are_subscribed_to(
    spark: Any, broker: Any, connection: Session, atomic: bool
) -> None:
    """Each message that is written becomes a job of each of them, once."""
    connection.execute("select pgq.create_topic('orders', partitions => 2)")
    for queue in ("all", "some"):
        connection.execute("select pgq.create_queue(%s)", [queue])
    connection.execute("select pgq.subscribe('all', 'orders', 'all')")
    connection.execute(
        "select pgq.subscribe('some', 'orders', 'some', filter => '{\"kind\": [\"odd\"]}')"
    )
    frame = spark.range(0, 250, 1, 2).select(
        F.struct(F.col("id").alias("n")).alias("payload"),
        F.create_map(F.lit("kind"), F.when(F.col("id") % 2 == 1, "odd").otherwise("even")).alias(
            "headers"
        ),
    )
    for _ in range(2):
        broker.publish(frame, topic="orders", producer="p", seq=1, atomic=atomic)
    for queue, step in (("all", 1), ("some", 2)):
        jobs = connection.execute("select payload from pgq.claim_job(%s, 1000)", [queue]).fetchall()
        assert sorted(payload["n"] for (payload,) in jobs) == [*range(step - 1, 250, step)]


@MODES
def test_a_deferred_topic(spark: Any, broker: Any, connection: Session, atomic: bool) -> None:
    """What is written has its offsets, behind what was published before."""
    connection.execute("select pgq.create_topic('later', partitions => 1, deferred => true)")
    connection.execute("select pgq.publish('later', '{\"n\": -1}')")
    frame = spark.range(0, 50, 1, 2).select(F.struct(F.col("id").alias("n")).alias("payload"))
    broker.publish(frame, topic="later", atomic=atomic)
    connection.execute("select pgq.publish('later', '{\"n\": 50}')")
    connection.execute("select pgq.assign_offsets('later')")
    found = broker.read(topic="later").orderBy("offset").collect()
    numbers = [json.loads(bytes(row["value"]))["n"] for row in found]
    assert (numbers[0], numbers[-1]) == (-1, 50)
    assert sorted(numbers) == [*range(-1, 51)]
