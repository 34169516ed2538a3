"""A name that comes again with other rows: an error, and not rows that are lost in silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.log import new_topic
from support.session import Session
from support.writer import messages, numbers

Location = tuple[str, dict[str, str]]

OTHER = "with other messages"


@pytest.fixture
def by_option(spark: Any, location: Location) -> Callable[..., None]:
    """Write a DataFrame by the data source."""
    from pgq.spark import register

    register(spark)
    url, properties = location

    def write(frame: Any, **options: object) -> None:
        settings = {"url": url, **properties, "producer": "p", "seq": 1, **options}
        frame.write.format("pgq").mode("append").options(**settings).save()

    return write


def test_a_write_with_other_rows(broker: Any, by_option: Any, spark: Any, own: Session) -> None:
    """The same rows, divided otherwise, are a duplicate, by whichever way they were written."""
    topic = new_topic(own, 2)
    rows = numbers(spark, 100, tasks=3)
    other = spark.range(1, 101).selectExpr("cast(id as string) as value")
    name = {"topic": topic, "producer": "p", "seq": 1}
    assert not broker.publish(rows, **name).duplicate
    assert broker.publish(rows.repartition(2), **name).duplicate
    by_option(rows.coalesce(1), topic=topic)
    with pytest.raises(Exception, match=OTHER):
        broker.publish(other, **name)
    with pytest.raises(Exception, match=OTHER):
        by_option(other, topic=topic)
    assert broker.publish(other, check_repeated=False, **name).duplicate
    by_option(other, topic=topic, checkRepeated="false")
    assert len(messages(own, topic)) == 100


def test_a_write_of_several_topics(by_option: Any, spark: Any, own: Session) -> None:
    """The name is that of all of them."""
    topics = [new_topic(own), new_topic(own)]
    pick = f"if(id % 2 = 0, '{topics[0]}', '{topics[1]}') as topic"
    for first, error in ((0, None), (0, None), (2, OTHER)):
        frame = spark.range(first, first + 10).selectExpr("cast(id as string) as value", pick)
        if error is None:
            by_option(frame)
        else:
            with pytest.raises(Exception, match=error):
                by_option(frame)
    assert sum(len(messages(own, topic)) for topic in topics) == 10


@pytest.mark.slow
@pytest.mark.parametrize("way", ["sink", "data source"])
def test_a_second_query_of_the_same_name(
    broker: Any, location: Location, spark: Any, own: Session, tmp_path: Path, way: str
) -> None:
    """It fails at its first batch, before it has written anything."""
    from pgq.spark import register

    register(spark)
    topic = new_topic(own)
    url, properties = location

    def run(number: int, **more: object) -> None:
        folder = tmp_path / str(number)
        folder.mkdir(exist_ok=True)
        (folder / "lines.txt").write_text("".join(f"{number}-{line}\n" for line in range(10)))
        writer = (
            spark.readStream.text(str(folder))
            .writeStream.option("checkpointLocation", str(tmp_path / f"checkpoint{number}"))
            .trigger(availableNow=True)
        )
        if way == "sink":
            sink = broker.sink(topic=topic, producer="p", check_repeated=not more)
            query = writer.foreachBatch(sink).start()
        else:
            settings = {"url": url, **properties, "topic": topic, "producer": "p", **more}
            query = writer.format("pgq").options(**settings).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    run(1)
    with pytest.raises(Exception, match=OTHER):
        run(2)
    run(2, checkRepeated="false")
    assert sorted(messages(own, topic)) == [(f"1-{line}".encode(),) for line in range(10)]
