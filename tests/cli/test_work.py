"""pgq work and consume: what they do where a queue or topic is not there, and --once."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from cli.test_housekeeping import both, port
from pgq import Client
from pgq.worker import AsyncWorker, Handlers, Worker
from support.cluster import guarded_role
from support.command import Start
from support.waiting import PATIENCE, wait_until
from support.working import Started

__all__ = ["port"]

HOUR = timedelta(hours=1)

APP = """
import os
import psycopg
from pgq import Client
from pgq.consumer import Consumer
from pgq.worker import Handlers

handlers = Handlers()
consumer = Consumer("billing", conninfo=os.environ["DATABASE_URL"])


@handlers.handler("mail")
{how}def send(payload):
    if payload == "bad":
        raise ValueError("no such place")
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        if payload > 1:
            Client(connection).enqueue("bills", payload - 1)
    print("mail", payload, flush=True)


@handlers.handler("bills")
{how}def bill(payload):
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        Client(connection).enqueue("mail", payload)
    print("bill", payload, flush=True)


@consumer.handler("orders")
def handle(payload):
    print(payload, flush=True)
"""


TASKS = """
from pgq.worker import Tasks

tasks = Tasks()


@tasks.task("mail", lease=90, settings={"max_attempts": 3})
def send(to: str) -> None:
    print("to", to, flush=True)
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A folder with a module of handlers."""
    (tmp_path / "app.py").write_text(APP.format(how=""))
    return tmp_path


def told(running: Any, text: str) -> str:
    """The line of its standard error that has this."""
    while line := running.stderr.readline().decode():
        if text in line:
            return str(line)
    raise AssertionError(f"{text} was not said")


def test_it_waits_for_a_queue(client: Client, process: Start, app: Path, port: int) -> None:
    running = process("work", "app:handlers", "--health", str(port), cwd=app)
    assert " has no access to it; HINT: pgq queues create " in told(running, "WARNING waits: queue")
    assert both(port) == (200, 503)
    for queue in ("mail", "bills"):
        client.admin.create_queue(queue)
    client.enqueue("mail", 1)
    assert running.stdout.readline() == b"mail 1\n"
    wait_until(lambda: both(port) == (200, 200), PATIENCE)
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 0


def test_it_works_on_the_queues_that_are_there(
    client: Client, process: Start, app: Path, port: int
) -> None:
    """Beside one that is missing; it begins that one when it appears."""
    client.admin.create_queue("mail")
    client.enqueue("mail", 1)
    running = process("work", "app:handlers", "--health", str(port), cwd=app)
    assert running.stdout.readline() == b"mail 1\n"
    assert 'waits: queue "bills" does not exist' in told(running, "WARNING")
    assert both(port) == (200, 503)
    client.admin.create_queue("bills")
    client.enqueue("bills", 0)
    assert running.stdout.readline() == b"bill 0\n"
    wait_until(lambda: both(port) == (200, 200), PATIENCE)
    client.admin.drop_queue("bills")
    told(running, 'WARNING waits: queue "bills" does not exist')
    assert both(port) == (200, 503)


def test_once_fails_for_a_missing_queue(client: Client, process: Start, app: Path) -> None:
    """Behind what is due in the others."""
    client.admin.create_queue("mail")
    client.enqueue("mail", 1)
    running = process("work", "app:handlers", "--once", cwd=app)
    out, said = running.communicate(timeout=PATIENCE)
    assert running.returncode == 1
    assert out == b"mail 1\n"
    assert said.splitlines()[-1].startswith(b'pgq: queue "bills" does not exist, or role ')
    assert said.count(b"does not exist") == 1


def test_a_consumer_waits_for_its_topic(client: Client, process: Start, app: Path) -> None:
    running = process("work", "app:consumer", cwd=app)
    line = told(running, 'waits: topic "orders" does not exist, or role ')
    assert " has no access to it; HINT: pgq topics create orders; if it exists: pgq" in line
    client.admin.create_topic("orders", partitions=1)
    told(running, 'waits: topic "orders" has no consumer group "billing"')
    client.admin.create_group("orders", "billing")
    client.publish("orders", 1)
    assert running.stdout.readline() == b"1\n"


@pytest.mark.parametrize("kind", [Worker, AsyncWorker])
def test_it_says_so_again(
    dsn: str,
    client: Client,
    kind: type[Worker] | type[AsyncWorker],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each minute; the minute is short here."""
    from pgq._runtime._async import _keeper as tasks_keeper
    from pgq._runtime._sync import _keeper as threads_keeper
    from pgq.worker._async import _supervisor as tasks
    from pgq.worker._sync import _supervisor as threads

    for keeper, supervisor in ((tasks_keeper, tasks), (threads_keeper, threads)):
        assert supervisor.SAY_AGAIN == 60
        monkeypatch.setattr(supervisor, "SAY_AGAIN", 0.2)
        monkeypatch.setattr(keeper, "LOOK_FOR", 0.02)
    handlers = Handlers()

    @handlers.handler("mail")
    def handle(payload: Any) -> None:
        """Nothing."""

    caplog.set_level(logging.DEBUG, "pgq.worker")
    worker = kind(dsn, handlers)
    worker.waits = True
    started = Started(worker)

    def said() -> list[float]:
        return [one.created for one in caplog.records if one.msg == "waits: %s"]

    wait_until(lambda: len(said()) == 3, PATIENCE)
    assert said()[1] - said()[0] >= 0.15
    assert not worker.ready
    client.admin.create_queue("mail")
    wait_until(lambda: worker.ready, PATIENCE)
    started.stop()
    started.join()


