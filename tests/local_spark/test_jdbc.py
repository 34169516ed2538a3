"""The JDBC driver is found where it is said to be, and fetched only by the command for that."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

import jdbc
from pgq.local_spark import SparkSetupError, _jdbc, find_jdbc_driver


def driver_like(jar: Path) -> Path:
    jar.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("org/postgresql/Driver.class", b"")
    return jar


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user who has no driver, on a machine that has none."""
    monkeypatch.delenv("PGQ_JDBC_JAR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(_jdbc, "_SYSTEM", tmp_path / "system" / "postgresql.jar")
    for module in (_jdbc, jdbc):
        monkeypatch.setattr(module, "FETCHED", tmp_path / "fetched")
    return tmp_path / "home"


def test_the_jar_that_is_named(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = driver_like(bare / "mine.jar")
    monkeypatch.setenv("PGQ_JDBC_JAR", str(jar))
    assert find_jdbc_driver() == jar


def test_a_jar_that_is_named_and_not_there(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver_like(_jdbc.FETCHED / "postgresql-42.7.1.jar")
    monkeypatch.setenv("PGQ_JDBC_JAR", str(bare / "mine.jar"))
    with pytest.raises(SparkSetupError, match=r"PGQ_JDBC_JAR=.*mine\.jar .*: no such file"):
        find_jdbc_driver()
    bare.mkdir()
    with zipfile.ZipFile(bare / "mine.jar", "w") as archive:
        archive.writestr("com/example/Driver.class", b"")
    with pytest.raises(SparkSetupError, match=r"does not contain org\.postgresql\.Driver"):
        find_jdbc_driver()


def test_the_order_of_places(bare: Path) -> None:
    fetched = driver_like(_jdbc.FETCHED / "postgresql-42.9.0.jar")
    assert find_jdbc_driver() == fetched
    maven = bare / ".m2" / "repository" / "org" / "postgresql" / "postgresql"
    driver_like(maven / "42.7.9" / "postgresql-42.7.9.jar")
    newest = driver_like(maven / "42.7.13" / "postgresql-42.7.13.jar")
    driver_like(maven / "42.7.13" / "postgresql-42.7.13-sources.jar")
    (maven / "42.8.0").mkdir()
    (maven / "42.8.0" / "postgresql-42.8.0.jar").write_text("cut off on its way")
    assert find_jdbc_driver() == newest
    system = driver_like(_jdbc._SYSTEM)
    assert find_jdbc_driver() == system


def test_no_driver(bare: Path) -> None:
    with pytest.raises(SparkSetupError, match=r"with PGQ_JDBC_JAR.*libpostgresql-jdbc-java.*make"):
        find_jdbc_driver()


# ---------------------------------------------------------------------------- fetching it


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[str]:
    """A Maven repository with the driver."""
    folder = tmp_path / "repository"
    name = f"org/postgresql/postgresql/{jdbc.VERSION}/postgresql-{jdbc.VERSION}.jar"
    driver_like(folder / name)

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    serving = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    thread.join()
    serving.server_close()


def test_it_is_fetched_from_maven_once(
    bare: Path, repository: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jdbc, "from_maven", partial(jdbc.from_maven, repository=repository))
    assert jdbc.main() == 0
    fetched = _jdbc.FETCHED / f"postgresql-{jdbc.VERSION}.jar"
    assert find_jdbc_driver() == fetched
    assert list(_jdbc.FETCHED.iterdir()) == [fetched]
    assert capsys.readouterr().err == f"fetched {fetched}\n"
    assert jdbc.main() == 0
    assert capsys.readouterr().err == ""


def test_the_package_of_debian(tmp_path: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("no apt-get on this machine")
    listed = subprocess.run(["apt-cache", "show", jdbc.PACKAGE], capture_output=True)
    if listed.returncode != 0 and os.geteuid() != 0:
        pytest.skip("apt has no package lists, and only root can fetch them")
    fetched = jdbc.from_debian(tmp_path)
    with zipfile.ZipFile(fetched) as archive:
        assert archive.testzip() is None
        assert len(archive.read("org/postgresql/Driver.class")) > 1000


def test_what_cannot_be_fetched(
    bare: Path, repository: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    nowhere = partial(jdbc.from_maven, repository=f"{repository}/nowhere")
    monkeypatch.setattr(jdbc, "from_maven", nowhere)
    assert jdbc.main() == 1
    said = capsys.readouterr().err
    assert "with PGQ_JDBC_JAR" in said
    assert "404" in said
    assert "there is no apt-get here" in said
    assert not _jdbc.FETCHED.exists()


def test_another_one_than_the_named_is_not_fetched(
    bare: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PGQ_JDBC_JAR", str(bare / "mine.jar"))
    assert jdbc.main() == 1
    assert "mine.jar is not a PostgreSQL JDBC driver" in capsys.readouterr().err
