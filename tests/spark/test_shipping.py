"""How pgq and the JDBC driver get to the workers of a cluster, without the source tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from pgq.local_spark import SparkSetupError, find_java, find_jdbc_driver
from support.cluster import PATIENCE, Cluster
from support.house import ROOT
from support.java import JAVA_OPTIONS
from support.log import new_topic
from support.session import Session

pytest.importorskip("pyspark")

pytestmark = pytest.mark.slow  # each test submits a job

Location = tuple[str, dict[str, str]]
JOB = Path(__file__).resolve().parent / "shipped.py"
# what a worker needs beside pgq; the driver also has pandas, as Spark asks for it there
NEEDS = ("pyarrow", "psycopg", "psycopg-binary", "typing_extensions")
DRIVER_NEEDS = (*NEEDS, "pandas", "numpy", "python-dateutil", "pytz", "tzdata")
VERSION = "42.7.13"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster of one worker, which knows nothing of the source tree."""
    try:
        find_java()
        find_jdbc_driver()
    except SparkSetupError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONPATH", raising=False)
        with Cluster(tmp_path_factory.mktemp("cluster"), workers=1) as running:
            yield running


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the project."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [
            *(sys.executable, "-m", "build", "--no-isolation", "--wheel"),
            *("--outdir", out, ROOT / "python"),
        ],
        check=True,
        capture_output=True,
    )
    return next(out.glob("*.whl"))


