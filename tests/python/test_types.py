"""What mypy and pyright know of programs that use the package."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pgq

PROGRAM = """
from dataclasses import dataclass
import pgq
from pgq.producer import AsyncProducer, Producer
from pgq.worker import Handlers, Hook, RunningJob, Tasks, Worker
from pgq.worker.hooks import OpenTelemetry, Prometheus

@dataclass
class Order:
    number: int

worker = Worker("", encoder=pgq.encode)

@worker.handler("orders")
def handle(order: Order, job: RunningJob[Order]) -> int:
    reveal_type(order)
    reveal_type(job)
    reveal_type(job.payload)
    return order.number

reveal_type(handle)

tasks = Tasks(headers=OpenTelemetry().headers)
hooks: list[Hook] = [OpenTelemetry(), Prometheus()]

@tasks.task("orders", max_attempts=3)
def ship(number: int, where: str = "here", job: RunningJob | None = None) -> str:
    return where

@tasks.task("orders")
async def bill(number: int) -> None: ...

reveal_type(ship(3))
reveal_type(Producer("t").publish(1))
reveal_type(Producer(queue="q").enqueue(1, delay=5).result())
with pgq.connect("") as client:
    reveal_type(client)
    reveal_type(client.admin.list_queues())
    [job] = client.claim_job("orders", lease=90)
    reveal_type(job.payload)
    reveal_type(ship.enqueue(client, 3, where="there"))
    reveal_type(ship.options(delay=5).schedule(client, "s", "@daily", number=3))
    reveal_type(tasks.create_queues(client))

async def main() -> None:
    async with await pgq.connect_async("") as client:
        reveal_type(client)
        reveal_type(await client.jobs.peek_jobs("orders"))
        reveal_type(await bill.enqueue(client, number=3))
        reveal_type(await bill(3))
        reveal_type(await tasks.create_queues(client))
    reveal_type(await AsyncProducer("t").publish(1))
"""

SEEN = [
    "Order",
    "RunningJob[Order]",
    "Order",
    "def (order: Order, job: RunningJob[Order]) -> int",
    "str",
    "Future[Published]",
    "EnqueueResult",
    "Client",
    "list[Queue]",
    "Any",
    "EnqueueResult",
    "Schedule",
    "list[Queue]",
    "AsyncClient",
    "list[JobInfo]",
    "EnqueueResult",
    "None",
    "list[Queue]",
    "Published",
]


def _checked(tmp_path: Path, text: str) -> str:
    program = tmp_path / "program.py"
    program.write_text(text)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            "--cache-dir",
            tmp_path,
            program,
        ],
        capture_output=True,
        text=True,
        check=False,
        env={"MYPYPATH": str(Path(pgq.__file__).parent.parent), "PATH": ""},
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _checked(tmp_path_factory.mktemp("types"), PROGRAM + WRONG)


WRONG = """
def wrong(client: pgq.Client) -> None:
    client.create_queue("orders")
    client.admin.create_queue("orders", retention=3)
    pgq.Client("dbname=x")
    ship.enqueue(client, "three")
    ship.enqueue(client, number=3, wher="there")
    ship.enqueue(client)
    ship.schedule(client, "s", "@daily", number="three")
"""


def test_what_calls_return(told: str) -> None:
    seen = re.findall(r'Revealed type is "(.*)"', told)
    plain = [re.sub(r"(?<![\w.])(?:\w+\.)+(?=\w)", "", text) for text in seen]
    assert plain == SEEN


def test_what_is_wrong(told: str) -> None:
    errors = re.findall(r"error: (.*?)  \[", told)
    assert [error.split(";")[0] for error in errors] == [
        '"Client" has no attribute "create_queue"',
        'Argument "retention" to "create_queue" of "Queues" has incompatible type "int"',
        'Argument 1 to "Client" has incompatible type "str"',
        'No overload variant of "enqueue" of "Task" matches argument types "Client", "str"',
        'Unexpected keyword argument "wher" for overloaded function "enqueue" of "Task"',
        'No overload variant of "enqueue" of "Task" matches argument types "Client", "int", "str"',
        'No overload variant of "enqueue" of "Task" matches argument type "Client"',
        'No overload variant of "schedule" of "Task" matches argument types'
        ' "Client", "str", "str", "str"',
    ]


def test_pyright_agrees(tmp_path: Path) -> None:
    """It knows the same types, and refuses the same lines."""
    (tmp_path / "program.py").write_text(PROGRAM + WRONG)
    settings = {"extraPaths": [str(Path(pgq.__file__).parent.parent)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = json.loads(done.stdout)["generalDiagnostics"]
    seen = [one["message"] for one in said if one["severity"] == "information"]
    types = [re.sub(r'Type of ".*" is "(.*)"', r"\1", text) for text in seen]
    functions = [text for text in SEEN if text.startswith("def")]
    assert [text for text in types if not text.startswith("(")] == [
        text for text in SEEN if text not in functions
    ]
    lines = (PROGRAM + WRONG).splitlines()
    wrong = {lines[one["range"]["start"]["line"]] for one in said if one["severity"] == "error"}
    assert wrong == {*WRONG.strip().splitlines()[1:]}
