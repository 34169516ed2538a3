"""A Spark driver in a process of its own, to be killed, or to be another kind of session.

``python driver.py SETTINGS``, a JSON object: the master, further settings of Spark, and whether to
use Spark Connect. It says which process its JVM is, and then reads what to do line by line: JSON
objects, each of which it answers with a line of JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import traceback
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pgq.local_spark import find_java, find_jdbc_driver, local_session
from pgq.spark import Pgq, register


def numbers(broker: Pgq, order: dict[str, Any]) -> Any:
    """The numbers from 0, as texts; with the attempt of the task that made them if asked for."""
    frame = broker._spark.range(0, order["rows"], 1, order["tasks"])
    frame = frame.selectExpr("cast(id as string) as value")

    def mark(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            values = [f"{value}:{context.attemptNumber()}" for value in batch["value"].to_pylist()]
            yield pa.RecordBatch.from_pydict({"value": values})

    return frame.mapInArrow(mark, "value string") if order.get("attempts") else frame


def place(order: dict[str, Any]) -> dict[str, str]:
    """What the data source is told of the database, or of several."""
    urls = [order["url"]] if isinstance(order["url"], str) else order["url"]
    waits = f"{order.get('retry_seconds', 60)}s"
    return {"url": " ".join(urls), "retryTimeout": waits, **order["properties"]}


def publish(broker: Pgq, order: dict[str, Any]) -> Any:
    """Publish numbers to a topic."""
    done = broker.publish(numbers(broker, order), topic=order["topic"], **order["options"])
    return {"messages": done.messages, "duplicate": done.duplicate}


def publish_failing(broker: Pgq, order: dict[str, Any]) -> Any:
    """Publish by tasks that fail."""

    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        raise RuntimeError("the task fails for good")

    frame = numbers(broker, order)
    frame = frame.mapInArrow(fail, "value string")
    broker.publish(frame, topic=order["topic"], **order["options"])


def enqueue(broker: Pgq, order: dict[str, Any]) -> Any:
    """Make jobs of numbers."""
    done = broker.enqueue(numbers(broker, order), queue=order["queue"], **order["options"])
    return {"messages": done.messages, "duplicate": done.duplicate}


def read(broker: Pgq, order: dict[str, Any]) -> Any:
    """Read a topic."""
    rows = broker.read(topic=order["topic"], **order["options"]).collect()
    return [[row["partition"], row["offset"], bytes(row["value"]).decode()] for row in rows]


def explain(broker: Pgq, order: dict[str, Any]) -> Any:
    """The plans of a DataFrame, with what it prints of itself and of its broker."""
    frame = broker.read(topic=order["topic"])
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        frame.explain(True)
        frame.explain("formatted")
        print(frame, repr(broker), str(broker), repr(broker._locations))
    return printed.getvalue()


def stream(broker: Pgq, order: dict[str, Any]) -> Any:
    """Write the lines of a folder's files to a topic, those that are new since the last time."""
    query = (
        broker._spark.readStream.text(order["lines"])
        .writeStream.option("checkpointLocation", order["checkpoint"])
        .trigger(availableNow=True)
        .foreachBatch(broker.sink(topic=order["topic"], **order["options"]))
        .start()
    )
    query.awaitTermination()
    return query.lastProgress["batchId"] if query.lastProgress else None


def copy(broker: Pgq, order: dict[str, Any]) -> Any:
    """Copy a topic to another by the streaming source, what is new since the last time."""
    spark = broker._spark
    register(spark)
    rows = (
        spark.readStream.format("pgq")
        .options(**place(order))
        .options(topic=order["source"], startingOffsets="earliest")
        .load()
    )
    query = (
        rows.select("value")
        .writeStream.option("checkpointLocation", order["checkpoint"])
        .trigger(availableNow=True)
        .foreachBatch(broker.sink(topic=order["topic"], producer="copy"))
        .start()
    )
    query.awaitTermination()
    return query.lastProgress["batchId"] if query.lastProgress else None


def save(broker: Pgq, order: dict[str, Any]) -> Any:
    """Write numbers to a topic by the data source."""
    register(broker._spark)
    rows = numbers(broker, order)
    target = {"topic": order["topic"]}
    if order.get("column"):
        rows = rows.selectExpr("value", f"'{target.pop('topic')}' as topic")
    writer = rows.write.format("pgq").mode("append")
    writer.options(**place(order), **target, **order["options"]).save()


def save_stream(broker: Pgq, order: dict[str, Any]) -> Any:
    """Write the lines of a folder's files to a topic by the data source."""
    register(broker._spark)
    query = (
        broker._spark.readStream.text(order["lines"])
        .writeStream.format("pgq")
        .options(**place(order), topic=order["topic"])
        .option("checkpointLocation", order["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def consume(broker: Pgq, order: dict[str, Any]) -> Any:
    """Take messages for a group."""
    step = broker.consume(lambda frame: None, topic=order["topic"], consumer_group=order["group"])
    return step and step.messages


WORKS = {
    work.__name__: work
    for work in (
        *(publish, publish_failing, enqueue, save),
        *(read, explain, stream, save_stream, copy, consume),
    )
}


def connect_session(settings: dict[str, Any]) -> Any:
    """A session of Spark Connect, with a server in a JVM of this process's own."""
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(find_java())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_TESTING"] = "1"  # any free port
    builder = SparkSession.builder.remote(settings["master"])
    conf = {"spark.jars": str(find_jdbc_driver()), **settings["conf"]}
    return builder.config(map=conf).getOrCreate()


def main(settings: dict[str, Any]) -> None:
    if settings["connect"]:
        spark = connect_session(settings)
        jvm = None
    else:
        spark = local_session(settings["master"], "pgq tests' driver", **settings["conf"])
        assert spark._jvm is not None
        jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    print(json.dumps({"jvm": jvm}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            waits = timedelta(seconds=order.get("retry_seconds", 60))
            broker = Pgq(spark, order["url"], order["properties"], retry_timeout=waits)
            answer = WORKS[order["work"]](broker, order)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
