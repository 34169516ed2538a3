"""Streams become messages, each micro-batch once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from support.bulk import MODES
from support.session import Session


class CrashError(RuntimeError):
    """What a driver would not survive."""


def run(stream: Any, sink: Any, checkpoint: Path) -> None:
    query = (
        stream.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


@pytest.fixture
def stream(spark: Any, tmp_path: Path) -> Any:
    """Files of ten numbers, one file to a micro-batch."""
    folder = tmp_path / "input"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text(
            "".join(f"{value}\n" for value in range(number * 10, number * 10 + 10))
        )
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))


@pytest.fixture
def numbers(connection: Session) -> Any:
    connection.execute("select pgq.create_topic('numbers', partitions => 2)")

    def found() -> list[int]:
        rows = connection.execute("select convert_from(body, 'UTF8') from pgq.messages").fetchall()
        return sorted(int(text) for (text,) in rows)

    return found


@MODES
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_batch_that_runs_again_is_written_once(
    broker: Any, stream: Any, numbers: Any, tmp_path: Path, atomic: bool, when: str
) -> None:
    sink = broker.sink(topic="numbers", producer="copy", atomic=atomic)
    armed = [True]

    def crashing(frame: Any, batch_id: int) -> None:
        if batch_id == 2 and armed[0] and when == "before":
            raise CrashError("before the batch is written")
        sink(frame, batch_id)
        if batch_id == 2 and armed[0]:
            raise CrashError("after it is written, before Spark notes it")

    with pytest.raises(Exception, match=r"(batch|it) is written"):
        run(stream, crashing, tmp_path / "checkpoint")
    # which file came first is Spark's choice
    assert len(set(numbers())) == len(numbers()) == (20 if when == "before" else 30)
    armed[0] = False
    run(stream, crashing, tmp_path / "checkpoint")
    assert numbers() == list(range(40))


def test_rows_can_be_transformed_and_become_jobs(
    broker: Any, stream: Any, connection: Session, tmp_path: Path
) -> None:
    connection.execute("select pgq.create_queue('work')")
    sink = broker.sink(
        queue="work",
        producer="jobs",
        transform=lambda frame: frame.select(F.struct(F.col("value").alias("n")).alias("payload")),
    )
    run(stream, sink, tmp_path / "checkpoint")
    jobs = connection.execute("select payload from pgq.claim_job('work', max_jobs => 100)")
    assert sorted(int(payload["n"]) for (payload,) in jobs.fetchall()) == list(range(40))


def test_a_sink_has_one_target(broker: Any) -> None:
    with pytest.raises(ValueError, match="a topic or to a queue"):
        broker.sink(producer="p")
    with pytest.raises(ValueError, match="a topic or to a queue"):
        broker.sink(topic="t", producer="p", queue="q")
