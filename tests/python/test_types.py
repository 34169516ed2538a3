"""What mypy knows of programs that use the package."""

from __future__ import annotations

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
from pgq.worker import RunningJob, Worker

@dataclass
class Order:
    number: int

worker = Worker("", encoder=pgq.encode)

@worker.handler("orders")
def handle(order: Order, job: RunningJob) -> int:
    reveal_type(order)
    reveal_type(job)
    return order.number

reveal_type(handle)
reveal_type(Producer("t").publish(1))
reveal_type(Producer(queue="q").enqueue(1, delay=5).result())
with pgq.connect("") as client:
    reveal_type(client)
    reveal_type(client.admin.list_queues())
    client.claim_job("orders", lease=90)

async def main() -> None:
    async with await pgq.connect_async("") as client:
        reveal_type(client)
        reveal_type(await client.jobs.peek_jobs("orders"))
    reveal_type(await AsyncProducer("t").publish(1))
"""

SEEN = [
    "Order",
    "RunningJob",
    "def (order: Order, job: RunningJob) -> int",
    "Future[PublishResult | None]",
    "EnqueueResult",
    "Client",
    "list[Queue]",
    "AsyncClient",
    "list[JobInfo]",
    "PublishResult | None",
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
    ]
