"""``pgq work``: what it says when it cannot begin."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgq.__main__ import main
from pgq.worker import Worker

APP = """
from pgq.worker import Handlers, Worker

handlers = Handlers()


@handlers.handler("nowhere")
def handle(payload):
    pass


worker = Worker("", handlers)
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module with handlers, and with a worker that has settings of its own."""
    name = "app_of_this_test"
    (tmp_path / f"{name}.py").write_text(APP)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def test_a_queue_that_is_not_there(
    dsn: str, app: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["work", f"{app}:handlers", "--strict"]
    assert main([*given, "--database", dsn]) == 1
    said = capsys.readouterr().err
    assert said.startswith('pgq: queue "nowhere" does not exist, or role ')
    assert "; HINT: pgq queues create nowhere, or pgq work --create; if it exists: " in said
    assert len(said.splitlines()) == 1
    monkeypatch.setenv("DATABASE_URL", dsn)
    assert main(given) == 1
    assert capsys.readouterr().err == said


def test_a_database_without_pgq(dsn: str, app: str, capsys: pytest.CaptureFixture[str]) -> None:
    without = make_conninfo(dsn, dbname="postgres", password=os.environ.get("PGPASSWORD"))
    with psycopg.connect(without) as connection:
        if connection.execute("select to_regnamespace('pgq') is not null").fetchone() == (True,):
            pytest.skip("it is installed in the database postgres")
    assert main(["work", f"{app}:handlers", "--database", without]) == 1
    assert "pgq is not installed in this database" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option",
    [
        "--database=postgresql:///other",
        "--grace=1",
        "--queue=mail",
        "--housekeeping",
        "--timeout=1",
        "--poll=9",
    ],
)
def test_a_worker_has_settings_of_its_own(
    app: str, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert main(["work", f"{app}:worker", option]) == 2
    assert "settings of its own" in capsys.readouterr().err


def test_a_port_that_is_taken(dsn: str, app: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("prometheus_client")
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["work", f"{app}:handlers", "--prometheus", port]) == 1
        assert f"port {port} cannot be served" in capsys.readouterr().err
        for command in (["work", f"{app}:handlers"], ["housekeeping"]):
            assert main([*command, "--health", port, "--database", dsn]) == 1
            assert f"port {port} is taken" in capsys.readouterr().err


@pytest.mark.parametrize("given", [[], ["--housekeeping"]])
def test_housekeeping(app: str, monkeypatch: pytest.MonkeyPatch, given: list[str]) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(Worker, "run", lambda worker: seen.append(worker._housekeeping))
    assert main(["work", f"{app}:handlers", *given]) == 0
    assert seen == [bool(given)]


@pytest.mark.parametrize(
    "name", ["worker.py:tasks", "/path/worker:tasks", "worker", "worker:", ":tasks", r"a\b:tasks"]
)
def test_a_name_of_another_form(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["work", name]) == 2
    said = capsys.readouterr().err
    assert "as in pgq work app:handlers, in the folder of app.py" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            "def go():\n    1 / 0\n\n\ngo()\n",
            "Traceback (most recent call last):\n"
            '  File "{file}", line 5, in <module>\n'
            "    go()\n"
            '  File "{file}", line 2, in go\n'
            "    1 / 0\n"
            "ZeroDivisionError: division by zero\n",
        ),
        (
            "import of_nobody\n",
            "Traceback (most recent call last):\n"
            '  File "{file}", line 1, in <module>\n'
            "    import of_nobody\n"
            "ModuleNotFoundError: No module named 'of_nobody'\n",
        ),
        ("def go(:\n", "SyntaxError: invalid syntax\n"),
    ],
    ids=["raises", "lacks a module", "is no Python"],
)
def test_a_program_that_cannot_be_imported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: str,
    said: str,
) -> None:
    """Its own lines, and none of this package or of the import."""
    file = tmp_path / "broken.py"
    file.write_text(program)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["work", "broken:handlers"]) == 1
    seen = capsys.readouterr().err
    without_marks = [line for line in seen.splitlines(keepends=True) if set(line.strip()) - {*"~^"}]
    assert "".join(without_marks).endswith(said.format(file=file))
    assert len(seen.splitlines()) <= 10
    assert "importlib" not in seen
    assert "_work.py" not in seen
