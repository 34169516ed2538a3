"""Workers tell that they are alive."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq._runtime import _heartbeats as heartbeats
from pgq._runtime._heartbeats import Heartbeats
from pgq.messages import WorkerInfo
from pgq.worker import AsyncWorker, Worker
from pgq.worker._grants import EXECUTE
from support.session import Connect
from support.waiting import PATIENCE, wait_until
from support.working import Gate, kill_backends, working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]
ROLE = "pgq_test_silent_worker"


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    connection.execute("delete from pgq.worker")
    client = Client(connection)
    client.admin.create_queue("mail")
    client.admin.create_queue("bills")
    return client


def seen(client: Client, running: int = 0) -> WorkerInfo:
    """The one worker that is listed, once it has that much to do."""

    def found() -> WorkerInfo | None:
        workers = client.monitor.list_workers()
        return workers[0] if workers and workers[0].running == running else None

    one = wait_until(found, PATIENCE, f"for a worker that runs {running}")
    assert one is not None
    return one


def test_a_worker(dsn: str, client: Client, kind: Kind) -> None:
    gate = Gate(kind)
    worker = kind(dsn, concurrency=2, poll=0.05, heartbeat=0.05)
    for queue in ("mail", "bills"):
        worker.handler(queue)(gate.handler)
    with working(worker):
        first = seen(client)
        assert (first.kind, first.pid, first.sources) == ("worker", os.getpid(), ["bills", "mail"])
        assert (first.details, first.stale) == (None, False)
        assert first.host is not None
        assert first.worker.startswith(f"{first.host}:{first.pid}:")
        client.enqueue("mail", 1)
        client.enqueue("bills", 2)
        later = seen(client, 2)
        assert later.started_at == first.started_at
        assert later.last_seen_at > first.last_seen_at
        gate.open.set()
        seen(client)
    assert client.monitor.list_workers() == []


def test_a_killed_connection(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    """It is the same worker, on a new one."""
    worker = kind(dsn, poll=0.05, heartbeat=0.05)
    worker.handler("mail")(as_handler(lambda payload: None))
    with working(worker):
        before = seen(client)
        assert kill_backends(client.connection, "pgq worker: leases") == 1
        wait_until(lambda: seen(client).last_seen_at > before.last_seen_at, PATIENCE)
        wait_until(lambda: len(client.monitor.list_workers()) == 1, PATIENCE)
        assert seen(client).worker == before.worker


def test_none_at_all(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    with pytest.raises(ValueError, match="heartbeat is 0, must be more than 0"):
        kind(dsn, heartbeat=0)
    worker = kind(dsn, poll=0.05, heartbeat=None)
    worker.handler("mail")(as_handler(lambda payload: None))
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: len(client.jobs.archived_jobs("mail")) == 1, PATIENCE)
        assert client.monitor.list_workers() == []


@pytest.fixture
def silent(client: Client, connect: Connect) -> Iterator[str]:
    """A role that may do jobs, and send no heartbeats."""
    try:
        client.connection.execute(f"create role {ROLE}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    client.connection.execute(f"grant usage on schema pgq to {ROLE}")
    yield ROLE
    client.connection.execute(f"drop owned by {ROLE}")
    client.connection.execute(f"drop role {ROLE}")


def test_a_role_that_may_not(
    dsn: str,
    client: Client,
    kind: Kind,
    as_handler: As,
    silent: str,
    caplog: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says so once, and works on; it is seen soon after the grant that it names."""
    assert heartbeats.TRY_AGAIN == 60
    monkeypatch.setattr(heartbeats, "TRY_AGAIN", 0.05)
    caplog.set_level(logging.INFO, logger="pgq.worker")
    for function in {*EXECUTE} - {"heartbeat"}:
        client.connection.execute(f"grant execute on function pgq.{function} to {silent}")
    worker = kind(dsn, poll=0.05, heartbeat=0.02, connect={"options": f"-c role={silent}"})
    worker.handler("mail")(as_handler(lambda payload: None))
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: "sends no heartbeats" in caplog.text, PATIENCE)
        for number in range(1, 4):
            wait_until(lambda: len(client.jobs.archived_jobs("mail")) == number, PATIENCE)  # noqa: B023
            client.enqueue("mail", number)
        assert client.monitor.list_workers() == []
        [line] = [one for one in caplog.messages if "sends no heartbeats" in one]
        assert "list_workers will not show it" in line
        client.connection.execute(line.partition("HINT: ")[2].encode())
        wait_until(client.monitor.list_workers, PATIENCE)
    assert "heartbeats interrupted" not in caplog.text


