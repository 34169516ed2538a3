"""Streams written by the data source: ``writeStream.format("pgq")``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.log import new_topic
from support.session import Session
from support.writer import assert_nothing_left, messages

pytest.importorskip("pyspark")

Location = tuple[str, dict[str, str]]
FILES = 4


@pytest.fixture
def lines(spark: Any, tmp_path: Path) -> Any:
    """Files of ten numbers, one file to a micro-batch."""
    folder = tmp_path / "input"
    folder.mkdir()
    for number in range(FILES):
        text = "".join(f"{value}\n" for value in range(number * 10, number * 10 + 10))
        (folder / f"{number}.txt").write_text(text)
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))


@pytest.fixture
def copy(spark: Any, location: Location) -> Any:
    """Run a stream into the test's database until all is read."""
    from pgq.spark import register

    register(spark)
    url, properties = location

    def run(rows: Any, checkpoint: Path, mode: str = "append", **options: object) -> None:
        settings = {"url": url, **properties, **options}
        query = (
            rows.writeStream.format("pgq")
            .outputMode(mode)
            .options(**settings)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    return run


def forget_commit(checkpoint: Path, batch_id: int) -> None:
    """Leave the checkpoint as a driver does that dies before it notes that a batch is written."""
    noted = [*(checkpoint / "commits").glob(f"*{batch_id}*")]
    assert {path.name.strip(".").partition(".")[0] for path in noted} == {str(batch_id)}
    for path in noted:
        path.unlink()


def found(log: Session, topic: str) -> list[int]:
    return sorted(int(body) for (body,) in messages(log, topic))


ALL = list(range(FILES * 10))


@pytest.mark.slow
@pytest.mark.parametrize("producer", ["copy", None], ids=["named", "by its checkpoint"])
def test_a_batch_that_runs_again_is_written_once(
    copy: Any, lines: Any, own: Session, tmp_path: Path, producer: str | None
) -> None:
    topic, checkpoint = new_topic(own, partitions=2), tmp_path / "checkpoint"
    options = {"topic": topic, **({"producer": producer} if producer else {})}
    copy(lines, checkpoint, **options)
    assert found(own, topic) == ALL
    forget_commit(checkpoint, FILES - 1)
    copy(lines, checkpoint, **options)
    assert found(own, topic) == ALL
    assert_nothing_left(own)
    # with another checkpoint it is another query, and says so where its name is not given
    copy(lines, tmp_path / "other", **options)
    assert found(own, topic) == (ALL if producer else sorted(ALL * 2))


@pytest.mark.slow
def test_batches_that_fail_are_tried_again_by_the_next_run(
    copy: Any, lines: Any, own: Session, tmp_path: Path
) -> None:
    topic, checkpoint = new_topic(own), tmp_path / "checkpoint"
    own.execute("alter function pgq.commit_write rename to gone")
    with pytest.raises(Exception, match="commit_write"):
        copy(lines, checkpoint, topic=topic)
    assert found(own, topic) == []
    assert_nothing_left(own)
    own.execute("alter function pgq.gone rename to commit_write")
    copy(lines, checkpoint, topic=topic)
    assert found(own, topic) == ALL


@pytest.mark.slow
def test_the_sink_and_the_writer_go_by_the_same_name(
    broker: Any, copy: Any, lines: Any, own: Session, tmp_path: Path
) -> None:
    """So a query may change from one to the other."""
    topic, checkpoint = new_topic(own), tmp_path / "checkpoint"
    copy(lines, checkpoint, topic=topic, producer="copy")
    forget_commit(checkpoint, FILES - 1)
    query = (
        lines.writeStream.foreachBatch(broker.sink(topic=topic, producer="copy"))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert found(own, topic) == ALL


@pytest.mark.slow
def test_each_row_says_its_topic(copy: Any, lines: Any, own: Session, tmp_path: Path) -> None:
    even, odd = new_topic(own), new_topic(own)
    rows = lines.selectExpr("value", f"if(value % 2 = 0, '{even}', '{odd}') as topic")
    checkpoint = tmp_path / "checkpoint"
    copy(rows, checkpoint)
    for again in (False, True):
        if again:
            forget_commit(checkpoint, FILES - 1)
            copy(rows, checkpoint)
        assert (found(own, even), found(own, odd)) == (ALL[::2], ALL[1::2])
        assert_nothing_left(own)


@pytest.mark.slow
def test_jobs_and_what_cannot_be_done(copy: Any, lines: Any, own: Session, tmp_path: Path) -> None:
    own.create_queue(queue="work")
    copy(lines, tmp_path / "checkpoint", queue="work", priority=1)
    jobs = own.execute("select body from pgq.claim_job('work', max_jobs => 100)").fetchall()
    assert sorted(int(body) for (body,) in jobs) == ALL
    with pytest.raises(Exception, match="cannot overwrite a topic"):
        copy(lines.groupBy("value").count(), tmp_path / "c", mode="complete", queue="work")
    with pytest.raises(Exception, match="is for batches"):
        copy(lines, tmp_path / "seq", queue="work", seq=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "headers", ["array(named_struct('key', 'h', 'value', X'61'))", "map('h', 'a')"]
)
def test_a_spark_whose_streams_hand_over_rows(
    spark: Any, lines: Any, own: Session, tmp_path: Path, location: Location, headers: str
) -> None:
    """As Spark 4.0 does."""
    from pgq.spark import PgqDataSource
    from pgq.spark._write_options import parse_writer_options
    from pgq.spark._writer import RowStreamWriter

    class RowSink(PgqDataSource):
        # so that the workers get it by value
        __module__ = "__main__"

        @classmethod
        def name(cls) -> str:
            return "rows"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
            return RowStreamWriter(parse_writer_options(self.options, streaming=True), schema)

    topic = new_topic(own)
    rows = lines.selectExpr("value", f"if(value = '7', null, {headers}) as headers")
    spark.dataSource.register(RowSink)
    url, properties = location
    query = (
        rows.writeStream.format("rows")
        .options(url=url, **properties, topic=topic, chunkRows=3)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert found(own, topic) == ALL
    found_headers = [headers for (headers,) in messages(own, topic, "headers")]
    assert found_headers.count({"h": "a"}) == len(ALL) - 1
    assert found_headers.count(None) == 1
