"""DataFrames become messages."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from pyspark.sql import functions as F

from pgq.errors import UnknownTopic
from support.session import Session

MODES = ["atomic", "fast"]


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


@pytest.mark.parametrize("mode", MODES)
def test_every_row_becomes_one_message(
    spark: Any, broker: Any, connection: Session, topic: str, mode: str
) -> None:
    # more than a chunk per task, and a last chunk that is not full
    frame = spark.range(0, 5000, 1, 3).select(F.format_string("order %d", "id").alias("value"))
    result = broker.publish(frame, topic, mode=mode, chunk_rows=300)
    assert (result.messages, result.repeated) == (5000, False)
    stored = sorted(bytes(body).decode() for (body,) in messages(connection))
    assert stored == sorted(f"order {number}" for number in range(5000))
    assert offsets_are_dense(connection, 5000)
    assert nothing_is_staged(connection)


def test_rows_of_a_task_keep_their_order(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    frame = spark.range(0, 1000, 1, 2).select(F.col("id").cast("string").alias("value"))
    broker.publish(frame, topic, chunk_rows=70)
    # unkeyed, so task 0 went to partition 0, and task 1 to partition 1
    found = connection.execute(
        "select partition, array_agg(convert_from(body, 'UTF8')::int order by log_offset)"
        " from pgq.messages group by partition order by partition"
    ).fetchall()
    assert found == [(0, list(range(500))), (1, list(range(500, 1000)))]


@pytest.mark.parametrize("mode", MODES)
def test_a_key_leads_to_the_partition_that_publish_would_choose(
    spark: Any, broker: Any, connection: Session, topic: str, mode: str
) -> None:
    frame = spark.range(0, 400, 1, 2).select(
        F.col("id").cast("string").alias("value"),
        F.concat(F.lit("customer "), F.col("id") % 10).alias("key"),
    )
    broker.publish(frame, topic, mode=mode, chunk_rows=50)
    for number in range(10):
        connection.execute(
            "select pgq.publish('orders', payload => '1', key => %s)", [f"customer {number}"]
        )
    homes = connection.execute(
        "select key, count(distinct partition), count(*) from pgq.messages group by key"
    ).fetchall()
    assert len(homes) == 10
    assert all(home[1:] == (1, 41) for home in homes)


def test_a_partition_can_be_named_for_each_row(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    frame = spark.range(0, 300, 1, 2).select(
        F.col("id").cast("string").alias("value"), (F.col("id") % 3).alias("partition")
    )
    broker.publish(frame, topic, chunk_rows=40)
    found = connection.execute(
        "select count(*), bool_and(convert_from(body, 'UTF8')::int % 3 = partition)"
        " from pgq.messages"
    ).fetchone()
    assert found == (300, True)


def test_a_partition_that_is_not_there_stores_nothing(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    frame = spark.range(3).select(F.lit("x").alias("value"), (F.col("id") * 2).alias("partition"))
    with pytest.raises(Exception, match="unknown partition 4"):
        broker.publish(frame, topic)
    assert messages(connection) == []
    assert nothing_is_staged(connection)


@pytest.mark.parametrize("mode", MODES)
def test_a_struct_becomes_json(
    spark: Any, broker: Any, connection: Session, topic: str, mode: str
) -> None:
    frame = spark.createDataFrame([(1, "é", None)], "id int, name string, gone string")
    broker.publish(frame.select(F.struct("*").alias("payload")), topic, mode=mode)
    assert messages(connection, "payload, body") == [({"id": 1, "name": "é", "gone": None}, None)]


def test_a_string_of_json_is_stored_as_json(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    frame = spark.createDataFrame([('{"a": [1, 2]}',), ("null",)], "payload string").coalesce(1)
    broker.publish(frame, topic)
    assert messages(connection, "payload") == [({"a": [1, 2]},), (None,)]


def test_text_that_is_no_json_stores_nothing(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    frame = spark.createDataFrame([("{}",), ("{oops",)], "payload string")
    with pytest.raises(Exception, match="invalid input syntax for type json"):
        broker.publish(frame, topic)
    assert messages(connection) == []
    assert nothing_is_staged(connection)


@pytest.mark.parametrize(
    "headers",
    [
        """map('trace', 'a"b')""",
        """to_json(named_struct('trace', 'a"b'))""",
        """array(named_struct('key', 'trace', 'value', cast('a"b' as binary)))""",
    ],
    ids=["map", "json", "as Kafka's source has them"],
)
def test_headers_come_in_three_forms(
    spark: Any, broker: Any, connection: Session, topic: str, headers: str
) -> None:
    frame = spark.range(2).select(
        F.lit("x").alias("value"), F.when(F.col("id") == 1, F.expr(headers)).alias("headers")
    )
    broker.publish(frame.coalesce(1), topic)
    assert messages(connection, "headers") == [(None,), ({"trace": 'a"b'},)]


def test_bytes_are_stored_as_they_are(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    values = [bytes(range(256)), b"", b"\x00", b"x" * 10_000]
    frame = spark.createDataFrame([(value,) for value in values], "value binary").coalesce(1)
    broker.publish(frame, topic, chunk_bytes=1000)
    assert [bytes(body) for (body,) in messages(connection)] == values


@pytest.mark.parametrize("mode", MODES)
def test_null_is_refused(
    spark: Any, broker: Any, connection: Session, topic: str, mode: str
) -> None:
    frame = spark.createDataFrame([("a",), (None,)], "value string").coalesce(1)
    with pytest.raises(Exception, match="must not be null"):
        broker.publish(frame, topic, mode=mode)
    assert messages(connection) == []
    assert nothing_is_staged(connection)


@pytest.mark.parametrize("mode", MODES)
def test_no_rows_are_a_write_of_none(
    spark: Any, broker: Any, connection: Session, topic: str, mode: str
) -> None:
    frame = spark.createDataFrame([], "value string")
    assert broker.publish(frame, topic, mode=mode, producer="p", seq=1).messages == 0
    assert broker.publish(frame, topic, mode=mode, producer="p", seq=1).repeated
    assert messages(connection) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_write_that_is_repeated_writes_nothing(
    spark: Any, broker: Any, connection: Session, topic: str, mode: str
) -> None:
    frame = spark.range(0, 100, 1, 2).select(F.col("id").cast("string").alias("value"))
    first = broker.publish(frame, topic, mode=mode, producer="nightly", seq=7)
    again = broker.publish(frame, topic, mode=mode, producer="nightly", seq=7)
    assert not first.repeated
    assert again.repeated
    assert (again.messages, again.committed_at) == (first.messages, first.committed_at)
    assert offsets_are_dense(connection, 100)
    # another number is another write
    assert not broker.publish(frame, topic, mode=mode, producer="nightly", seq=8).repeated
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


@pytest.mark.parametrize("mode", MODES)
def test_a_task_that_fails_and_is_retried_counts_once(
    spark: Any, broker: Any, connection: Session, topic: str, mode: str, tmp_path: Any
) -> None:
    result = broker.publish(failing_once(spark, str(tmp_path)), topic, mode=mode, chunk_rows=100)
    assert (tmp_path / "failed").exists()
    assert result.messages == 1000
    stored = sorted(int(bytes(body)) for (body,) in messages(connection))
    assert stored == list(range(1000))
    assert offsets_are_dense(connection, 1000)
    assert nothing_is_staged(connection)


def test_an_atomic_job_that_fails_leaves_nothing(
    spark: Any, broker: Any, connection: Session, topic: str, tmp_path: Any
) -> None:
    with pytest.raises(Exception, match="made to fail"):
        broker.publish(failing_once(spark, str(tmp_path), always=True), topic, producer="p", seq=1)
    assert messages(connection) == []
    assert nothing_is_staged(connection)
    # and it can be run again
    (tmp_path / "failed").touch()
    broker.publish(failing_once(spark, str(tmp_path)), topic, producer="p", seq=1)
    assert offsets_are_dense(connection, 1000)


def test_a_fast_job_that_fails_goes_on_where_it_was(
    spark: Any, broker: Any, connection: Session, topic: str, tmp_path: Any
) -> None:
    with pytest.raises(Exception, match="made to fail"):
        broker.publish(
            failing_once(spark, str(tmp_path), always=True),
            topic,
            mode="fast",
            producer="p",
            seq=1,
            chunk_rows=100,
        )
    part = len(messages(connection))
    assert 0 < part < 1000
    result = broker.publish(
        failing_once(spark, str(tmp_path)), topic, mode="fast", producer="p", seq=1, chunk_rows=100
    )
    assert result.messages == 1000
    stored = sorted(int(bytes(body)) for (body,) in messages(connection))
    assert stored == list(range(1000))


def test_fast_mode_notices_other_rows_under_the_same_number(
    spark: Any, broker: Any, connection: Session, topic: str, tmp_path: Any
) -> None:
    with pytest.raises(Exception, match="made to fail"):
        broker.publish(
            failing_once(spark, str(tmp_path), always=True),
            topic,
            mode="fast",
            producer="p",
            seq=1,
            chunk_rows=100,
        )
    other = spark.range(0, 500, 1, 1).select(F.lit("other").alias("value"))
    before = len(messages(connection))
    with pytest.raises(Exception, match="written before with other contents"):
        broker.publish(other, topic, mode="fast", producer="p", seq=1, chunk_rows=100)
    assert len(messages(connection)) == before


def test_another_number_of_messages_than_expected_publishes_nothing(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    frame = spark.range(10).select(F.lit("x").alias("value"))
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="than expected"):
        broker.publish(frame, topic, expected_messages=11)
    assert messages(connection) == []
    assert nothing_is_staged(connection)
    assert broker.publish(frame, topic, expected_messages=10).messages == 10


def test_an_unknown_topic_is_told_before_anything_runs(spark: Any, broker: Any) -> None:
    frame = spark.range(1).select(F.raise_error(F.lit("this ran")).cast("string").alias("value"))
    with pytest.raises(UnknownTopic, match="nowhere"):
        broker.publish(frame, "nowhere")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("'x' as val", "cannot be written: val"),
        ("'x' as value, 1 as offset", "cannot be written: offset"),
        ("'k' as key", "neither"),
        ("'x' as value, '{}' as payload", "both"),
        ("1 as value", "must be binary or string"),
        ("1 as payload", "must be a struct"),
        ("'x' as value, 1 as key", "must be string"),
        ("'x' as value, 'a' as partition", "must be an integer"),
        ("'x' as value, 1 as headers", "must be a map"),
        ("'x' as value, 'l' as label", "cannot be written: label"),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    spark: Any, broker: Any, topic: str, columns: str, message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        broker.publish(spark.sql(f"select {columns}"), topic)


@pytest.mark.parametrize(
    "options", [{"mode": "careless"}, {"chunk_rows": 0}, {"chunk_bytes": 0}], ids=str
)
def test_options_that_make_no_sense_are_refused(
    spark: Any, broker: Any, topic: str, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        broker.publish(spark.sql("select 'x' as value"), topic, **options)


def test_what_json_is_depends_on_the_column_alone(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    broker.publish(spark.sql("select '{\"a\": 1}' as value"), topic)
    ((body, payload),) = messages(connection, "body, payload")
    assert payload is None
    assert json.loads(bytes(body)) == {"a": 1}


def test_errors_of_the_executors_do_not_show_what_was_written(
    spark: Any, broker: Any, topic: str
) -> None:
    frame = spark.sql("select 'the content of a message' as value, 9 as partition")
    with pytest.raises(Exception, match="unknown partition 9") as caught:
        broker.publish(frame, topic)
    assert b"the content of a message".hex() not in str(caught.value)


@pytest.mark.parametrize(
    "column",
    ["X'FF' as key", "array(named_struct('key', 'h', 'value', X'FF')) as headers"],
)
def test_bytes_that_are_no_text_are_not_changed_into_some(
    spark: Any, broker: Any, connection: Session, topic: str, column: str
) -> None:
    with pytest.raises(Exception, match=r"UTF-?8"):
        broker.publish(spark.sql(f"select 'x' as value, {column}"), topic)
    assert messages(connection) == []


@pytest.mark.parametrize("partition", [2**32, -1])
def test_a_partition_does_not_wrap_into_another(
    spark: Any, broker: Any, connection: Session, topic: str, partition: int
) -> None:
    frame = spark.sql(f"select 'x' as value, {partition}L as partition")
    with pytest.raises(Exception, match="unknown partition -1"):
        broker.publish(frame, topic)
    assert messages(connection) == []


def test_rows_may_come_in_arrows_large_types(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    name = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(name, True)
    try:
        broker.publish(spark.sql("select X'00ff' as value, 'k' as key, '{}' as headers"), topic)
    finally:
        spark.conf.unset(name)
    assert messages(connection, "body, key, headers") == [(b"\x00\xff", "k", {})]