def test_an_older_database(
    dsn: str, client: Client, kind: Kind, as_handler: As, caplog: Any
) -> None:
    """Where there is no such function, as before it was there."""
    rename = "alter function pgq.{} rename to {}"
    client.connection.execute(rename.format("heartbeat", "_heartbeat").encode())
    try:
        worker = kind(dsn, poll=0.05, heartbeat=0.02)
        worker.handler("mail")(as_handler(lambda payload: None))
        client.enqueue("mail", 1)
        with working(worker):
            wait_until(lambda: "sends no heartbeats" in caplog.text, PATIENCE)
            wait_until(lambda: len(client.jobs.archived_jobs("mail")) == 1, PATIENCE)
    finally:
        client.connection.execute(rename.format("_heartbeat", "heartbeat").encode())
    assert caplog.text.count("sends no heartbeats") == 1


def test_one_that_is_not_taken(
    dsn: str, client: Client, kind: Kind, as_handler: As, connect: Connect, caplog: Any
) -> None:
    """Somebody holds the table: jobs are done all the same, and heartbeats go on behind it."""
    caplog.set_level(logging.INFO, logger="pgq.worker")
    worker = kind(dsn, poll=0.05, heartbeat=0.02)
    worker.handler("mail")(as_handler(lambda payload: None))
    with working(worker):
        before = seen(client)
        with connect() as holder:
            holder.execute("lock table pgq.worker")
            client.enqueue("mail", 1)
            wait_until(lambda: "a heartbeat was not taken" in caplog.text, PATIENCE)
            wait_until(lambda: len(client.jobs.archived_jobs("mail")) == 1, PATIENCE)
        wait_until(lambda: seen(client).last_seen_at > before.last_seen_at, PATIENCE)


def test_a_name_that_cannot_be_said(
    dsn: str, client: Client, kind: Kind, as_handler: As, monkeypatch: Any
) -> None:
    """The encoding of the connection lacks a character: the name has an escape."""
    monkeypatch.setattr("socket.gethostname", lambda: "m€h")
    worker = kind(dsn, poll=0.05, heartbeat=0.02, connect={"client_encoding": "latin1"})
    worker.handler("mail")(as_handler(lambda payload: None))
    with working(worker):
        [seen] = wait_until(client.monitor.list_workers, PATIENCE)
        client.enqueue("mail", 1)
        wait_until(lambda: len(client.jobs.archived_jobs("mail")) == 1, PATIENCE)
    assert seen.host == r"m\u20ach"


def test_more_than_a_heartbeat_can_say(client: Client) -> None:
    """A runner leaves out what is beyond the bounds, so that its own heartbeats are taken."""
    for sources in (
        [f"q{number}" for number in range(1100)],
        ["ü" * 200 + str(n) for n in range(99)],
    ):
        heartbeats = Heartbeats(
            "worker", sources, lambda: 0, 10, details=lambda: {"group": "ü" * 9000}
        )
        client.heartbeat(heartbeats.name, **heartbeats.said())
        [seen] = client.monitor.list_workers()
        assert seen.sources == sorted(sources)[: len(seen.sources)]
        assert 70 < len(seen.sources) <= 1000
        assert seen.details is None
        assert client.monitor.delete_worker(heartbeats.name)