def environment(folder: Path, needs: tuple[str, ...], *wheels: Path) -> Path:
    """An environment with the packages that are named, as they are installed here, and wheels."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in needs:
        files = metadata.distribution(name).files or []
        for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            (site / top).symlink_to(metadata.distribution(name).locate_file(top))
    python = folder / "bin" / "python"
    for wheel in wheels:
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "--python", python),
                *("install", "--quiet", "--no-deps", wheel),
            ],
            check=True,
            capture_output=True,
        )
    return python


def repository(folder: Path) -> Path:
    """A folder laid out as Maven does, which alone has the driver, in a version of its own."""
    place = folder / "org" / "postgresql" / "postgresql" / f"{VERSION}.local"
    place.mkdir(parents=True)
    shutil.copy(find_jdbc_driver(), place / f"postgresql-{VERSION}.local.jar")
    (place / f"postgresql-{VERSION}.local.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.postgresql</groupId>"
        f"<artifactId>postgresql</artifactId><version>{VERSION}.local</version></project>"
    )
    return folder


def offline(folder: Path) -> Path:
    """Settings of Ivy that know no place to look in, so that only the repositories named count."""
    (folder / "empty").mkdir()
    settings = folder / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers><filesystem name="none">'
        f'<artifact pattern="{folder}/empty/[artifact]-[revision].[ext]"/>'
        "</filesystem></resolvers></ivysettings>"
    )
    return settings


def submit(cluster: Cluster, pythons: tuple[Path, Path], *arguments: Any) -> Any:
    """What the job says; ``pythons`` are those of the driver and of the workers."""
    import pyspark

    home = Path(pyspark.__file__).parent
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= {
        "JAVA_HOME": str(find_java()),
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(cluster.folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_DRIVER_PYTHON": str(pythons[0]),
        "PYSPARK_PYTHON": str(pythons[1]),
    }
    conf = {
        "spark.cores.max": "1",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    }
    settings = [word for pair in conf.items() for word in ("--conf", "=".join(pair))]
    done = subprocess.run(
        [home / "bin" / "spark-submit", "--master", cluster.url, *settings, *arguments],
        env=variables,
        cwd=cluster.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(done.stdout[-4000:] + done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def assert_shipped(found: Any, own: Session, topic: str) -> None:
    """Both writes are in the topic, and both ways to read have found them."""
    twice = sorted([*map(str, range(10))] * 2)
    assert found["read"] == found["source"] == twice
    query = "select convert_from(body, 'UTF8') from pgq.messages where topic = %s"
    assert sorted(text for (text,) in own.execute(query, [topic]).fetchall()) == twice


@pytest.mark.long
def test_a_wheel_is_installed_and_the_driver_is_a_jar(
    cluster: Cluster, wheel: Path, own: Session, location: Location, tmp_path: Path
) -> None:
    """The workers have the wheel in their own Python; the driver of JDBC comes by --jars."""
    python = environment(tmp_path / "driver", DRIVER_NEEDS, wheel)
    worker = environment(tmp_path / "worker", NEEDS, wheel)
    topic = new_topic(own)
    target = (location[0], location[1]["user"], topic)
    found = submit(cluster, (python, worker), "--jars", find_jdbc_driver(), JOB, *target)
    assert Path(found["driver"]).is_relative_to(tmp_path / "driver")
    assert [Path(place).is_relative_to(tmp_path / "worker") for place in found["workers"]] == [True]
    assert_shipped(found, own, topic)


def test_a_driver_without_pandas_is_told(wheel: Path, tmp_path: Path) -> None:
    """Workers need none, so pgq.spark itself can be had without it."""
    import pyspark

    python = environment(tmp_path / "driver", NEEDS, wheel)
    lib = Path(pyspark.__file__).parent / "python" / "lib"
    zips = [str(file) for file in lib.glob("*.zip")]
    program = "from pgq.spark import Pgq; Pgq(None, 'jdbc:postgresql://nowhere/nowhere')"
    done = subprocess.run(
        [python, "-c", f"import sys; sys.path[:0] = {zips}; {program}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (
        "pgq.spark needs the module pandas on the driver: install the extra spark-cluster"
        in done.stderr
    )


def test_a_wheel_is_sent_along_and_the_driver_is_a_package(
    cluster: Cluster, wheel: Path, own: Session, location: Location, tmp_path: Path
) -> None:
    """No Python has pgq; the wheel, named .zip, comes by --py-files, JDBC's by --packages."""
    python = environment(tmp_path / "driver", DRIVER_NEEDS)
    worker = environment(tmp_path / "worker", NEEDS)
    archive = shutil.copy(wheel, tmp_path / "pgq.zip")
    jars = repository(tmp_path / "repository")
    topic = new_topic(own)
    found = submit(
        cluster,
        (python, worker),
        *("--py-files", archive),
        *("--packages", f"org.postgresql:postgresql:{VERSION}.local"),
        *("--conf", f"spark.jars.repositories={jars.as_uri()}"),
        *("--conf", f"spark.jars.ivySettings={offline(tmp_path)}"),
        *("--conf", f"spark.jars.ivy={tmp_path / 'ivy'}"),
        *(JOB, location[0], location[1]["user"], topic),
    )
    assert found["driver"].endswith("pgq.zip/pgq/__init__.py")
    (place,) = found["workers"]
    assert place.endswith("pgq.zip/pgq/__init__.py")
    assert f"org.postgresql_postgresql-{VERSION}.local.jar" in found["jars"]
    assert_shipped(found, own, topic)


def test_an_environment_is_sent_along(
    cluster: Cluster, wheel: Path, own: Session, location: Location, tmp_path: Path
) -> None:
    """The workers unpack it; the driver, which plans with the same ./env, has it in its folder."""
    python = environment(tmp_path / "driver", DRIVER_NEEDS, wheel)
    worker = environment(cluster.folder / "env", NEEDS, wheel)
    archive = shutil.make_archive(str(tmp_path / "env"), "gztar", cluster.folder / "env")
    topic = new_topic(own)
    found = submit(
        cluster,
        (python, worker.relative_to(cluster.folder)),
        *("--archives", f"{archive}#env", "--jars", find_jdbc_driver()),
        *(JOB, location[0], location[1]["user"], topic),
    )
    (place,) = found["workers"]
    assert Path(place).is_relative_to(cluster.folder / "worker0")
    assert_shipped(found, own, topic)
