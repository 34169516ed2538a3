"""A standalone Spark cluster on this machine, for the benchmark."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.pgbench import BenchmarkError

__all__ = ["standalone"]


@contextmanager
def standalone(workers: int) -> Iterator[str]:
    """A standalone cluster of processes on this machine, with a core to each worker; its URL."""
    import pyspark

    from pgq.local_spark import find_java

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    package = "org.apache.spark.deploy"
    with tempfile.TemporaryDirectory(prefix="pgq-bench-") as folder, ExitStack() as running:

        def start(name: str, *arguments: str) -> Path:
            log = Path(folder, f"{name}.log")
            process = subprocess.Popen(
                [home / "bin" / "spark-class", *arguments],
                env=environment,
                stdout=log.open("wb"),
                stderr=subprocess.STDOUT,
            )
            running.callback(process.wait, 20)
            running.callback(process.terminate)
            return log

        def said(log: Path, pattern: str) -> str:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                if found := re.search(pattern, log.read_text(errors="replace")):
                    return found[1]
                time.sleep(0.1)
            raise BenchmarkError(f"no {pattern!r} in {log.read_text(errors='replace')[-1000:]}")

        master = start("master", f"{package}.master.Master", "--host", "127.0.0.1", "--port", "0")
        url = said(master, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            where = ("--work-dir", f"{folder}/{number}", "--cores", "1", "--memory", "1500m")
            log = start(f"worker {number}", f"{package}.worker.Worker", *where, url)
            said(log, "(Successfully registered)")
        yield url
