"""DataFrames become jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import functions as F

from pgq.errors import UnknownQueue
from support.bulk import MODES
from support.session import Session


@pytest.fixture
def queue(connection: Session) -> str:
    connection.execute("select pgq.create_queue('mail')")
    return "mail"


@MODES
def test_every_row_becomes_one_job(
    spark: Any, broker: Any, connection: Session, queue: str, atomic: bool
) -> None:
    frame = spark.range(0, 500, 1, 2).select(
        F.struct(F.col("id").alias("n")).alias("payload"),
        F.when(F.col("id") < 3, F.lit("welcome")).alias("label"),
        F.concat(F.lit("k"), F.col("id")).alias("key"),
        F.create_map(F.lit("trace"), F.col("id").cast("string")).alias("headers"),
    )
    result = broker.enqueue(frame, queue=queue, atomic=atomic, priority=4, chunk_rows=100)
    assert result.messages == 500
    jobs = connection.execute(
        "select payload, key, label, headers, priority from pgq.claim_job('mail', 1000)"
    ).fetchall()
    assert sorted(jobs, key=lambda job: int(job[0]["n"])) == [
        ({"n": n}, f"k{n}", "welcome" if n < 3 else None, {"trace": str(n)}, 4) for n in range(500)
    ]


def test_raw_bytes_can_be_jobs_and_wait_for_a_delay(
    spark: Any, broker: Any, connection: Session, queue: str
) -> None:
    broker.enqueue(
        spark.sql("select cast('x' as binary) as value"), queue=queue, delay=timedelta(hours=1)
    )
    assert connection.execute("select * from pgq.claim_job('mail')").fetchall() == []
    assert connection.execute("select delayed from pgq.queue_stats").fetchone() == (1,)


def test_a_write_that_is_repeated_makes_no_jobs(
    spark: Any, broker: Any, connection: Session, queue: str
) -> None:
    frame = spark.range(10).select(F.struct("id").alias("payload"))
    assert not broker.enqueue(frame, queue=queue, producer="p", seq=1).duplicate
    assert broker.enqueue(frame, queue=queue, producer="p", seq=1).duplicate
    assert connection.execute("select ready from pgq.queue_stats").fetchone() == (10,)


def test_a_job_that_fails_leaves_none(
    spark: Any, broker: Any, connection: Session, queue: str
) -> None:
    frame = spark.range(0, 10, 1, 2).select(
        F.when(F.col("id") == 9, F.raise_error(F.lit("made to fail")))
        .otherwise(F.col("id").cast("string"))
        .alias("value")
    )
    with pytest.raises(Exception, match="made to fail"):
        broker.enqueue(frame, queue=queue, chunk_rows=1)
    assert connection.execute("select ready from pgq.queue_stats").fetchone() == (0,)
    assert connection.execute("select count(*) from pgq.staged_chunk").fetchone() == (0,)


@pytest.mark.slow  # Spark tries its tasks four times
def test_a_bad_delay_or_priority_makes_no_jobs(
    spark: Any, broker: Any, connection: Session, queue: str
) -> None:
    frame = spark.sql("select 'x' as value")
    with pytest.raises(Exception, match='argument "delay" must be from 0 to'):
        broker.enqueue(frame, queue=queue, delay=timedelta(seconds=-1))
    with pytest.raises(Exception, match='argument "priority" must be from 0 to 9'):
        broker.enqueue(frame, queue=queue, priority=10)
    assert connection.execute("select ready, delayed from pgq.queue_stats").fetchone() == (0, 0)


def test_an_unknown_queue_and_columns_of_messages_are_refused(
    spark: Any, broker: Any, queue: str
) -> None:
    with pytest.raises(UnknownQueue, match="nowhere"):
        broker.enqueue(spark.sql("select 'x' as value"), queue="nowhere")
    with pytest.raises(ValueError, match="cannot be written: partition"):
        broker.enqueue(spark.sql("select 'x' as value, 1 as partition"), queue=queue)
