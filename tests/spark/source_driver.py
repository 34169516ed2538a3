"""A Spark driver with a streaming query from one topic to another, for tests that kill it.

``python source_driver.py SETTINGS``, a JSON object: the options of the source, a checkpoint, where
to write to, and a step of the second batch. When it has come there it prints the step, and waits
for a line to go on.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pgq.local_spark import local_session
from pgq.spark import Pgq, register


def main(settings: dict[str, Any]) -> None:
    spark = local_session("local[2,4]", "pgq source driver")
    spark.sparkContext.setLogLevel("INFO")
    register(spark)
    sink = Pgq(spark, settings["url"], settings["properties"]).sink(
        topic=settings["output"], producer="query"
    )

    def reached(step: str) -> None:
        if settings["stop"] == step:
            print(step, flush=True)
            sys.stdin.readline()

    def write(frame: Any, batch_id: int) -> None:
        if batch_id == 1:
            reached("planned")
        sink(frame, batch_id)
        if batch_id == 1:
            reached("committed")

    messages = spark.readStream.format("pgq").options(**settings["options"]).load()
    query = (
        messages.select("key", "value")
        .writeStream.option("checkpointLocation", settings["checkpoint"])
        .trigger(availableNow=True)
        .foreachBatch(write)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
