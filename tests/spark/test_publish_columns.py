"""The columns of a DataFrame and what becomes of them in a message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import functions as F

from support.bulk import MODES, staged
from support.session import Session


@pytest.fixture
def topic(connection: Session) -> str:
    connection.execute("select pgq.create_topic('orders', partitions => 4)")
    return "orders"


def messages(connection: Session, columns: str = "body") -> list[Any]:
    return connection.execute(
        f"select {columns} from pgq.messages order by partition, log_offset".encode()
    ).fetchall()


def test_a_partition_can_be_named_for_each_row(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    frame = spark.range(0, 300, 1, 2).select(
        F.col("id").cast("string").alias("value"), (F.col("id") % 3).alias("partition")
    )
    broker.publish(frame, topic=topic, chunk_rows=40)
    found = connection.execute(
        "select count(*), bool_and(convert_from(body, 'UTF8')::int % 3 = partition)"
        " from pgq.messages"
    ).fetchone()
    assert found == (300, True)


@pytest.mark.slow  # Spark tries its tasks four times
def test_a_partition_that_is_not_there_stores_nothing(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    frame = spark.range(3).select(F.lit("x").alias("value"), (F.col("id") * 2).alias("partition"))
    with pytest.raises(Exception, match="unknown partition 4"):
        broker.publish(frame, topic=topic)
    assert messages(connection) == []
    assert staged(connection) == 0


@MODES
def test_a_struct_becomes_json(
    spark: Any, broker: Any, connection: Session, topic: str, atomic: bool
) -> None:
    frame = spark.createDataFrame([(1, "é", None)], "id int, name string, gone string")
    broker.publish(frame.select(F.struct("*").alias("payload")), topic=topic, atomic=atomic)
    assert messages(connection, "payload, body") == [({"id": 1, "name": "é", "gone": None}, None)]


def test_a_string_of_json_is_stored_as_json(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    frame = spark.createDataFrame([('{"a": [1, 2]}',), ("null",)], "payload string").coalesce(1)
    broker.publish(frame, topic=topic)
    assert messages(connection, "payload") == [({"a": [1, 2]},), (None,)]


@pytest.mark.slow  # Spark tries its tasks four times
def test_text_that_is_no_json_stores_nothing(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    frame = spark.createDataFrame([("{}",), ("{oops",)], "payload string")
    with pytest.raises(Exception, match="column payload is no JSON"):
        broker.publish(frame, topic=topic)
    assert messages(connection) == []
    assert staged(connection) == 0


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
    broker.publish(frame.coalesce(1), topic=topic)
    assert messages(connection, "headers") == [(None,), ({"trace": 'a"b'},)]


def test_bytes_are_stored_as_they_are(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    values = [bytes(range(256)), b"", b"\x00", b"x" * 10_000]
    frame = spark.createDataFrame([(value,) for value in values], "value binary").coalesce(1)
    broker.publish(frame, topic=topic, chunk_bytes=1000)
    assert [bytes(body) for (body,) in messages(connection)] == values


@MODES
def test_null_is_refused(
    spark: Any, broker: Any, connection: Session, topic: str, atomic: bool
) -> None:
    frame = spark.createDataFrame([("a",), (None,)], "value string").coalesce(1)
    with pytest.raises(Exception, match="must not be null"):
        broker.publish(frame, topic=topic, atomic=atomic)
    assert messages(connection) == []
    assert staged(connection) == 0


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
        broker.publish(spark.sql(f"select {columns}"), topic=topic)


def test_what_json_is_depends_on_the_column_alone(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    broker.publish(spark.sql("select '{\"a\": 1}' as value"), topic=topic)
    ((body, payload),) = messages(connection, "body, payload")
    assert payload is None
    assert json.loads(bytes(body)) == {"a": 1}


@pytest.mark.parametrize(
    "column",
    ["X'FF' as key", "array(named_struct('key', 'h', 'value', X'FF')) as headers"],
)
def test_bytes_that_are_no_text_are_not_changed_into_some(
    spark: Any, broker: Any, connection: Session, topic: str, column: str
) -> None:
    with pytest.raises(Exception, match=r"UTF-?8"):
        broker.publish(spark.sql(f"select 'x' as value, {column}"), topic=topic)
    assert messages(connection) == []


@pytest.mark.slow  # Spark tries its tasks four times
@pytest.mark.parametrize("partition", [2**32, -1])
def test_a_partition_does_not_wrap_into_another(
    spark: Any, broker: Any, connection: Session, topic: str, partition: int
) -> None:
    frame = spark.sql(f"select 'x' as value, {partition}L as partition")
    with pytest.raises(Exception, match="unknown partition -1"):
        broker.publish(frame, topic=topic)
    assert messages(connection) == []


def test_rows_may_come_in_arrows_large_types(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    name = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(name, True)
    try:
        broker.publish(
            spark.sql("select X'00ff' as value, 'k' as key, '{}' as headers"), topic=topic
        )
    finally:
        spark.conf.unset(name)
    assert messages(connection, "body, key, headers") == [(b"\x00\xff", "k", {})]
