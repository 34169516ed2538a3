"""A job for spark-submit: it writes a topic and reads it, in all ways, and says where pgq is.

``shipped.py URL USER TOPIC``. Nothing of it comes from the folder of the tests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

import pgq
from pgq.spark import Pgq, register


def where(batches: Iterator[Any]) -> Iterator[Any]:
    """The place of pgq on a worker."""
    import pyarrow as pa

    try:
        import pgq

        place = str(pgq.__file__)
    except ModuleNotFoundError:
        place = "nowhere"
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"place": [place]})


def main(url: str, user: str, topic: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    register(spark)
    places = spark.range(0, 2, 1, 2).mapInArrow(where, "place string").collect()
    broker = Pgq(spark, url, {"user": user})
    options = {"url": url, "user": user, "topic": topic}
    rows = spark.range(0, 10, 1, 2).selectExpr("cast(id as string) as value")
    broker.publish(rows, topic=topic)
    rows.write.format("pgq").mode("append").options(**options).save()
    read = broker.read(topic=topic).collect()
    source = spark.read.format("pgq").options(**options).load().collect()
    found = {
        "driver": pgq.__file__,
        "workers": sorted({row["place"] for row in places}),
        "jars": spark.conf.get("spark.jars"),
        "read": sorted(bytes(row["value"]).decode() for row in read),
        "source": sorted(bytes(row["value"]).decode() for row in source),
    }
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
