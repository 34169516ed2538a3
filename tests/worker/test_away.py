"""A server that is away at the start, is a standby, or only reads for a while, is waited for."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.worker import AsyncWorker, Worker
from support.away import read_only, read_only_at_once
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import Started, unreachable, working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_until(condition: Callable[[], Any]) -> None:
    _wait_until(condition, 2 * PATIENCE)


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """A database in which cleanup may be called."""
    return emptied_dsn


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", max_attempts=1)
    return client


def warnings(caplog: Any, text: str) -> int:
    return sum(
        record.levelno >= logging.WARNING and text in record.getMessage()
        for record in caplog.records
    )


def test_it_begins_when_the_server_is_there(
    dsn: str, client: Client, kind: Kind, as_handler: As, caplog: Any
) -> None:
    done: list[int] = []
    worker = kind(dsn, concurrency=1)
    worker.handler("mail")(as_handler(done.append))
    client.enqueue("mail", 1)
    with unreachable(client.connection, dsn, "%worker%"):
        started = Started(worker)
        wait_until(lambda: warnings(caplog, "database unavailable"))
        assert not worker.running
        assert not started.ended.done()
    wait_until(lambda: done == [1])
    started.stop()
    started.join()
    assert warnings(caplog, "database unavailable") == 1


def test_a_stop_ends_the_wait(kind: Kind, caplog: Any) -> None:
    worker = kind("host=127.0.0.1 port=1 connect_timeout=2")
    worker.handler("mail")(lambda payload: None)
    started = Started(worker)
    wait_until(lambda: warnings(caplog, "database unavailable"))
    started.stop()
    started.join()


def test_an_address_that_was_not_given(
    kind: Kind, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOST", "/nowhere")
    monkeypatch.delenv("DATABASE_URL", raising=False)
    worker = kind()
    worker.handler("mail")(lambda payload: None)
    started = Started(worker)
    wait_until(lambda: warnings(caplog, "database unavailable"))
    started.stop()
    started.join()
    assert warnings(caplog, "HINT:  DATABASE_URL is not set, and no address was given")


def test_a_queue_that_is_not_there_is_still_said(dsn: str, kind: Kind) -> None:
    worker = kind(dsn)
    worker.handler("nowhere")(lambda payload: None)
    with pytest.raises(psycopg.ProgrammingError, match="nowhere"):
        Started(worker).join()


@pytest.fixture(params=["new sessions", "all sessions"])
def refusing(request: pytest.FixtureRequest, client: Client) -> Callable[[], Any]:
    """The database refuses to write in a block; with the first, its sessions do so for ever."""
    if request.param == "new sessions":
        return lambda: read_only(client.connection, "pgq worker%")
    request.getfixturevalue("server")
    return lambda: read_only_at_once(client.connection)


def test_read_only_for_a_while(
    dsn: str, client: Client, kind: Kind, as_handler: As, refusing: Any, caplog: Any
) -> None:
    """Sessions that refuse to write are left; each job is done once, in one attempt."""
    done: Counter[int] = Counter()
    go = threading.Event()

    def handle(number: int) -> None:
        done[number] += 1
        if number == 2:
            go.wait(PATIENCE)

    worker = kind(dsn, concurrency=2, heartbeat=0.1, housekeeping=True)
    worker.handler("mail")(as_handler(handle))
    client.enqueue_batch("mail", [*range(20)])
    with working(worker):
        wait_until(lambda: 2 in done)
        with refusing():
            go.set()
            wait_until(lambda: warnings(caplog, "is read-only for now"))
        wait_until(lambda: len(client.jobs.archived_jobs("mail")) == 20)
        # the first heartbeat may have met the refusal
        wait_until(client.monitor.list_workers)
        seen = client.monitor.list_workers()[0].last_seen_at
        wait_until(lambda: client.monitor.list_workers()[0].last_seen_at > seen)
    assert {*done.values()} == {1}
    assert client.jobs.dead_letters("mail") == []


def test_a_handler_that_writes_in_vain(
    dsn: str, client: Client, kind: Kind, as_handler: As
) -> None:
    """What its own connection refuses is a failed attempt."""

    def handle(number: int) -> None:
        with psycopg.connect(dsn, options="-c default_transaction_read_only=on") as own:
            own.execute("create table nowhere ()")

    worker = kind(dsn)
    worker.handler("mail")(as_handler(handle))
    client.enqueue("mail", 0)
    with working(worker):
        wait_until(lambda: client.jobs.dead_letters("mail"))
    assert "ReadOnlySqlTransaction" in (client.jobs.dead_letters("mail")[0].last_error or "")


def test_a_reason_is_said_once(
    dsn: str, client: Client, kind: Kind, as_handler: As, caplog: Any
) -> None:
    """Not by each slot at each of its attempts to connect."""
    caplog.set_level(logging.DEBUG)
    worker = kind(dsn, concurrency=4)
    worker.handler("mail")(as_handler(lambda payload: None))
    client.enqueue("mail", 0)

    def tried() -> int:
        return sum("is read-only for now" in record.getMessage() for record in caplog.records)

    with working(worker):
        wait_until(lambda: client.jobs.archived_jobs("mail"))
        with read_only(client.connection, "pgq worker%"):
            wait_until(lambda: tried() > 5)
    assert warnings(caplog, "is read-only for now") <= 3
