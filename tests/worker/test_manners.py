"""What a worker costs the database, and how it behaves where its handlers or the server do not."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypedDict

import psycopg
import pydantic
import pytest

from pgq import AsyncClient, Client
from pgq._runtime._async import _pool as tasks_pool
from pgq._runtime._sync import _pool as threads_pool
from pgq.worker import AsyncWorker, Worker
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import unreachable, working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_until(condition: Callable[[], Any]) -> Any:
    return _wait_until(condition, 2 * PATIENCE)


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", backoff=timedelta(milliseconds=10))
    return client


def finished(client: Client) -> int:
    return len(client.jobs.archived_jobs("mail"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that workers have called; each call is a transaction."""
    seen: list[str] = []
    fetch = threads_pool.Keeping._fetch
    fetch_in_task = tasks_pool.Keeping._fetch

    def name(statement: bytes) -> str:
        return statement.decode().split(" pgq.")[1].split("(")[0]

    def noted(self: Any, statement: bytes, *rest: Any) -> Any:
        seen.append(name(statement))
        return fetch(self, statement, *rest)

    def noted_in_task(self: Any, statement: bytes, *rest: Any) -> Any:
        seen.append(name(statement))
        return fetch_in_task(self, statement, *rest)

    monkeypatch.setattr(threads_pool.Keeping, "_fetch", noted)
    monkeypatch.setattr(tasks_pool.Keeping, "_fetch", noted_in_task)
    return seen


@pytest.mark.parametrize(
    ("settings", "exchanges", "acks"),
    [
        ({}, 40, 0),
        ({"prefetch": 10}, 4, 36),
        ({"prefetch": 10, "idempotent": True, "ack_after": PATIENCE}, 4, 0),
        ({"batch": 10}, 4, 0),
    ],
    ids=["one", "in advance", "in groups", "batches"],
)
def test_transactions(
    dsn: str,
    client: Client,
    kind: Kind,
    as_handler: As,
    calls: list[str],
    settings: dict[str, Any],
    exchanges: int,
    acks: int,
) -> None:
    """A job costs one, which finishes it and claims the next; a group of jobs likewise."""
    worker = kind(dsn, concurrency=1)
    worker.handler("mail", **settings)(as_handler(lambda payload: None))
    client.enqueue_batch("mail", list(range(40)))
    with working(worker):
        wait_until(lambda: finished(client) == 40)
    assert calls.count("finish_and_claim") == exchanges
    assert calls.count("ack_batch") == acks
    assert {*calls} <= {"claim_job", "finish_and_claim", "ack_batch"}


def test_what_is_done_does_not_wait_for_long(
    dsn: str, client: Client, kind: Kind, as_handler: As
) -> None:
    """It is finished before the next handler begins, if it has waited for `ack_after`."""
    begun: list[int] = []
    go = threading.Event()
    in_time: list[bool] = []

    def handle(payload: int) -> None:
        begun.append(payload)
        if payload == 0:
            time.sleep(0.02)
        if payload == 2:
            in_time.append(go.wait(PATIENCE))

    worker = kind(dsn, concurrency=1)
    worker.handler("mail", prefetch=4, idempotent=True, ack_after=0.01)(as_handler(handle))
    # the second one takes longer than `ack_after` too, so that the first two are finished
    client.enqueue_batch("mail", [0, 0, 2, 3])
    with working(worker):
        wait_until(lambda: begun == [0, 0, 2])
        wait_until(lambda: finished(client) == 2)
        go.set()
        wait_until(lambda: finished(client) == 4)
    assert in_time == [True]


def test_handlers_that_wait_for_nothing_let_others_run(dsn: str, client: Client) -> None:
    """Coroutines that never await: heartbeats need the loop in the middle of a claim."""
    turns = 0
    seen: list[int] = []

    async def run() -> None:
        worker = AsyncWorker(dsn, concurrency=1)

        @worker.handler("mail", prefetch=20, idempotent=True, ack_after=PATIENCE)
        async def handle(payload: int) -> None:
            time.sleep(0.011)
            seen.append(turns)
            if len(seen) == 20:
                worker.stop()

        working = asyncio.create_task(worker.run())
        while not working.done():
            nonlocal turns
            turns += 1
            await asyncio.sleep(0)
        await working

    client.enqueue_batch("mail", list(range(20)))
    asyncio.run(run())
    assert finished(client) == 20
    assert len({*seen}) == 20


