"""Rows that break off while a task reads them: the task is tried again, and no row is missing.

To Python such rows seem to have come to their end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.bulk import MODES
from support.log import new_topic
from support.session import Session

pytest.importorskip("pyspark")

ROWS = 400


@pytest.fixture
def frame(spark: Any) -> Iterator[Any]:
    """Rows of one task, which break off at its first attempt."""

    def break_off(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 2 and context.attemptNumber() == 0:
                raise RuntimeError("the rows break off")
            yield batch

    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, 100)
    rows = spark.range(0, ROWS, 1, 1).selectExpr(
        # large ones, so that those before the end are not held back in some buffer
        "concat(id, repeat(' ', 5000)) as value"
    )
    yield rows.mapInArrow(break_off, rows.schema)
    spark.conf.set(name, before)


def numbers(connection: Session, topic: str) -> list[int]:
    """What the topic has."""
    rows = connection.execute(
        "select convert_from(body, 'UTF8')::integer from pgq.messages where topic = %s", [topic]
    ).fetchall()
    return sorted(row[0] for row in rows)


@MODES
def test_publish(broker: Any, connection: Session, frame: Any, atomic: bool) -> None:
    topic = new_topic(connection)
    assert broker.publish(frame, topic=topic, atomic=atomic).messages == ROWS
    assert numbers(connection, topic) == list(range(ROWS))


@pytest.mark.parametrize("named", [True, False], ids=["by option", "by column"])
def test_the_data_source(save: Any, connection: Session, frame: Any, named: bool) -> None:
    topic = new_topic(connection)
    if named:
        save(frame, topic=topic)
    else:
        save(frame.selectExpr("value", f"'{topic}' as topic"))
    assert numbers(connection, topic) == list(range(ROWS))


def test_jobs(broker: Any, save: Any, connection: Session, frame: Any) -> None:
    connection.create_queue(queue="broken")
    assert broker.enqueue(frame, queue="broken").messages == ROWS
    save(frame, queue="broken")
    assert connection.execute("select ready from pgq.queue_stats").fetchone() == (2 * ROWS,)
