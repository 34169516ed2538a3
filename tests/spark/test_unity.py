"""What topics and queues can do they do for Spark as well: each way in and out, on one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pgq.errors import UnknownTopic
from support.session import Session
from support.writer import messages, numbers

Location = tuple[str, dict[str, str]]


@pytest.fixture
def save(spark: Any, location: Location) -> Any:
    """Write by the data source."""
    from pgq.spark import register

    register(spark)
    url, properties = location

    def write(frame: Any, **options: object) -> None:
        settings = {"url": url, **properties, **options}
        frame.write.format("pgq").mode("append").options(**settings).save()

    return write


@pytest.fixture
def load(spark: Any, location: Location) -> Any:
    """Read by the data source."""
    from pgq.spark import register

    register(spark)
    url, properties = location

    def read(topic: str, **options: object) -> list[bytes]:
        settings = {"url": url, **properties, "topic": topic, **options}
        rows = spark.read.format("pgq").options(**settings).load().orderBy("partition", "offset")
        return [bytes(row["value"]) for row in rows.select("value").collect()]

    return read


def test_a_deferred_topic(spark: Any, broker: Any, save: Any, load: Any, own: Session) -> None:
    """What has no offset yet is not read; what Spark writes comes behind it, and gives it one."""
    own.create_topic(topic="later", partitions=1, deferred=True)
    own.publish(topic="later", body=b"first")
    assert load("later") == []
    assert broker.read(topic="later").count() == 0
    save(numbers(spark, 3, tasks=1), topic="later")
    own.publish(topic="later", body=b"last")
    assert load("later") == [b"first", b"0", b"1", b"2"]
    own.assign_offsets(topic="later")
    assert load("later") == [b"first", b"0", b"1", b"2", b"last"]
    assert broker.read(topic="later").count() == 5


def test_a_topic_with_subscriptions(spark: Any, save: Any, own: Session) -> None:
    """Jobs are made of the messages that match, in a large write and in a small one."""
    own.create_topic(topic="orders", partitions=2)
    for queue, more in (("all", {}), ("odd", {"filter": {"kind": ["odd"]}})):
        own.create_queue(queue=queue)
        own.subscribe(subscription=queue, topic="orders", queue=queue, **more)
    for rows in (8, 12_000):
        frame = spark.range(0, rows, 1, 2).selectExpr(
            "cast(id as string) as value",
            "map('kind', if(id % 2 = 1, 'odd', 'even')) as headers",
        )
        save(frame, topic="orders")
    assert len(messages(own, "orders")) == 12_008
    for queue, wanted in (("all", 12_008), ("odd", 6_004)):
        count = 0
        while jobs := own.claim_job(queue=queue, max_jobs=1000):
            count += len(jobs)
        assert count == wanted


def test_rows_that_were_published_before(spark: Any, location: Location, own: Session) -> None:
    """By their idempotency keys, whoever published them first."""
    own.create_topic(topic="orders", partitions=2)
    own.publish(topic="orders", payload=[0], idempotency_key="order 3")
    url, properties = location
    frame = spark.range(0, 10, 1, 2).selectExpr(
        "'orders' as topic",
        "concat('[', id, ']') as payload",
        "concat('order ', id) as idempotency_key",
    )
    for _ in range(2):
        (
            frame.write.format("jdbc")
            .options(url=url, driver="org.postgresql.Driver", **properties)
            .option("dbtable", "pgq.publish_rows")
            .mode("append")
            .save()
        )
    assert sorted(payload[0] for (payload,) in messages(own, "orders", "payload")) == [
        0,
        *(n for n in range(10) if n != 3),
    ]


@pytest.fixture
def role(own: Session) -> Iterator[str]:
    """A role that may call everything, and has no grant."""
    with own.transaction():
        own.execute("create role spark_stranger login")
        own.execute("grant usage on schema pgq to spark_stranger")
        own.execute("grant execute on all functions in schema pgq to spark_stranger")
        own.execute("grant select, insert on pgq.write_chunks to spark_stranger")
    yield "spark_stranger"
    own.rollback()
    own.execute("drop owned by spark_stranger")
    own.execute("drop role spark_stranger")


def test_a_restricted_topic(
    spark: Any, location: Location, save: Any, load: Any, own: Session, role: str
) -> None:
    """It is not there for whoever has no grant; each grant opens what it says."""
    from pgq.spark import Pgq

    own.create_topic(topic="secret", partitions=1, restricted=True)
    own.publish(topic="secret", body=b"0")
    stranger = Pgq(spark, location[0], {"user": role})
    rows = numbers(spark, 3, tasks=1)
    for call in (
        lambda: stranger.publish(rows, topic="secret"),
        lambda: stranger.read(topic="secret"),
    ):
        with pytest.raises((UnknownTopic, psycopg.Error), match='unknown topic "secret"'):
            call()
    for way in (
        lambda: save(rows, topic="secret", user=role),
        lambda: load("secret", user=role),
    ):
        with pytest.raises(Exception, match='unknown topic "secret"'):
            way()
    assert messages(own, "secret") == [(b"0",)]

    own.grant_access(role=role, access="publish", topic="secret")
    assert stranger.publish(rows, topic="secret").messages == 3
    save(rows, topic="secret", user=role)
    with pytest.raises(Exception, match="secret"):
        load("secret", user=role)

    own.grant_access(role=role, access="consume", topic="secret")
    assert load("secret", user=role) == [b"0", *[b"0", b"1", b"2"] * 2]
    assert stranger.read(topic="secret").count() == 7
