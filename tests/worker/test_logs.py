"""The log of ``pgq work`` and the other programs, for machines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgq
from pgq import Client
from support.waiting import PATIENCE, wait_until

APP = """
import logging
from pgq.worker import Tasks

tasks = Tasks()

@tasks.task("mail", name="check")
def check(number):
    if number > 1:
        raise ValueError("two\\nlines")
    logging.getLogger("app").info("from the program", extra={"number": number, "what": object})
"""

CONFIGURED = "import logging\nlogging.basicConfig(format='own: %(message)s', level='INFO')\n" + APP


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", max_attempts=1)
    return client


@contextmanager
def _program(folder: Path, dsn: str, *given: str) -> Iterator[Callable[[], list[str]]]:
    """Run it; the function has the lines of its log."""
    log = folder / "log"
    with log.open("w") as file:
        command = [sys.executable, "-m", "pgq", *given, "--database", dsn]
        modules = f"{folder}{os.pathsep}{Path(pgq.__file__).parent.parent}"
        environment = {**os.environ, "PYTHONPATH": modules}
        process = subprocess.Popen(command, cwd=folder, stderr=file, env=environment)
    try:
        yield lambda: log.read_text().splitlines()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()


def _enqueued(client: Client) -> list[int]:
    headers = [{"task": "check"}] * 2
    made = client.enqueue_batch("mail", [{"number": 1}, {"number": 2}], headers=headers)
    return [one.job_id for one in made]


def test_a_line_for_each_record(tmp_path: Path, dsn: str, client: Client) -> None:
    (tmp_path / "app.py").write_text(CONFIGURED)  # what is asked for comes before it
    jobs = _enqueued(client)
    with _program(tmp_path, dsn, "work", "app:tasks", "--log-format", "json") as lines:
        wait_until(lambda: sum('"outcome"' in line for line in lines()) == 2)
    found = [json.loads(line) for line in lines()]
    done, failed = (next(one for one in found if one.get("job_id") == job) for job in jobs)
    assert datetime.fromisoformat(done.pop("time")).utcoffset() is not None
    assert 0 <= done.pop("duration") < 60
    assert done == {
        "level": "info",
        "logger": "pgq.worker",
        "message": f"job {jobs[0]} of mail: done",
        "queue": "mail",
        "job_id": jobs[0],
        "attempt": 1,
        "task": "check",
        "outcome": "done",
    }
    assert (failed["level"], failed["outcome"]) == ("warning", "failed")
    assert failed["exception"].startswith("Traceback")
    assert failed["exception"].endswith("ValueError: two\nlines")
    [own] = [one for one in found if one["logger"] == "app"]
    assert (own["message"], own["number"]) == ("from the program", 1)
    assert own["what"] == "<class 'object'>"


@pytest.mark.parametrize(
    ("app", "given", "said"),
    [
        (APP, ["--log-level", "warning"], " WARNING job {} of mail: failed"),
        (CONFIGURED, ["--log-level", "warning"], "own: job {} of mail: failed"),
        (CONFIGURED, [], "own: works on mail"),
        (APP, [], " INFO works on mail"),
    ],
)
def test_the_level_and_what_a_program_has_set_up(
    tmp_path: Path, dsn: str, client: Client, app: str, given: list[str], said: str
) -> None:
    (tmp_path / "app.py").write_text(app)
    jobs = _enqueued(client)
    with _program(tmp_path, dsn, "work", "app:tasks", *given) as lines:
        wait_until(lambda: any(said.format(jobs[1]) in line for line in lines()))
    assert any("works on mail" in line for line in lines()) == ("warning" not in given)


def test_housekeeping(tmp_path: Path, dsn: str) -> None:
    dead = "host=127.0.0.1 port=1"
    with _program(tmp_path, dead, "housekeeping", "--log-format", "json") as lines:
        wait_until(lines)
    line = json.loads(lines()[0])
    assert (line["level"], line["logger"]) == ("error", "pgq.housekeeping")


@pytest.mark.parametrize("form", ["text", "json"])
def test_push(form: str) -> None:
    code = (
        f"from pgq.push._logging import note, set_up; set_up('info', '{form}'); note(20, 'a', n=1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    if form == "text":
        assert done.stderr.endswith(" INFO a n=1\n")
    else:
        line = json.loads(done.stderr)
        del line["time"]
        assert line == {"level": "info", "logger": "pgq.push", "message": "a", "n": 1}
