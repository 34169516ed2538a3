"""Rows that the database cannot have: said once, with their row, column and reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pgq.spark import RowRefused
from support.bulk import MODES, staged
from support.session import Session


@pytest.fixture
def topic(connection: Session) -> str:
    connection.create_topic(topic="readings", partitions=2)
    connection.create_queue(queue="alerts")
    return "readings"


REFUSED = [
    ("'x' as value, case when id = 7 then X'FF' end as key", "column key is not valid UTF-8"),
    ("'x' as value, if(id = 7, 'a\\0b', 'a') as key", "column key has a NUL"),
    ("named_struct('a', if(id = 7, 'a\\0b', 'a')) as payload", "column payload has a NUL"),
    (
        r"""if(id = 7, '{"a": "\\u0000"}', '{"a": "\\\\u0000"}') as payload""",
        "column payload has a NUL",
    ),
    (
        """if(id = 7, cast(X'22ff22' as string), '"a"') as payload""",
        "column payload is not valid UTF-8",
    ),
    ("'x' as value, map('h', if(id = 7, 'a\\0b', 'a')) as headers", "column headers has a NUL"),
    (
        "'x' as value, map('h', cast(if(id = 7, X'FF', X'61') as string)) as headers",
        "column headers is not valid UTF-8",
    ),
    (
        "'x' as value, array(named_struct('key', 'h', 'value', if(id = 7, X'FF', X'61')))"
        " as headers",
        "column headers is not valid UTF-8",
    ),
    ("if(id = 7, null, 'x') as value", "column value: a message must not be null"),
    (
        "repeat('x', if(id = 7, 1048577, 1)) as value",
        "column value has 1048577 bytes; at most 1048576",
    ),
]


@pytest.mark.parametrize(("columns", "reason"), REFUSED)
def test_the_row_is_named(
    spark: Any, broker: Any, connection: Session, topic: str, columns: str, reason: str
) -> None:
    frame = spark.sql(f"select {columns} from range(0, 20, 1, 2)")
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(name, 3)
    try:
        with pytest.raises(RowRefused) as caught:
            broker.publish(frame, topic=topic)
    finally:
        spark.conf.unset(name)
    assert str(caught.value).startswith(f"row 8 of task 0: {reason}")
    assert connection.execute("select count(*) from pgq.messages").fetchone() == (0,)
    assert staged(connection) == 0


def counted(frame: Any, seen: Any) -> Any:
    def count(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    return frame.mapInArrow(count, frame.schema)


@MODES
def test_it_is_not_tried_again(
    spark: Any, broker: Any, connection: Session, topic: str, atomic: bool
) -> None:
    """Tasks that fail are tried four times here, and each time all rows would come again."""
    seen = spark.sparkContext.accumulator(0)
    frame = counted(spark.range(0, 100, 1, 1).selectExpr("'x' as value", "'a\\0b' as key"), seen)
    with pytest.raises(RowRefused, match="row 1 of task 0"):
        broker.publish(frame, topic=topic, atomic=atomic)
    assert seen.value == 100
    assert connection.execute("select count(*) from pgq.messages").fetchone() == (0,)


def test_of_several_tasks_one_is_named(spark: Any, broker: Any, topic: str) -> None:
    frame = spark.range(0, 30, 1, 3).selectExpr("'x' as value", "'a\\0b' as key")
    with pytest.raises(RowRefused, match=r"^row 1 of task 0: "):
        broker.publish(frame, topic=topic)


def test_labels_of_jobs(spark: Any, broker: Any, topic: str) -> None:
    with pytest.raises(RowRefused, match=r"^row 1 of task 0: column label has a NUL"):
        broker.enqueue(spark.sql("select 'x' as value, 'a\\0' as label"), queue="alerts")


def test_a_stream_says_it_too(spark: Any, broker: Any, topic: str, tmp_path: Any) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text('{"key": "a\\u0000b"}\n')
    stream = spark.readStream.schema("key string").json(str(tmp_path / "in"))
    query = (
        stream.selectExpr("'x' as value", "key")
        .writeStream.foreachBatch(broker.sink(topic=topic, producer="files"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match="row 1 of task 0: column key has a NUL"):
        query.awaitTermination(60)


def test_what_only_looks_like_a_nul_is_written(
    spark: Any, broker: Any, connection: Session, topic: str
) -> None:
    frame = spark.sql(r"""select '{"a": "\\\\u0000"}' as payload, 'x' as key""")
    broker.publish(frame, topic=topic)
    (row,) = connection.execute("select payload ->> 'a' from pgq.messages").fetchall()
    assert row == ("\\u0000",)


@pytest.mark.parametrize("rows", ["range(0)", "range(1) where false", "values (1) where 1 = 0"])
def test_no_rows_at_all(spark: Any, broker: Any, topic: str, rows: str) -> None:
    frame = spark.sql(f"select 'x' as value from {rows}")
    assert broker.publish(frame, topic=topic).messages == 0
