"""A Spark cluster of real processes on this machine, and drivers for it that may be killed."""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from pgq.embedded import _children_of
from pgq.spark._local import find_java
from support import ROOT, wait_until

__all__ = ["PATIENCE", "Cluster", "Driver", "DriverDied"]

PATIENCE = 120.0
"""Seconds after which a process that has not answered counts as stuck."""

DRIVER = ROOT / "tests" / "spark" / "cluster_driver.py"

# these processes are short-lived: they start faster without the last step of the compiler
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Cluster:
    """A master and two workers with a core each, as a context manager.

    Files go below ``folder``. Everything listens on 127.0.0.1.
    """

    def __init__(self, folder: Path, *, workers: int = 2) -> None:
        self.folder = folder
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> Cluster:
        try:
            master = self._start("master", "Master", "--port", "0")
            self.url = self._said(master, r"Starting Spark master at (spark://\S+)")
            for number in range(self._workers):
                name = f"worker{number}"
                size = ("--cores", "1", "--memory", "600m")
                self._start(name, "Worker", *size, "--work-dir", str(self.folder / name), self.url)
            for number in range(self._workers):
                self._said(self.folder / f"worker{number}.log", "(Successfully registered)")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def executors(self) -> list[int]:
        """The processes of the executors, the one of the first worker first."""
        return [
            child
            for worker in self._processes[1:]
            for child in _children_of(worker.pid)
            if b"CoarseGrainedExecutorBackend" in _command_line(child)
        ]

    def kill_executor(self) -> None:
        """Kill one of the executors."""
        os.kill(self.executors()[0], signal.SIGKILL)

    def _start(self, name: str, role: str, *arguments: str) -> Path:
        import pyspark

        home = Path(pyspark.__file__).parent
        log = self.folder / f"{name}.log"
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java()),
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(self.folder),
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LAUNCHER_OPTS": JAVA_OPTIONS,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
        }
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    home / "bin" / "spark-class",
                    f"org.apache.spark.deploy.{role.lower()}.{role}",
                    *("--host", "127.0.0.1", "--webui-port", "0"),
                    *arguments,
                ],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,
            )
        self._processes.append(process)
        return log

    def _said(self, log: Path, pattern: str) -> Any:
        return wait_until(
            lambda: re.findall(pattern, log.read_text()), PATIENCE, f"for {pattern} in {log}"
        )[0]

    def _stop(self) -> None:
        # the workers first: they end their executors
        for process in reversed(self._processes):
            _end(process)


class DriverDied(Exception):
    """The driver has ended without an answer."""


class Driver:
    """A driver in a process of its own, which does one thing at a time; see cluster_driver.py.

    It is ended at the end of a with block, unless it was killed before.
    """

    def __init__(self, master: str, log: Path) -> None:
        self.log = log
        settings = {
            "master": master,
            "conf": {
                "spark.cores.max": "2",
                "spark.executor.memory": "512m",
                "spark.executor.extraJavaOptions": JAVA_OPTIONS,
                "spark.driver.memory": "512m",
                "spark.driver.extraJavaOptions": JAVA_OPTIONS,
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
            },
        }
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, DRIVER, json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                bufsize=0,
                preexec_fn=_die_with_parent,
            )
        self._jvm: int | None = None

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def start(self, work: str, **arguments: Any) -> None:
        """Have it begin with something."""
        if self._jvm is None:
            self._jvm = self._line()["jvm"]
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"work": work, **arguments}).encode() + b"\n")
        self._process.stdin.flush()

    def result(self) -> dict[str, Any]:
        """Wait until it is done with that and return what came out."""
        return self._line()

    def kill(self) -> None:
        """Kill it, the JVM first, so that neither half can tidy up."""
        if self._jvm is not None:
            os.kill(self._jvm, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        assert readable, f"no answer in {PATIENCE} s: see {self.log}"
        line = self._process.stdout.readline()
        if not line:
            raise DriverDied(self.log.read_text()[-3000:])
        answer: dict[str, Any] = json.loads(line)
        return answer


def _command_line(pid: int) -> bytes:
    answer = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, check=False
    )
    return answer.stdout


def _die_with_parent() -> None:
    # Should the test run itself be killed, nobody else would end these. Linux only.
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(1, signal.SIGTERM)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
