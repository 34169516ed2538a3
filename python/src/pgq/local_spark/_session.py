"""A Spark session on this machine."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pgq._extras import install
from pgq.local_spark._errors import SparkSetupError
from pgq.local_spark._java import find_java
from pgq.local_spark._jdbc import find_jdbc_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["local_session"]

_Settings = dict[str, bool | float | int | str | None]


def local_session(
    master: str | None = None, name: str | None = None, **conf: str | int | bool
) -> SparkSession:
    """A Spark session on this machine, with the JDBC driver and without a user interface.

    ``master`` is ``local[2]`` and ``name`` is ``pgq``, if you do not say otherwise.
    ``conf`` are further settings of Spark, as ``**{"spark.driver.memory": "2g"}``; they win over
    those made here. Where a session is running already it is that one, as with Spark's
    ``getOrCreate``. Times are in UTC; Spark's log holds errors only. What Spark writes besides
    goes to a temporary folder, which is removed when Python ends.

    Sets JAVA_HOME and PYSPARK_PYTHON in the environment of this process, from where Spark takes
    them. Raises SparkSetupError when something is missing.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise SparkSetupError(f"the module {error.name} is missing: {install('spark')}") from None
    settings: _Settings = {key: _text(value) for key, value in conf.items()}
    if SparkSession.getActiveSession() is not None:
        return SparkSession.builder.config(map=settings).getOrCreate()

    java, driver = find_java(), find_jdbc_driver()
    os.environ["JAVA_HOME"] = str(java)
    # the workers must be the Python that the driver is; they would take python3 of the path
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # a machine's own name need not lead to any address
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    folder = Path(tempfile.mkdtemp(prefix="pgq-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "log4j2.properties").write_text(_LOGGING)
    (folder / "java").mkdir()
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        **settings,
    }
    _add(
        settings,
        "spark.driver.extraJavaOptions",
        f"-Dlog4j2.configurationFile=file:{folder / 'log4j2.properties'} "
        f"-Djava.io.tmpdir={folder / 'java'} -Dderby.system.home={folder / 'derby'}",
        separator=" ",
    )
    _add(settings, "spark.jars", str(driver))
    builder = SparkSession.builder.master("local[2]" if master is None else master)
    builder = builder.appName("pgq" if name is None else name)
    session = builder.config(map=settings).getOrCreate()
    # Stopping before Python ends lets the temporary folders be removed, by Spark and by us.
    atexit.register(_stop, session)
    return session


def _stop(session: SparkSession) -> None:
    with contextlib.suppress(Exception):
        session.stop()


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _add(settings: _Settings, key: str, value: str, *, separator: str = ",") -> None:
    """Put a value before those that the caller gave, who so has the last word."""
    given = settings.get(key)
    settings[key] = f"{value}{separator}{given}" if given else value


_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
# Spark treats this one as a shell, which it would set to WARN, with two lines about it
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
