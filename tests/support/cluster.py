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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import psycopg
from psycopg import sql

from pgq.embedded import Server
from pgq.local_spark import find_java
from support.house import ROOT
from support.java import JAVA_OPTIONS
from support.waiting import wait_until

__all__ = [
    "PATIENCE",
    "Cluster",
    "Driver",
    "DriverDied",
    "Talkative",
    "all_that_it_says",
    "grant",
    "guarded_role",
]

PATIENCE = 300.0
"""Seconds after which a process that has not answered counts as stuck."""

DRIVER = ROOT / "tests" / "spark" / "driver.py"

LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
# Spark treats this one as a shell, which it would set to WARN
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = info
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c: %m%n%ex
"""


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
            child.pid
            for worker in self._processes[1:]
            for child in psutil.Process(worker.pid).children()
            if _runs(child, "CoarseGrainedExecutorBackend")
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
    """A driver in a process of its own, which does one thing at a time; see driver.py.

    It is ended at the end of a with block, unless it was killed before.
    """

    def __init__(
        self,
        master: str,
        log: Path,
        *,
        connect: bool = False,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        settings = {
            "master": master,
            "connect": connect,
            "conf": {
                "spark.cores.max": "2",
                "spark.executor.memory": "512m",
                "spark.executor.extraJavaOptions": JAVA_OPTIONS,
                "spark.driver.memory": "512m",
                "spark.driver.extraJavaOptions": JAVA_OPTIONS,
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
                "spark.sql.shuffle.partitions": "2",
                "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false",
                **(conf or {}),
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
        self._ready = False

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
        if not self._ready:
            self._jvm = self._line()["jvm"]
            self._ready = True
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"work": work, **arguments}).encode() + b"\n")
        self._process.stdin.flush()

    def result(self) -> Any:
        """Wait until it is done with that and return what came out."""
        return self._line()

    def run(self, work: str, **arguments: Any) -> Any:
        """Have it do something and return what came out."""
        self.start(work, **arguments)
        return self.result()

    def kill(self) -> None:
        """Kill it, the JVM first, so that neither half can tidy up."""
        if self._jvm is not None:
            os.kill(self._jvm, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def _line(self) -> Any:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        assert readable, f"no answer in {PATIENCE} s: see {self.log}"
        line = self._process.stdout.readline()
        if not line:
            raise DriverDied(self.log.read_text()[-3000:])
        return json.loads(line)


# ---------------------------------------------------------------------------- credentials


@contextmanager
def guarded_role(server: Server, password: str) -> Iterator[str]:
    """A role of a server that trusts everyone, which yet must give its password."""
    role = "pgq_spark_loader"
    rules = server.data_directory / "pg_hba.conf"
    before = rules.read_text()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        rules.write_text(f"host all {role} 127.0.0.1/32 scram-sha-256\n{before}")
        connection.execute("select pg_reload_conf()")
        connection.execute(
            sql.SQL("create role {} login password {}").format(
                sql.Identifier(role), sql.Literal(password)
            )
        )
        try:
            yield role
        finally:
            connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))
            rules.write_text(before)
            connection.execute("select pg_reload_conf()")


def grant(connection: psycopg.Connection[Any], role: str) -> None:
    """What the role needs to write from Spark and to read, in the database of the connection."""
    # Spark looks at the columns of what it inserts into.
    for function in (
        "begin_write",
        "commit_write",
        "abort_write",
        "list_offsets",
        "check_range",
        "fetch_packed",
        "write_chunk",
        "list_topics",
    ):
        connection.execute(f"grant execute on function pgq.{function} to {role}")
    connection.execute(
        f"grant usage on schema pgq to {role}; grant select, insert on pgq.write_chunks to {role};"
    )


class Talkative:
    """Settings of Spark for a driver that tells all; and what it told."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "driver.log"
        self._events = folder / "events"
        self._events.mkdir()
        logging = folder / "log4j2.properties"
        logging.write_text(LOGGING)
        self.conf = {
            "spark.driver.extraJavaOptions": (
                f"{JAVA_OPTIONS} -Dlog4j2.configurationFile={logging.as_uri()}"
            ),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": self._events.as_uri(),
        }

    def events(self) -> str:
        """The event logs so far."""
        return "\n".join(path.read_text() for path in self._events.rglob("*") if path.is_file())


def all_that_it_says(driver: Driver, order: dict[str, Any]) -> dict[str, Any]:
    """What a driver says of itself, and of errors on many ways; the keys say which way.

    ``order`` has all that the works ask for; its topic must be there.
    """
    properties = order["properties"]
    elsewhere = (
        order["url"].replace("127.0.0.1", "nowhere.invalid").replace("localhost", "nowhere.invalid")
    )
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "plans": ("explain", {}),
        "unknown topic, written": ("publish", {"topic": "nowhere"}),
        "unknown topic, read": ("read", {"topic": "nowhere", "options": {}}),
        "failing task": ("publish_failing", {}),
        "unknown host": ("read", {"url": elsewhere, "options": {}}),
        "wrong password": (
            "publish",
            {"properties": {**properties, "password": properties["password"] + "-wrong"}},
        ),
    }
    return {way: driver.run(work, **{**order, **more}) for way, (work, more) in ways.items()}


# ---------------------------------------------------------------------------- processes


def _runs(process: psutil.Process, name: str) -> bool:
    """Whether a process's command line has a word that ends in the name."""
    try:
        return any(word.endswith(name) for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


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
