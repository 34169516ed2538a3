"""A session that has no JDBC driver among its jars says so."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pgq.local_spark import SparkSetupError, find_java

SCRIPT = """
import os, sys

os.environ.update(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
os.environ["SPARK_TESTING"] = "1"  # any free port, on Connect
from pyspark.sql import SparkSession
from pgq.spark import Pgq

builder = SparkSession.builder
builder = builder.remote("local[1]") if sys.argv[1] == "connect" else builder.master("local[1]")
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
broker = Pgq(spark, "jdbc:postgresql://127.0.0.1:1/nowhere")
rows = spark.range(1).selectExpr("cast(id as string) as value")
for work in (broker.read, lambda topic: broker.publish(rows, topic=topic)):
    try:
        work(topic="topic")
    except RuntimeError as error:
        print(error)
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_it_is_told_what_to_set(kind: str) -> None:
    """Before anything is read or written, by the driver."""
    try:
        java = find_java()
    except SparkSetupError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind],
        env={
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
            "JAVA_HOME": str(java),
            "PATH": "/usr/bin:/bin",
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    told = done.stdout.count("is not among Spark's jars: set spark.jars")
    assert told == 2, done.stdout + done.stderr[-2000:]
