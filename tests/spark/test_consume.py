"""Consume, transform, produce: one transaction of the driver."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from pyspark.sql import functions as F

from pgq.errors import UnknownGroup
from support.session import Session


@pytest.fixture
def topic(connection: Session) -> str:
    connection.execute("select pgq.create_topic('raw', partitions => 4)")
    connection.execute("select pgq.create_topic('clean', partitions => 2)")
    connection.execute("select pgq.create_group('raw', 'cleaners')")
    for partition in range(4):
        connection.execute(
            "select pgq.publish_batch('raw', partition => %(p)s, bodies =>"
            " array(select convert_to(%(p)s || '.' || i, 'UTF8')"
            " from generate_series(1, 100) as i))",
            {"p": partition},
        )
    return "raw"


def upper(frame: Any) -> Any:
    return frame.select(F.concat(F.lit("seen "), F.col("value").cast("string")).alias("value"))


def lag(connection: Session) -> int:
    (total,) = connection.execute("select sum(lag)::int from pgq.group_lag").fetchone() or (0,)
    return int(total)


def output(connection: Session) -> list[str]:
    rows = connection.execute("select body from pgq.messages where topic = 'clean'").fetchall()
    return sorted(bytes(body).decode() for (body,) in rows)


EXPECTED = sorted(f"seen {partition}.{i}" for partition in range(4) for i in range(1, 101))


def test_position_and_output_move_together(broker: Any, connection: Session, topic: str) -> None:
    step = broker.consume(
        upper, topic=topic, consumer_group="cleaners", to_topic="clean", max_messages=200
    )
    assert step.messages == 200
    assert step.written.messages == 200
    assert lag(connection) == 200
    assert len(output(connection)) == 200
    while (
        broker.consume(
            upper, topic=topic, consumer_group="cleaners", to_topic="clean", max_messages=150
        )
        is not None
    ):
        pass
    assert lag(connection) == 0
    assert output(connection) == EXPECTED


def test_a_step_goes_on_to_the_next_partition(broker: Any, topic: str) -> None:
    step = broker.consume(
        lambda frame: None, topic=topic, consumer_group="cleaners", max_messages=250
    )
    assert sorted(len(part) for part in step.ranges) == [50, 100, 100]
    assert len({part.partition for part in step.ranges}) == 3
    assert step.written is None


@pytest.mark.slow  # Spark tries its tasks four times
def test_a_transformation_that_fails_moves_nothing(
    broker: Any, connection: Session, topic: str
) -> None:
    def fail(frame: Any) -> Any:
        return frame.select(F.raise_error(F.lit("made to fail")).cast("string").alias("value"))

    with pytest.raises(Exception, match="made to fail"):
        broker.consume(fail, topic=topic, consumer_group="cleaners", to_topic="clean")
    assert lag(connection) == 400
    assert output(connection) == []
    assert connection.execute("select count(*) from pgq.staged_task").fetchone() == (0,)
    broker.consume(upper, topic=topic, consumer_group="cleaners", to_topic="clean")
    assert output(connection) == EXPECTED


def test_a_driver_that_dies_before_its_commit_moves_nothing(
    broker: Any, connection: Session, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pgq.spark._connection import DriverConnection

    def die(self: DriverConnection) -> None:
        # as a driver that is killed: its session ends with everything done but the commit
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where state = 'idle in transaction' and datname = current_database()"
        )
        genuine(self)

    genuine = DriverConnection.commit
    monkeypatch.setattr(DriverConnection, "commit", die)
    with pytest.raises(psycopg.Error):
        broker.consume(upper, topic=topic, consumer_group="cleaners", to_topic="clean")
    monkeypatch.undo()
    assert lag(connection) == 400
    assert output(connection) == []
    broker.consume(upper, topic=topic, consumer_group="cleaners", to_topic="clean")
    assert output(connection) == EXPECTED


def test_others_pass_over_what_a_step_has(broker: Any, connection: Session, topic: str) -> None:
    taken: list[Any] = []

    def look(frame: Any) -> None:
        taken.extend(
            connection.execute("select * from pgq.claim_offsets('raw', 'cleaners')").fetchall()
        )

    broker.consume(look, topic=topic, consumer_group="cleaners", max_messages=400)
    assert taken == []


def test_jobs_can_come_out_of_it(broker: Any, connection: Session, topic: str) -> None:
    connection.execute("select pgq.create_queue('work')")
    broker.consume(upper, topic=topic, consumer_group="cleaners", to_queue="work")
    assert connection.execute("select ready from pgq.queue_stats").fetchone() == (400,)
    assert lag(connection) == 0


def test_nothing_to_read_is_none(broker: Any, topic: str) -> None:
    broker.consume(lambda frame: None, topic=topic, consumer_group="cleaners")
    assert broker.consume(lambda frame: None, topic=topic, consumer_group="cleaners") is None


def test_bad_arguments_move_nothing(broker: Any, connection: Session, topic: str) -> None:
    with pytest.raises(UnknownGroup):
        broker.consume(upper, topic=topic, consumer_group="nobody", to_topic="clean")
    with pytest.raises(ValueError, match="no target"):
        broker.consume(upper, topic=topic, consumer_group="cleaners")
    with pytest.raises(ValueError, match="not to both"):
        broker.consume(
            upper, topic=topic, consumer_group="cleaners", to_topic="clean", to_queue="work"
        )
    for number in (0, -1):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="max_messages"):
            broker.consume(
                upper, topic=topic, consumer_group="cleaners", to_topic="clean", max_messages=number
            )
    assert lag(connection) == 400