def test_strict(process: Start, app: Path) -> None:
    running = process("work", "app:handlers", "--strict", cwd=app)
    out, err = running.communicate(timeout=PATIENCE)
    assert (running.returncode, out) == (1, b"")
    assert re.fullmatch(
        r'pgq: queue "(mail|bills)" does not exist, or role (.+) has no access to it; HINT: '
        r"pgq queues create \1, or pgq work --create; if it exists: pgq access grant \2 consume "
        r"--queue \1\n",
        err.decode(),
    )


def test_create_beside_other_settings(client: Client, process: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(TASKS)
    given = ("work", "app:tasks", "--create", "--once")
    assert process(*given, "--strict", cwd=tmp_path).wait(PATIENCE) == 0
    [made] = client.admin.list_queues()
    assert (made.lease, made.max_attempts) == (timedelta(seconds=90), 3)
    assert process(*given, "--strict", cwd=tmp_path).wait(PATIENCE) == 0
    client.admin.alter_queue("mail", lease=60, max_attempts=4)
    client.enqueue("mail", {"to": "ann"}, headers={"task": "send"})
    differ = "lease: given 00:01:30, has 00:01:00; max_attempts: given 3, has 4"
    hint = "HINT: Leave a setting out to take it as it is, or change it with pgq"
    running = process(*given, cwd=tmp_path)
    said = told(running, "already exists with other settings, and stays as it is")
    assert 'WARNING queue "mail" already exists' in said
    assert said.endswith(f": {differ}. {hint}.alter_queue.\n")
    assert running.stdout.readline() == b"to ann\n"
    assert running.wait(PATIENCE) == 0
    running = process(*given, "--strict", cwd=tmp_path)
    out, err = running.communicate(timeout=PATIENCE)
    assert (running.returncode, out) == (1, b"")
    assert err.decode() == (
        f'pgq: queue "mail" already exists with other settings ({differ}); {hint} queues alter.\n'
    )


@pytest.fixture
def refused(dsn: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server that does not let one in."""
    if request.param == "database":
        yield make_conninfo(dsn, dbname="of_nobody")
    elif request.param == "role":
        yield make_conninfo(dsn, user="of_nobody")
    else:
        server = request.getfixturevalue("server")
        with guarded_role(server, "sesame") as role:
            yield make_conninfo(dsn, host="127.0.0.1", user=role, password="wrong")


REASONS = {
    "database": 'database "of_nobody" does not exist',
    "role": 'role "of_nobody" does not exist',
    "password": "password authentication failed for user",
}


@pytest.mark.parametrize(
    ("refused", "reason"), REASONS.items(), ids=[*REASONS], indirect=["refused"]
)
def test_strict_where_one_is_not_let_in(
    process: Start, app: Path, refused: str, reason: str
) -> None:
    for options in ([], ["--log-format", "json"]):
        given = ("work", "app:handlers", "--strict", "--database", refused, *options)
        running = process(*given, cwd=app)
        out, err = running.communicate(timeout=PATIENCE)
        assert (running.returncode, out) == (1, b"")
        assert reason in err.decode()
        assert len(err.splitlines()) == 1


@pytest.mark.parametrize("kind", [Worker, AsyncWorker])
@pytest.mark.parametrize(
    ("refused", "reason"), REASONS.items(), ids=[*REASONS], indirect=["refused"]
)
def test_without_it_says_so_again(
    kind: type[Worker] | type[AsyncWorker],
    refused: str,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each minute; the minute is short here."""
    from pgq._runtime._async import _runner as tasks
    from pgq._runtime._sync import _runner as threads

    for module in (tasks, threads):
        monkeypatch.setattr(module, "SAY_AGAIN", 0.2)
    handlers = Handlers()
    handlers.handler("mail")(lambda payload: None)
    worker = kind(refused, handlers)
    worker.waits = True
    started = Started(worker)
    wait_until(
        lambda: (
            sum(
                reason in one.getMessage() and one.levelno == logging.WARNING
                for one in caplog.records
            )
            == 3
        ),
        PATIENCE,
    )
    started.stop()
    started.join()


def test_consume_waits(client: Client, process: Start) -> None:
    running = process("consume", "orders", "billing", "--follow", "--payloads")
    assert running.stderr.readline() == (
        b'pgq: waits: unknown topic "orders"; HINT: pgq topics create creates it; if it exists, '
        b"this role needs pgq access grant.\n"
    )
    client.admin.create_topic("orders", partitions=1)
    client.admin.create_group("orders", "billing")
    client.publish("orders", 1)
    assert running.stdout.readline() == b"1\n"
    for options in ([], ["--follow", "--strict"]):
        strict = process("consume", "nowhere", "billing", *options)
        assert strict.communicate(timeout=PATIENCE)[1].startswith(b'pgq: unknown topic "nowhere"')
        assert strict.returncode == 1


@pytest.mark.parametrize("how", ["", "async "], ids=["threads", "tasks"])
@pytest.mark.parametrize("concurrency", ["1", "4"])
def test_once(client: Client, process: Start, tmp_path: Path, how: str, concurrency: str) -> None:
    """All that is due, and what that enqueues for now, in queues that it creates itself."""
    (tmp_path / "app.py").write_text(APP.format(how=how))
    given = ("work", "app:handlers", "--create", "--once", "--concurrency", concurrency)
    empty = process(*given, cwd=tmp_path)
    assert empty.communicate(timeout=PATIENCE)[0] == b""
    assert empty.returncode == 0
    assert {one.queue for one in client.admin.list_queues()} == {"mail", "bills"}
    client.admin.alter_queue("mail", backoff=HOUR)
    client.enqueue_batch("mail", ["bad", 3])
    later = client.enqueue("mail", 1, delay=HOUR).job_id
    running = process(*given, cwd=tmp_path)
    out, err = running.communicate(timeout=PATIENCE)
    assert out.decode().split("\n") == [
        "mail 3", "bill 2", "mail 2", "bill 1", "mail 1", "",
    ]  # fmt: skip
    assert b"failed: no such place" in err
    assert running.returncode == 0
    left = {one.job_id: one.state for one in client.jobs.peek_jobs("mail")}
    assert len(left) == 2
    assert left[later] == "delayed"


def test_a_consumer_neither_creates_nor_ends(process: Start, app: Path) -> None:
    for option in ("--create", "--once"):
        running = process("work", "app:consumer", option, cwd=app, stderr=subprocess.PIPE)
        err = running.communicate(timeout=PATIENCE)[1].decode()
        assert running.returncode == 2
        assert "is a consumer: --once and --create are for the handlers of queues" in err
