"""Content that a handler, Python or the database cannot take harms its own job, and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgq import Client
from pgq.worker import AsyncWorker, Reject, Worker
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_until(condition: Callable[[], Any]) -> None:
    _wait_until(condition, 2 * PATIENCE)


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", max_attempts=2, backoff=timedelta(milliseconds=10))
    return client


@dataclass
class Strict:
    """What breaks in a way of its own."""

    name: str

    def __post_init__(self) -> None:
        {"good": 1}[self.name]


@pytest.mark.parametrize("payload", ["1" * 5000, "[" * 3000 + "]" * 3000], ids=["long", "deep"])
def test_json_that_python_cannot_read(
    dsn: str, client: Client, kind: Kind, as_handler: As, payload: str
) -> None:
    done: list[Any] = []

    def handle(payload: Any) -> None:
        done.append(payload)

    worker = kind(dsn, concurrency=2)
    worker.handler("mail", prefetch=3)(as_handler(handle))
    client.connection.execute(
        "select pgq.enqueue_batch('mail', array['1', %s, '2']::jsonb[])", [payload]
    )
    dead = "select job_id, last_error from pgq.dead_letters"
    with working(worker):
        # some versions of Python can read it
        wait_until(lambda: len(done) == 3 or client.connection.execute(dead).fetchall())
        wait_until(lambda: len(done) >= 2)
    if len(done) == 2:
        [(_, error)] = client.connection.execute(dead).fetchall()
        assert "cannot be read (payload, queue mail, job_id " in error


def test_a_session_goes_on_naming_them(
    dsn: str, client: Client, kind: Kind, as_handler: As
) -> None:
    """A connection keeps its cursor after an answer of one row."""
    done: list[Any] = []

    def handle(payload: Any) -> None:
        done.append(payload)

    worker = kind(dsn, concurrency=1)
    worker.handler("mail")(as_handler(handle))
    long = Jsonb("1" * 5001, dumps=str)
    ids = [one.job_id for one in client.enqueue_batch("mail", [long, 1, long, 2])]
    with working(worker):
        wait_until(lambda: done == [1, 2])
        wait_until(lambda: len(client.jobs.dead_letters("mail")) == 2)
    told = {letter.job_id: letter.last_error or "" for letter in client.jobs.dead_letters("mail")}
    assert all(f"job_id {job_id})" in told[job_id] for job_id in (ids[0], ids[2]))
    assert all(letter.attempt == 1 for letter in client.jobs.dead_letters("mail"))


@pytest.mark.parametrize("batch", [None, 3])
def test_a_type_that_breaks(
    dsn: str, client: Client, kind: Kind, as_handler: As, batch: int | None
) -> None:
    done: list[Any] = []

    def each(one: Strict) -> None:
        done.append(one.name)

    def many(ones: list[Strict]) -> None:
        done.extend(one.name for one in ones)

    worker = kind(dsn)
    worker.handler("mail", batch=batch)(as_handler(many if batch else each))
    client.enqueue_batch("mail", [{"name": "good"}, {"name": "bad"}, {"name": "good"}])
    with working(worker):
        wait_until(lambda: len(done) == 2 and client.jobs.dead_letters("mail"))
    assert [letter.last_error for letter in client.jobs.dead_letters("mail")] == ["KeyError: 'bad'"]


@pytest.mark.parametrize("result", [float("nan"), "a\0b", "\ud800"])
def test_a_result_that_the_database_refuses(
    dsn: str, client: Client, kind: Kind, as_handler: As, result: Any
) -> None:
    worker = kind(dsn)
    client.admin.alter_queue("mail", keep_results=True)
    worker.handler("mail")(as_handler(lambda payload: result))
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: client.jobs.dead_letters("mail"))
    [letter] = client.jobs.dead_letters("mail")
    assert letter.attempt == 2
    assert letter.last_error


def test_an_error_text_that_is_no_text(
    dsn: str, client: Client, kind: Kind, as_handler: As
) -> None:
    def handle(payload: Any) -> None:
        raise Reject("no \0 such \ud800 place")

    worker = kind(dsn)
    worker.handler("mail")(as_handler(handle))
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: client.jobs.dead_letters("mail"))
    [letter] = client.jobs.dead_letters("mail")
    assert (letter.attempt, letter.last_error) == (1, "no \\0 such \\ud800 place")


def test_a_batch_that_names_other_jobs(
    dsn: str, client: Client, kind: Kind, as_handler: As
) -> None:
    """To take it for done would lose what was to be tried again."""

    def handle(payloads: list[Any], jobs: list[Any]) -> dict[str, Any]:
        return {str(job.job_id): Reject("no") for job in jobs}

    worker = kind(dsn)
    worker.handler("mail", batch=3)(as_handler(handle))
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: client.jobs.dead_letters("mail"))
    assert "was not among its jobs" in (client.jobs.dead_letters("mail")[0].last_error or "")
