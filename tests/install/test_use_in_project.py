"""The page on pgq in a project of one's own, and the files of python/deploy that it shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import psycopg
import pytest
import yaml
from compose_spec import PyCompose
from uv import find_uv_bin

from build import version
from pgq import Client
from pgq.embedded import Server
from support.house import ROOT, checked_in
from support.waiting import PATIENCE, wait_until

PAGE = (ROOT / "python" / "docs" / "use-in-your-project.md").read_text()
FILES = ROOT / "python" / "deploy"
ADDRESS = "https://git.example.com/pgq.git@COMMIT"


def shown(language: str) -> list[str]:
    """The blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def file(name: str) -> str:
    return (FILES / name).read_text()


def parsed(name: str) -> Any:
    return yaml.safe_load(file(name))


# ---------------------------------------------------------------------------- the files


def test_the_page_shows_the_files() -> None:
    blocks = {language: shown(language) for language in ("python", "dockerfile", "yaml", "ini")}
    assert blocks == {
        "python": [file("app.py")],
        "dockerfile": [file("Dockerfile")],
        "yaml": [file("compose.yaml"), file("kubernetes.yaml")],
        "ini": [file("pgq-worker.service")],
    }
    assert shown("text")[0] == file("requirements.txt")
    assert f"pgq_sql-{version()}-" in file("requirements.txt")


def test_the_same_command_everywhere() -> None:
    [cmd] = re.findall(r"^CMD (\[.*\])$", file("Dockerfile"), re.MULTILINE)
    command = yaml.safe_load(cmd)
    services = parsed("compose.yaml")["services"]
    pod = parsed("kubernetes.yaml")["spec"]["template"]["spec"]
    assert services["worker"]["command"] == command
    assert pod["containers"][0]["command"] == command
    assert pod["initContainers"][0]["command"] == services["migrate"]["command"]
    [line] = re.findall(r"^ExecStart=\S+/(pgq .*)$", file("pgq-worker.service"), re.MULTILINE)
    without_health = command[: command.index("--health")]
    assert line.split() == without_health

    # the platform waits longer than the worker
    grace = int(command[command.index("--grace") + 1])
    assert pod["terminationGracePeriodSeconds"] > grace
    assert services["worker"]["stop_grace_period"] == "60s"
    assert "TimeoutStopSec=60\n" in file("pgq-worker.service")
    assert grace < 60
    port = int(command[command.index("--health") + 1])
    assert pod["containers"][0]["ports"] == [{"name": "health", "containerPort": port}]


def test_the_compose_file_is_valid() -> None:
    PyCompose.from_yaml(file("compose.yaml"))
    with pytest.raises(ValueError, match="stop_grace"):
        PyCompose.from_yaml(file("compose.yaml").replace("stop_grace_period", "stop_grace"))


def test_the_deployment_is_valid() -> None:
    newest = kubernetes_validate.latest_version()
    kubernetes_validate.validate(parsed("kubernetes.yaml"), newest, strict=True)
    wrong = yaml.safe_load(file("kubernetes.yaml").replace("readinessProbe", "readyProbe"))
    with pytest.raises(kubernetes_validate.ValidationError, match="readyProbe"):
        kubernetes_validate.validate(wrong, newest, strict=True)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_the_unit_is_valid(tmp_path: Path) -> None:
    def verify(text: str) -> str:
        unit = tmp_path / "pgq-worker.service"
        unit.write_text(text)
        done = subprocess.run(
            ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
        )
        said = done.stdout + done.stderr
        return "\n".join(line for line in said.splitlines() if "pgq-worker" in line)

    # it looks whether there is the program
    text = file("pgq-worker.service").replace("/srv/app/.venv/bin/pgq", sys.executable)
    assert verify(text) == ""
    assert "KillMood" in verify(text.replace("KillMode", "KillMood"))


