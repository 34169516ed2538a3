"""What differs between the versions of Spark that the data source pgq is made for."""

from __future__ import annotations

from typing import Any

import pytest

from support.log import new_topic
from support.session import Session
from support.stream import Stream

pytest.importorskip("pyspark")

Location = tuple[str, dict[str, str]]


def spark_version() -> tuple[int, int]:
    import pyspark

    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


def test_a_frame_used_twice_has_the_same_rows(spark: Any, location: Location, own: Session) -> None:
    """Also with what derives from it, and whatever is published between two actions."""
    from pgq.spark import register

    register(spark)
    topic = new_topic(own, messages=3)
    url, properties = location
    frame = (
        spark.read.format("pgq").options(url=url, topic=topic, **properties).load()
    ).repartition(1)
    assert frame.count() == 3
    own.publish(topic=topic, payload=4)
    assert frame.count() == 3
    assert sorted(row["offset"] for row in frame.collect()) == [1, 2, 3]


def test_a_frame_that_was_filtered_is_whole(spark: Any, location: Location, own: Session) -> None:
    """Spark would give later uses what a source has left out for a filter."""
    from pgq.spark import register

    register(spark)
    url, properties = location
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        reader = spark.read.format("pgq").options(url=url, **properties)
        frame = reader.option("topic", new_topic(own, messages=3)).load()
        filtered = frame.where("offset > 1")
        assert [filtered.count(), frame.count(), filtered.union(frame).count()] == [2, 3, 5]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_limit_is_refused_by_load(spark: Any, location: Location, own: Session) -> None:
    """Before 4.2, with a sentence that names the version; from then on it is taken."""
    import pyspark

    from pgq.spark import register

    register(spark)
    url, properties = location
    reader = spark.readStream.format("pgq").options(
        url=url, topic=new_topic(own), maxOffsetsPerTrigger=1, **properties
    )
    if spark_version() >= (4, 2):
        assert reader.load().isStreaming
        return
    with pytest.raises(Exception, match=r"needs Spark 4\.2 or newer") as caught:
        reader.load()
    assert f"this is {pyspark.__version__}" in str(caught.value)


@pytest.mark.slow
def test_available_now_without_a_limit(stream: Stream, own: Session) -> None:
    """It ends in all versions, with what was there."""
    topic = new_topic(own, messages=2)
    stream.before_commit = lambda batch_id: own.publish(topic=topic, payload=3)
    assert stream.run(topic, startingOffsets="earliest") == [[(0, 1), (0, 2)]]
    stream.before_commit = lambda batch_id: None
    assert stream.run(topic) == [[(0, 1), (0, 2)], [(0, 3)]]
