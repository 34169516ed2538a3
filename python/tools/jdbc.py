"""Fetch the PostgreSQL JDBC driver into .cache/jdbc, unless this machine has one already.

From Maven Central, or where that cannot be reached, as Debian's package. Needs no root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from pgq.local_spark import SparkSetupError, find_jdbc_driver
from pgq.local_spark._jdbc import FETCHED, is_driver

MAVEN = "https://repo1.maven.org/maven2"
VERSION = "42.7.13"
PACKAGE = "libpostgresql-jdbc-java"


class FetchError(Exception):
    """The driver could not be fetched."""


def from_maven(folder: Path, repository: str = MAVEN) -> Path:
    """Download the driver from a Maven repository."""
    jar = folder / f"postgresql-{VERSION}.jar"
    url = f"{repository}/org/postgresql/postgresql/{VERSION}/{jar.name}"
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            jar.write_bytes(answer.read())
    except (OSError, ValueError) as error:
        raise FetchError(f"{url}: {error}") from None
    return jar


def from_debian(folder: Path) -> Path:
    """Take the driver out of Debian's package."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise FetchError(f"there is no {program} here")
    try:
        _run("apt-get", "download", PACKAGE, cwd=folder)
    except FetchError:
        if os.geteuid() != 0:
            raise
        # a fresh container has no package lists yet
        _run("apt-get", "update", cwd=folder)
        _run("apt-get", "download", PACKAGE, cwd=folder)
    for package in folder.glob("*.deb"):
        _run("dpkg-deb", "-x", package.name, "files", cwd=folder)
    # the name with the version is a link to the one without
    for jar in folder.glob("files/usr/share/java/postgresql-[0-9]*.jar"):
        return jar
    raise FetchError(f"{PACKAGE} does not contain it")


def _run(*command: str, cwd: Path) -> None:
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise FetchError(f"{' '.join(command[:2])}: {said[-1]}")


def fetch(into: Path) -> Path:
    """Fetch the driver from wherever it can be had."""
    failed = []
    with tempfile.TemporaryDirectory(prefix="pgq-jdbc-") as folder:
        for source in (from_maven, from_debian):
            try:
                jar = source(Path(folder))
            except FetchError as error:
                failed.append(str(error))
                continue
            if not is_driver(jar):
                failed.append(f"{jar.name} is not the driver")
                continue
            into.mkdir(parents=True, exist_ok=True)
            # under its own name only when it is complete
            partial = into / f".{jar.name}-{os.getpid()}"
            shutil.copyfile(jar, partial)
            return partial.replace(into / jar.name)
    raise FetchError("; ".join(failed))


def main() -> int:
    """Fetch it when it is missing; 1 when it cannot be had."""
    try:
        find_jdbc_driver()
        return 0
    except SparkSetupError as error:
        missing = error
    try:
        if os.environ.get("PGQ_JDBC_JAR"):
            raise FetchError("PGQ_JDBC_JAR names one")
        print(f"fetched {fetch(FETCHED)}", file=sys.stderr)
        return 0
    except (FetchError, OSError) as error:
        print(f"{missing} (not fetched: {error})", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
