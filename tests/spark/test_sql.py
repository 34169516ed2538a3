"""The data source in SQL: Spark finds it by itself, and a temporary view is what it has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.log import new_topic
from support.session import Session
from support.writer import messages

Location = tuple[str, dict[str, str]]


@pytest.fixture
def options(location: Location) -> str:
    url, properties = location
    return f"url '{url}', user '{properties['user']}'"


def test_a_view_is_read_and_written(spark: Any, own: Session, options: str) -> None:
    topic = new_topic(own, messages=3)
    other = new_topic(own)
    for view, name in (("source", topic), ("target", other)):
        spark.sql(
            f"create or replace temporary view {view} using pgq options"
            f" ({options}, topic '{name}', valueFormat 'json')"
        )
    assert spark.sql("select count(*) from source where offset > 1").first()[0] == 2
    given = {"value": "value", "KEY": "cast('k' as binary)"}
    if spark.version.startswith("4.0"):  # which wants a value for each column
        given.update(dict.fromkeys(spark.table("target").columns[2:], "null"))
    spark.sql(
        f"insert into target ({', '.join(given)}) select {', '.join(given.values())} from source"
    )
    assert messages(own, other, "payload, key") == [(1, "k"), (2, "k"), (3, "k")]


def test_a_table_is_an_error_that_names_the_view(spark: Any, own: Session, options: str) -> None:
    topic = new_topic(own)
    tells = "instead of CREATE TABLE use CREATE TEMPORARY VIEW"
    with pytest.raises(Exception, match=tells):
        spark.sql(f"create table pgq_table using pgq options ({options}, topic '{topic}')")
    spark.sql(f"create table pgq_table (a int) using pgq options ({options}, topic '{topic}')")
    try:
        with pytest.raises(Exception, match=tells):
            spark.sql("select * from pgq_table").collect()
    finally:
        spark.sql("drop table pgq_table")


@pytest.mark.parametrize("include", ["true", "false"])
def test_headers_can_be_left_out(
    spark: Any, own: Session, location: Location, include: str
) -> None:
    """The option that Kafka's source has, where false is the default; here true is."""
    topic = new_topic(own, messages=2)
    url, properties = location
    reader = spark.read.format("pgq").options(url=url, **properties, topic=topic)
    frame = reader.option("includeHeaders", include).load()
    assert ("headers" in frame.columns) == (include == "true")
    assert sorted(row["offset"] for row in frame.collect()) == [1, 2]


def test_names_of_columns_without_regard_to_case(
    spark: Any, broker: Any, save: Any, own: Session
) -> None:
    topic = new_topic(own)
    frame = spark.sql("select '1' as Payload, 'k' as KEY, map('h', 'v') as Headers")
    broker.publish(frame, topic=topic)
    save(frame, topic=topic)
    assert messages(own, topic, "payload, key, headers") == [(1, "k", {"h": "v"})] * 2
    with pytest.raises(ValueError, match="columns that are there more than once: key"):
        broker.publish(spark.sql("select 'x' as value, 'k' as key, 'k' as Key"), topic=topic)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(ValueError, match="columns that cannot be written: KEY"):
            broker.publish(spark.sql("select 'x' as value, 'k' as KEY"), topic=topic)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_an_older_pyspark_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text('__version__ = "3.5.4"\n')
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import pgq.spark"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    told = "ImportError: pgq.spark needs PySpark 4.0 or newer, this is 3.5.4\n"
    assert done.stderr.endswith(told)
