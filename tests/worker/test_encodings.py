"""A database whose encoding lacks what errors say: the failure is recorded all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pgq import Client
from pgq.consumer import AsyncConsumer, Consumer
from pgq.worker import AsyncWorker, Reject, Worker
from support.databases import Databases
from support.house import load_pgq
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import emptied, working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]

TEXT = "dé € 漢\0"
ESCAPED = "dé \\u20ac \\u6f22\\0"
LONE, LONE_ESCAPED = "\ud800", "\\ud800"


def wait_until(condition: Callable[[], Any]) -> None:
    _wait_until(condition, 2 * PATIENCE)


@pytest.fixture(scope="module")
def latin(databases: Databases) -> Iterator[str]:
    """The connection string of a database in LATIN1."""
    name = databases.name("latin")
    with psycopg.connect(databases.dsn_of("postgres"), autocommit=True) as admin:
        admin.execute(f"drop database if exists {name} with (force)".encode())
        admin.execute(
            f"create database {name} template template0 encoding 'LATIN1' locale 'C'".encode()
        )
        load_pgq(conninfo=databases.dsn_of(name))
        yield databases.dsn_of(name)
        admin.execute(f"drop database {name} with (force)".encode())


@pytest.fixture(params=["LATIN1", "UTF8"])
def dsn(request: pytest.FixtureRequest, latin: str) -> str:
    """That of a client with this encoding, with nothing left in the database."""
    return make_conninfo(emptied(latin), client_encoding=request.param)


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    with psycopg.connect(dsn, autocommit=True, client_encoding="UTF8") as connection:
        client = Client(connection)
        client.admin.create_queue("mail", max_attempts=2, backoff=timedelta(milliseconds=10))
        yield client


@pytest.mark.parametrize("kind_of_error", [ValueError, Reject])
def test_a_job(
    dsn: str, client: Client, kind: Kind, as_handler: As, kind_of_error: type[Exception]
) -> None:
    done: list[Any] = []

    def handle(payload: Any) -> None:
        done.append(payload)
        if payload == "bad":
            raise kind_of_error(TEXT)

    worker = kind(dsn, concurrency=1)
    worker.handler("mail")(as_handler(handle))
    client.enqueue_batch("mail", ["bad", "é"])
    with working(worker):
        wait_until(lambda: "é" in done and client.jobs.dead_letters("mail"))
    [letter] = client.jobs.dead_letters("mail")
    assert (letter.last_error or "").endswith(ESCAPED)


def test_a_message(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    def handle(payload: Any) -> None:
        raise ValueError(TEXT)

    client.admin.create_topic("events", partitions=1)
    client.admin.create_topic("dead", partitions=1)
    client.admin.create_group("events", "all", max_attempts=1, dead_letter_topic="dead")
    client.publish("events", "é")
    consumer = (Consumer if kind is Worker else AsyncConsumer)("all", conninfo=dsn, concurrency=1)
    consumer.handler("events")(as_handler(handle))
    with working(consumer):
        wait_until(lambda: client.monitor.group_lag("events")[0].lag == 0)
    [letter] = client.bulk.fetch_range("dead", 0, 1, 1)
    assert letter.headers is not None
    assert letter.headers["pgq_error"] == f"ValueError: {ESCAPED}"


@pytest.fixture
def writer(dsn: str) -> Iterator[Client]:
    """A client in that encoding."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield Client(connection)


def test_the_client(client: Client, writer: Client) -> None:
    """Each function that takes an error, in a transaction that goes on."""
    client.admin.create_topic("events", partitions=1)
    client.admin.create_topic("dead", partitions=1)
    client.admin.create_group("events", "all", max_attempts=5, dead_letter_topic="dead")
    client.publish("events", 1)
    client.enqueue_batch("mail", [1, 2, 3])
    one, two, three = client.claim_job("mail", max_jobs=3)
    with writer.connection.transaction():
        assert writer.nack(one.job_id, one.lease_token, error=TEXT + LONE)
        assert writer.nack_batch([two.job_id], two.lease_token, error=TEXT + LONE)
        assert writer.reject_job(three.job_id, three.lease_token, error=TEXT + LONE)
        [message] = writer.poll("events", "all")
        assert writer.nack_offsets(
            "events", "all", 0, lease_token=message.lease_token, error=TEXT + LONE
        )
    errors = {letter.last_error for letter in client.jobs.dead_letters("mail")}
    assert errors == {ESCAPED + LONE_ESCAPED}
    assert client.monitor.group_lag("events")[0].last_error == ESCAPED + LONE_ESCAPED
    writer.heartbeat("me", host=TEXT + LONE, details={"why": [TEXT + LONE, 1]})
    [worker] = client.monitor.list_workers()
    assert (worker.host, worker.details) == (
        ESCAPED + LONE_ESCAPED,
        {"why": [ESCAPED + LONE_ESCAPED, 1]},
    )


def test_the_result_of_an_effect(client: Client) -> None:
    """The effect has happened: later attempts get its result, as far as it can be kept."""
    client.enqueue("mail", 1)
    [job] = client.claim_job("mail")
    assert client.run_once(job, "send", lambda: {"receipt": TEXT + LONE}) == {
        "receipt": TEXT + LONE
    }
    assert client.run_once(job, "send", lambda: None) == {"receipt": ESCAPED + LONE_ESCAPED}


def test_a_name_of_a_host(
    dsn: str, client: Client, kind: Kind, as_handler: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: TEXT.replace("\0", LONE))
    worker = kind(dsn, heartbeat=0.05)
    worker.handler("mail")(as_handler(lambda payload: None))
    with working(worker):
        wait_until(client.monitor.list_workers)


def test_content_that_the_client_lacks(
    shared_dsn: str, kind: Kind, as_handler: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that asks for LATIN1, on a database that has more."""
    emptied(shared_dsn)
    done: list[Any] = []
    with psycopg.connect(shared_dsn, autocommit=True, client_encoding="UTF8") as connection:
        client = Client(connection)
        client.admin.create_queue("mail")
        client.enqueue_batch("mail", ["漢", 1], keys=["€", "a"])
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
        worker = kind(shared_dsn)
        worker.handler("mail", prefetch=2)(as_handler(done.append))
        with working(worker):
            wait_until(lambda: len(done) == 2)
    assert done == ["漢", 1]