def test_a_lease_that_nobody_can_extend_stops_the_handler(
    dsn: str, client: Client, kind: Kind
) -> None:
    """The server cannot be reached for so long that the lease has run out."""
    seen: list[str] = []
    worker = kind(dsn, concurrency=1, poll=0.2)

    def handle(payload: int, job: Any) -> None:
        seen.append("begun")
        if job.attempt == 1:
            while not job.lost:
                time.sleep(0.01)
            seen.append("stopped")
            job.check()

    async def handle_in_task(payload: int, job: Any) -> None:
        seen.append("begun")
        if job.attempt == 1:
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                seen.append("stopped")
                raise

    worker.handler("mail", lease=0.5)(handle if kind is Worker else handle_in_task)
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: seen == ["begun"])
        with unreachable(client.connection, dsn, "pgq worker%"):
            wait_until(lambda: seen == ["begun", "stopped"])
        wait_until(lambda: finished(client) == 1)
    assert seen == ["begun", "stopped", "begun"]
    [job] = client.jobs.archived_jobs("mail")
    assert (job.attempt, job.outcome) == (2, "acked")


# ---------------------------------------------------------------------------- payloads and records


class Note(TypedDict):
    text: str


class Model(pydantic.BaseModel):
    age: int


def test_what_does_not_fit_is_a_dead_letter(dsn: str, client: Client, kind: Kind) -> None:
    """At its first attempt, with an error that says where, for each sort of type; others go on."""
    got: list[Any] = []
    worker = kind(dsn)

    def add(queue: str, annotation: Any, **settings: Any) -> None:
        def handle(payload: Any) -> None:
            got.append(payload)

        async def handle_in_task(payload: Any) -> None:
            got.append(payload)

        function = handle if kind is Worker else handle_in_task
        function.__annotations__ = {"payload": annotation}
        client.admin.create_queue(queue)
        worker.handler(queue, **settings)(function)

    add("notes", Note)
    add("models", Model)
    add("batches", list[Model], batch=5)
    client.enqueue_batch("notes", [{"text": "a"}, {"text": 1}])
    client.enqueue_batch("models", [{"age": 1}, {"age": "old"}])
    client.enqueue_batch("batches", [{"age": "young"}, {"age": 2}])
    with working(worker):
        wait_until(lambda: len(got) == 3 and sum(s.dead for s in client.monitor.queue_stats()) == 3)
    assert all(one in got for one in ({"text": "a"}, Model(age=1), [Model(age=2)]))
    for queue, name, where in (
        ("notes", "Note", "text"),
        ("models", "Model", "age"),
        ("batches", "Model", "age"),
    ):
        [letter] = client.jobs.dead_letters(queue)
        assert letter.attempt == 1
        assert str(letter.last_error).startswith(f"the payload does not fit {name}: ")
        assert where in str(letter.last_error)


def test_records(
    dsn: str, client: Client, kind: Kind, as_handler: As, caplog: pytest.LogCaptureFixture
) -> None:
    """Each job is a record whose fields a formatter for JSON can write."""
    caplog.set_level(logging.INFO, "pgq.worker")
    worker = kind(dsn)
    worker.handler("mail")(as_handler(lambda payload: None))
    job_id = client.enqueue("mail", 1).job_id
    with working(worker):
        wait_until(lambda: any(hasattr(record, "job_id") for record in caplog.records))
    [record] = [record for record in caplog.records if hasattr(record, "job_id")]
    names = ("queue", "job_id", "attempt", "outcome", "duration")
    fields = {name: getattr(record, name) for name in names}
    assert 0 <= json.loads(json.dumps(fields)).pop("duration") < PATIENCE
    assert {**fields, "duration": 0} == {
        "queue": "mail",
        "job_id": job_id,
        "attempt": 1,
        "outcome": "done",
        "duration": 0,
    }
    assert record.levelno == logging.INFO


def test_a_kept_cursor_reads_all_that_comes(dsn: str) -> None:
    """The same call with other types of values, behind an error, and behind many rows."""

    async def run() -> None:
        pool = tasks_pool.Pool(dsn, {}, "pgq worker", 1)
        client = await pool.take()
        assert isinstance(client, AsyncClient)
        await client.admin.create_queue("kept")
        for payload in (1, "a", {"a": [1.5, None]}, None):
            body = b"raw" if payload is None else None
            await client.enqueue("kept", payload, body=body)
            [job] = await client.claim_job("kept")
            assert (job.payload, job.body) == (payload, body)
            assert await client.nack(job.job_id, job.lease_token, error="no", delay=timedelta(1))
        with pytest.raises(psycopg.Error):
            await client.claim_job("nowhere")
        await client.enqueue_batch("kept", list(range(30)))
        assert len(await client.claim_job("kept", max_jobs=20)) == 20
        assert [job.payload for job in await client.claim_job("kept")] == [20]
        await client.admin.drop_queue("kept")
        await pool.give(client)
        await pool.close()

    asyncio.run(run())
