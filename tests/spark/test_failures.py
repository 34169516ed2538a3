"""Writes that go wrong although nobody is killed: late and failing tasks, a lost connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from support.bulk import MODES, staged
from support.cluster import PATIENCE
from support.stage import BARRIER, ROWS, Stage
from support.waiting import aside, wait_until

pytest.importorskip("pyspark")

Location = tuple[str, dict[str, str]]


@MODES
def test_a_task_that_goes_on_after_the_commit_is_refused(
    stage: Stage, broker: Any, atomic: bool
) -> None:
    done = broker.publish(
        broker._spark.sql("select '0' as value"),
        topic=stage.topic,
        atomic=atomic,
        producer="p",
        seq=1,
    )
    with pytest.raises(psycopg.Error) as caught:
        stage.connection.execute(
            "insert into pgq.write_chunks (write_id, task, task_attempt, chunk, lengths,"
            " last_chunk, packed_bodies) values (%s, 1, 'zombie', 0, '{1}', true, '1')",
            [done.write_id],
        )
    assert caught.value.sqlstate == "MQ008"
    assert stage.visible() == ["0"]
    assert staged(stage.connection) == 0


def test_the_connection_is_lost_while_the_commit_runs(stage: Stage, broker: Any) -> None:
    """The driver asks again, and the database knows whether it was committed."""
    stage.stop_commit_after("update of committed_at on pgq.bulk_write")
    with stage.barrier():
        write = aside(lambda: stage.publish(broker))
        (committing,) = stage.until_waiting("advisory", "%pgq.commit_write%")
        stage.terminate(committing)
        stage.until_waiting("advisory", "%pgq.commit_write%")
        assert stage.visible() == []
    done = write.result(PATIENCE)
    assert (done.messages, done.duplicate) == (ROWS, False)
    stage.assert_every_row_once()


def failing(rows: Any, dsn: str) -> Any:
    """The rows, but the second of two tasks waits at the barrier when it has them, and fails."""

    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 1:
            with psycopg.connect(dsn) as connection:
                connection.execute(f"select pg_advisory_xact_lock_shared({BARRIER})")
            raise RuntimeError("the task fails for good")

    return rows.mapInArrow(fail, rows.schema)


@pytest.mark.slow  # Spark tries its tasks four times
def test_a_task_that_fails_for_good_leaves_nothing(
    spark: Any, stage: Stage, broker: Any, dsn: str
) -> None:
    rows = failing(spark.range(0, 100, 1, 2).selectExpr("cast(id as string) as value"), dsn)
    with stage.barrier():
        write = aside(lambda: broker.publish(rows, topic=stage.topic, producer="p", seq=1))
        wait_until(lambda: stage.tasks_staged() == 1, PATIENCE, "for the first task")
        assert stage.visible() == []
    with pytest.raises(Exception, match="the task fails for good"):
        write.result(PATIENCE)

    assert stage.visible() == []
    assert staged(stage.connection) == 0
    stage.assert_closed()


def test_plain_jdbc_leaves_what_other_tasks_wrote(
    spark: Any, stage: Stage, location: Location, dsn: str
) -> None:
    """The documented contrast: the view publish_rows has a transaction for each task."""
    rows = spark.range(0, 100, 1, 2).selectExpr(
        f"'{stage.topic}' as topic", "cast(id as string) as payload"
    )
    url, properties = location
    properties = {**properties, "driver": "org.postgresql.Driver"}
    with stage.barrier():
        write = aside(
            lambda: failing(rows, dsn).write.jdbc(url, "pgq.publish_rows", "append", properties)
        )
        wait_until(lambda: len(stage.visible()) == 50, PATIENCE, "for the first task")
    with pytest.raises(Exception, match="the task fails for good"):
        write.result(PATIENCE)

    assert sorted(stage.visible(), key=int) == [str(number) for number in range(50)]
