"""Finding the PostgreSQL JDBC driver."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from pgq.local_spark._errors import SparkSetupError

__all__ = ["FETCHED", "find_jdbc_driver", "is_driver"]

FETCHED = Path(__file__).resolve().parents[4] / ".cache" / "jdbc"
"""Where a checkout keeps what ``make demo-spark`` and ``make test`` have fetched."""

_SYSTEM = Path("/usr/share/java/postgresql.jar")
_CLASS = "org/postgresql/Driver.class"


def find_jdbc_driver() -> Path:
    """The PostgreSQL JDBC driver's jar.

    In this order: PGQ_JDBC_JAR; ``/usr/share/java/postgresql.jar``, where Debian puts it; the
    newest one of the local Maven repository; the one that was fetched into ``.cache/jdbc`` of a
    checkout. Raises SparkSetupError when there is none.
    """
    named = os.environ.get("PGQ_JDBC_JAR")
    if named:
        jar = Path(named)
        if not is_driver(jar):
            raise SparkSetupError(
                f"PGQ_JDBC_JAR={named} is not a PostgreSQL JDBC driver: "
                f"{'it does not contain org.postgresql.Driver' if jar.exists() else 'no such file'}"
            )
        return jar
    for jar in _jars_here():
        if is_driver(jar):
            return jar
    raise SparkSetupError(
        f"no PostgreSQL JDBC driver found: download it from https://jdbc.postgresql.org and name "
        f"the file with PGQ_JDBC_JAR, or install Debian's libpostgresql-jdbc-java, which puts it "
        f"at {_SYSTEM}; in a checkout, 'make demo-spark' fetches it"
    )


def _jars_here() -> Iterator[Path]:
    yield _SYSTEM
    maven = Path.home() / ".m2" / "repository" / "org" / "postgresql" / "postgresql"
    yield from _newest_first(
        # sources and javadoc lie beside it
        jar
        for jar in maven.glob("*/postgresql-*.jar")
        if jar.stem == f"postgresql-{jar.parent.name}"
    )
    yield from _newest_first(FETCHED.glob("*.jar"))


def _newest_first(jars: Iterator[Path]) -> list[Path]:
    def version(jar: Path) -> tuple[int, ...]:
        return tuple(int(number) for number in re.findall(r"\d+", jar.stem))

    return sorted(jars, key=version, reverse=True)


def is_driver(jar: Path) -> bool:
    """Whether a file is a jar with the driver in it."""
    try:
        with zipfile.ZipFile(jar) as archive:
            return _CLASS in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False
