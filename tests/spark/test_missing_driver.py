"""A session that has no JDBC driver among its jars says so."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pgq.local_spark import SparkSetupError, find_java

SCRIPT = """
from pyspark.sql import SparkSession
from pgq.spark import Pgq

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    Pgq(spark, "jdbc:postgresql://localhost/nowhere").read(topic="topic")
except RuntimeError as error:
    print(error)
"""


@pytest.mark.slow
def test_it_is_told_what_to_set() -> None:
    try:
        java = find_java()
    except SparkSetupError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={"JAVA_HOME": str(java), "PATH": "/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert "is not among Spark's jars: set spark.jars" in done.stdout, done.stderr[-2000:]
