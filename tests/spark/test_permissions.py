"""A role with the grants that the guide names can do all of it, and reach no table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from pyspark.sql import functions as F

from pgq.spark import Pgq, register
from support.bulk import MODES
from support.house import ROOT
from support.session import Session

GRANTS = re.search(
    r"```sql\n(create role etl login;.*?)```", (ROOT / "python" / "SPARK.md").read_text(), re.DOTALL
)


@pytest.fixture
def etl(spark: Any, location: Any, connection: Session) -> Iterator[Pgq]:
    """Pgq as the role etl of the guide, which has its grants and no other."""
    assert GRANTS is not None
    connection.execute(GRANTS[1].encode())
    connection.execute("select pgq.create_topic('flights', partitions => 2)")
    connection.execute("select pgq.create_topic('routes')")
    connection.execute("select pgq.create_group('flights', 'routing')")
    connection.execute("select pgq.create_queue('alerts')")
    url, properties = location
    yield Pgq(spark, url, {**properties, "user": "etl"})
    connection.execute("drop owned by etl")
    connection.execute("drop role etl")


@MODES
def test_it_writes(spark: Any, etl: Pgq, connection: Session, atomic: bool) -> None:
    frame = spark.range(100).select(F.col("id").cast("string").alias("value"))
    assert etl.publish(frame, topic="flights", atomic=atomic).messages == 100
    assert etl.enqueue(frame, queue="alerts", atomic=atomic).messages == 100
    assert connection.execute("select count(*) from pgq.messages").fetchone() == (100,)
    with pytest.raises(Exception, match="made to fail"):
        failing = F.raise_error(F.lit("made to fail")).cast("string").alias("value")
        etl.publish(spark.range(1).select(failing), topic="flights", atomic=atomic)


def test_it_reads_and_consumes(spark: Any, etl: Pgq, connection: Session) -> None:
    connection.execute(
        "select pgq.publish_batch('flights', bodies => array_fill('x'::bytea, array[50]))"
    )
    assert etl.read(topic="flights").count() == 50
    step = etl.consume(
        lambda frame: frame.select("value"),
        topic="flights",
        consumer_group="routing",
        to_topic="routes",
    )
    assert step is not None
    assert step.messages == 50
    assert etl.read(topic="routes").count() == 50
    assert etl.read_archived_jobs(queue="alerts").count() == 0
    assert etl.read_dead_letters(queue="alerts").count() == 0


@pytest.mark.slow
def test_it_streams(
    spark: Any, etl: Pgq, location: Any, connection: Session, tmp_path: Any
) -> None:
    connection.execute(
        "select pgq.publish_batch('flights', bodies => array_fill('x'::bytea, array[50]))"
    )
    register(spark)
    stream = (
        spark.readStream.format("pgq")
        .options(url=location[0], user="etl", topic="flights", startingOffsets="earliest")
        .option("consumerGroup", "routing")
        .load()
    )
    query = (
        stream.select("value")
        .writeStream.foreachBatch(etl.sink(topic="routes", producer="copy"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert etl.read(topic="routes").count() == 50


def test_it_writes_and_reads_by_the_data_source(
    spark: Any, etl: Pgq, location: Any, connection: Session
) -> None:
    register(spark)
    place = {"url": location[0], "user": "etl"}
    frame = spark.range(40).select(
        F.col("id").cast("string").alias("value"),
        F.element_at(F.array(F.lit("flights"), F.lit("routes")), F.expr("int(id % 2 + 1)")).alias(
            "topic"
        ),
    )
    writer = frame.write.format("pgq").mode("append").options(**place)
    writer.save()
    writer.option("queue", "alerts").save()
    read = spark.read.format("pgq").options(**place)
    assert read.option("subscribePattern", "flights|routes").load().count() == 40
    assert len(connection.execute("select from pgq.peek_jobs('alerts')").fetchall()) == 40
    failing = frame.withColumn("value", F.raise_error(F.lit("made to fail")).cast("string"))
    with pytest.raises(Exception, match="made to fail"):
        failing.write.format("pgq").mode("append").options(**place, queue="alerts").save()
    assert connection.execute(
        "select count(*) from pgq.bulk_write where committed_at is null"
    ).fetchone() == (0,)


def test_it_writes_and_reads_several_databases(spark: Any, etl: Pgq, location: Any) -> None:
    """A list of one goes the way of several."""
    broker = Pgq(spark, [location[0]], {"user": "etl"})
    frame = spark.range(40).select(F.col("id").cast("string").alias("value"))
    assert broker.publish(frame, topic="flights", producer="etl", seq=9).messages == 40
    assert broker.enqueue(frame, queue="alerts").messages == 40
    assert broker.read(topic="flights").count() == 40
    assert broker.watermark(topic="flights") is not None


def test_it_reaches_no_table(etl: Pgq, location: Any, connect: Any) -> None:
    tables = [
        name
        for (name,) in connect(autocommit=True).execute(
            "select relname::text from pg_class where relnamespace = 'pgq'::regnamespace"
            " and relkind in ('r', 'p')"
        )
    ]
    assert {"message", "bulk_write", "staged_chunk", "job"} <= set(tables)
    as_etl = connect(autocommit=True, user="etl")
    for name in tables:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_etl.execute(sql.SQL("select from pgq.{}").format(sql.Identifier(name)))


def test_what_is_not_granted_is_refused(spark: Any, etl: Pgq, connection: Session) -> None:
    frame = spark.sql("select 'x' as value")
    connection.execute("revoke insert on pgq.write_chunks from etl")
    with pytest.raises(Exception, match="permission denied for view write_chunks"):
        etl.publish(frame, topic="flights")
    connection.execute("revoke execute on function pgq.begin_write from etl")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="begin_write"):
        etl.publish(frame, topic="flights")
    connection.execute("select pgq.publish('flights', body => 'x')")
    connection.execute("revoke execute on function pgq.fetch_packed from etl")
    with pytest.raises(Exception, match="permission denied for function fetch_packed"):
        etl.read(topic="flights").count()