# ---------------------------------------------------------------------------- the dependency


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with what a commit of this checkout would have, and the tag of the page."""
    clone = tmp_path_factory.mktemp("clone")
    for name in checked_in():
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    who = ("-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false")
    for command in (
        ("init", "-q"), ("add", "--all"), (*who, "commit", "-q", "-m", "all"), ("tag", "v1.0.0")
    ):  # fmt: skip
        _run("git", "-C", clone, *command)
    return clone


def _environment() -> dict[str, str]:
    """As in a shell where nothing of this run is active."""
    own = ("PYTHON", "VIRTUAL_ENV", "PYTEST", "PG", "DATABASE_URL")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


def _run(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**_environment(), **variables},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _project(folder: Path, *names: str) -> Path:
    """A folder with files of python/deploy; returns that of the programs of its environment."""
    folder.mkdir(exist_ok=True)
    for name in names:
        shutil.copy(FILES / name, folder)
    venv.create(folder / ".venv", with_pip=False)
    return folder / ".venv" / "bin"


def _pip(programs: Path, *arguments: str | Path) -> None:
    _run(
        sys.executable, "-m", "pip", "--python", programs / "python", "install", "-q", *arguments,
        cwd=programs.parents[1],
    )  # fmt: skip


def _by_pyproject(folder: Path, address: str) -> Path:
    programs = _project(folder)
    [text] = shown("toml")
    (folder / "pyproject.toml").write_text(text.replace(ADDRESS, address))
    (folder / "app.py").write_text("")
    _pip(programs, ".")
    return programs


def _by_requirement(folder: Path, address: str) -> Path:
    programs = _project(folder)
    (folder / "requirements.txt").write_text(shown("text")[1].replace(ADDRESS, address))
    _pip(programs, "-r", "requirements.txt")
    return programs


def _by_uv(folder: Path, address: str) -> Path:
    [line] = [one for one in shown("sh") if one.startswith("uv add")]
    folder.mkdir()
    _run(find_uv_bin(), "init", "--quiet", "--bare", "--name", "app", folder)
    _, *arguments = shlex.split(line.replace(ADDRESS, address))
    _run(find_uv_bin(), *arguments, cwd=folder)
    return folder / ".venv" / "bin"


@pytest.mark.slow
@pytest.mark.parametrize("way", [_by_pyproject, _by_requirement, _by_uv])
def test_by_git_address(clone: Path, tmp_path: Path, way: Callable[[Path, str], Path]) -> None:
    programs = way(tmp_path / "project", f"file://localhost{clone}@v1.0.0")
    assert _run(programs / "pgq", "--version", cwd=tmp_path).strip() == f"pgq {version()}"


@pytest.mark.slow
def test_by_wheel_file_and_uv(wheel: Path, tmp_path: Path) -> None:
    programs = _project(tmp_path / "project", "requirements.txt")
    (tmp_path / "project" / "wheels").mkdir()
    shutil.copy(wheel, tmp_path / "project" / "wheels")
    [line] = [one for one in shown("sh") if one.startswith("uv pip")]
    _run(find_uv_bin(), *shlex.split(line)[1:], cwd=tmp_path / "project")
    assert _run(programs / "pgq", "--version", cwd=tmp_path).strip() == f"pgq {version()}"


# ---------------------------------------------------------------------------- the worker


@pytest.mark.slow
def test_the_project_works(
    clone: Path, server: Server, empty_database: str, tmp_path: Path
) -> None:
    """The wheel as the page builds it, the requirements, and the commands of the files."""
    folder = tmp_path / "project"
    programs = _project(folder, "app.py", "requirements.txt")
    [build] = [one for one in shown("sh") if one.startswith("pip wheel")]
    _run(sys.executable, "-m", *shlex.split(build), cwd=clone)
    shutil.move(clone / "wheels", folder)
    _pip(programs, "-r", "requirements.txt")

    services = parsed("compose.yaml")["services"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def command(of: list[str]) -> list[str]:
        return [part.replace("8080", port) for part in of]

    dsn = server.dsn_for(empty_database)
    variables = {"DATABASE_URL": dsn, "PATH": f"{programs}:{os.environ['PATH']}"}
    for _ in range(2):
        _run(*services["migrate"]["command"], cwd=folder, **variables)
    running = subprocess.Popen(
        command(services["worker"]["command"]),
        executable=programs / "pgq",
        cwd=folder,
        env={**_environment(), **variables},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        _, *probe = command(services["worker"]["healthcheck"]["test"])

        def is_healthy() -> bool:
            done = subprocess.run([programs / probe[0], *probe[1:]], capture_output=True)
            return done.returncode == 0

        wait_until(is_healthy, PATIENCE)
        with psycopg.connect(dsn, autocommit=True) as connection:
            Client(connection).enqueue("mail", {"to": "ann@example.com"})
            wait_until(lambda: Client(connection).jobs.archived_jobs("mail"), PATIENCE)
        running.send_signal(signal.SIGTERM)
        out, _ = running.communicate(timeout=PATIENCE)
        assert (running.returncode, out) == (0, "sent to ann@example.com\n")
        assert not is_healthy()
    finally:
        running.kill()
        running.wait()
