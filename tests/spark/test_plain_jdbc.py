"""What those do who know only Spark's JDBC source: insert rows into the views, select from them."""

from __future__ import annotations

from typing import Any

import pytest

from support.session import Session


@pytest.fixture
def options(location: Any) -> dict[str, str]:
    url, properties = location
    return {"url": url, "driver": "org.postgresql.Driver", **properties}


def test_rows_become_messages(spark: Any, connection: Session, options: dict[str, str]) -> None:
    connection.execute("select pgq.create_topic('orders', partitions => 2)")
    frame = spark.sql(
        """select 'orders' as topic, concat('k', id) as key, concat('{"id": ', id, '}') as payload,
            if(id = 1, '{"trace": "t"}', null) as headers
        from range(0, 200, 1, 2)"""
    )
    frame.write.format("jdbc").options(**options, dbtable="pgq.publish_rows").mode("append").save()
    rows = connection.execute("select key, payload, headers from pgq.messages").fetchall()
    assert sorted(rows, key=lambda row: int(row[1]["id"])) == [
        (f"k{n}", {"id": n}, {"trace": "t"} if n == 1 else None) for n in range(200)
    ]


def test_rows_become_jobs(spark: Any, connection: Session, options: dict[str, str]) -> None:
    connection.execute("select pgq.create_queue('mail')")
    frame = spark.sql(
        "select 'mail' as queue, '{}' as payload, 'welcome' as label, 3 as priority,"
        " timestamp'2020-01-01' as run_at from range(5)"
    )
    frame.write.format("jdbc").options(**options, dbtable="pgq.enqueue_rows").mode("append").save()
    jobs = connection.execute(
        "select label, priority from pgq.claim_job('mail', max_jobs => 10)"
    ).fetchall()
    assert jobs == [("welcome", 3)] * 5


def test_a_row_that_is_refused_fails_its_task(
    spark: Any, connection: Session, options: dict[str, str]
) -> None:
    frame = spark.sql("select 'nowhere' as topic, '{}' as payload")
    with pytest.raises(Exception, match='unknown topic "nowhere"'):
        (
            frame.write.format("jdbc")
            .options(**options, dbtable="pgq.publish_rows")
            .mode("append")
            .save()
        )
    assert connection.execute("select count(*) from pgq.messages").fetchone() == (0,)


@pytest.mark.parametrize("truncate", ["true", "false"])
def test_overwrite_fails_and_removes_nothing(
    spark: Any, connection: Session, options: dict[str, str], truncate: str
) -> None:
    connection.execute("select pgq.create_topic('orders')")
    connection.execute("select pgq.publish('orders', payload => '1')")
    frame = spark.sql("select 'orders' as topic, '{}' as payload")
    with pytest.raises(Exception, match="is not a table"):
        (
            frame.write.format("jdbc")
            .options(**options, dbtable="pgq.publish_rows", truncate=truncate)
            .mode("overwrite")
            .save()
        )
    assert connection.execute("select count(*) from pgq.messages").fetchone() == (1,)


def test_a_range_can_be_selected(spark: Any, connection: Session, options: dict[str, str]) -> None:
    connection.execute("select pgq.create_topic('orders', partitions => 1)")
    connection.execute(
        "select pgq.publish_batch('orders', bodies => array_fill('x'::bytea, array[50]))"
    )
    query = "select log_offset, body from pgq.fetch_range('orders', 0, 11, 20)"
    frame = spark.read.format("jdbc").options(**options, query=query).load()
    assert sorted(row.log_offset for row in frame.collect()) == list(range(11, 21))
