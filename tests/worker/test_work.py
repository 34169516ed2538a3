"""What a worker makes of its jobs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgq import Client, UnknownQueue
from pgq.worker import AsyncWorker, Handlers, Reject, Release, Retry, RunningJob, Worker
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_until(condition: Callable[[], Any]) -> None:
    _wait_until(condition, 2 * PATIENCE)


MOMENT = timedelta(milliseconds=10)


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", max_attempts=3, backoff=MOMENT)
    return client


def outcomes(client: Client) -> dict[int, str]:
    return {job.job_id: job.outcome for job in client.jobs.archived_jobs("mail")}


def test_jobs_are_done_once(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    done: list[Any] = []
    ids = {job.job_id for job in client.enqueue_batch("mail", list(range(200)))}
    worker = kind(dsn, concurrency=4)
    worker.handler("mail")(as_handler(done.append))
    with working(worker):
        wait_until(lambda: len(outcomes(client)) == 200)
        client.enqueue("mail", "later")
        wait_until(lambda: len(done) == 201)
    assert sorted(done[:200]) == list(range(200))
    assert ids <= outcomes(client).keys()
    assert {*outcomes(client).values()} == {"acked"}
    assert [job.attempt for job in client.jobs.archived_jobs("mail")] == [1] * 201


def test_what_fails_is_tried_again(
    dsn: str, client: Client, kind: Kind, as_handler: As, caplog: pytest.LogCaptureFixture
) -> None:
    # what pytest keeps of the log has to be UTF-8
    caplog.set_level(logging.CRITICAL, "pgq.worker")
    attempts: list[int] = []

    def handle(payload: Any, job: Any) -> None:
        attempts.append(job.attempt)
        if job.attempt < 3:
            raise RuntimeError("no \0 luck \ud800")

    worker = kind(dsn)
    worker.handler("mail")(as_handler(handle))
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: outcomes(client))
    assert attempts == [1, 2, 3]
    [job] = client.jobs.archived_jobs("mail")
    assert job.last_error == "RuntimeError: no \\0 luck \\ud800"


def test_what_always_fails_is_a_dead_letter(
    dsn: str, client: Client, kind: Kind, as_handler: As, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(payload: Any) -> None:
        raise SystemExit(3)

    worker = kind(dsn)
    worker.handler("mail")(as_handler(handle))
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: client.jobs.dead_letters("mail"))
    [letter] = client.jobs.dead_letters("mail")
    assert (letter.attempt, letter.last_error) == (3, "SystemExit: 3")
    records = [record for record in caplog.records if hasattr(record, "job_id")]
    assert [(r.queue, r.attempt, r.outcome) for r in records] == [  # type: ignore[attr-defined]
        ("mail", 1, "failed"),
        ("mail", 2, "failed"),
        ("mail", 3, "failed"),
    ]
    assert all(record.levelno == logging.WARNING for record in records)


def test_what_a_handler_says_is_done(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    seen: list[str] = []

    def handle(payload: str, job: Any) -> None:
        seen.append(payload)
        if payload == "retry" and job.attempt == 1:
            raise Retry("busy", delay=0.01)
        if payload == "reject":
            raise Reject("never")
        if payload == "release" and seen.count("release") == 1:
            raise Release

    worker = kind(dsn, concurrency=1)
    worker.handler("mail")(as_handler(handle))
    client.enqueue_batch("mail", ["retry", "reject", "release"])
    with working(worker):
        wait_until(lambda: len(outcomes(client)) == 2)
    jobs = {job.payload: job for job in client.jobs.archived_jobs("mail")}
    assert (jobs["retry"].attempt, jobs["retry"].last_error) == (2, "busy")
    assert (jobs["release"].attempt, jobs["release"].last_error) == (1, None)
    [letter] = client.jobs.dead_letters("mail")
    assert (letter.payload, letter.attempt, letter.last_error) == ("reject", 1, "never")


@pytest.mark.parametrize("idempotent", [False, True])
def test_jobs_taken_in_advance(
    dsn: str, client: Client, kind: Kind, as_handler: As, idempotent: bool
) -> None:
    done: list[Any] = []

    def handle(payload: int) -> None:
        done.append(payload)
        if payload % 10 == 3 and done.count(payload) == 1:
            raise ValueError(payload)

    worker = kind(dsn, concurrency=2)
    worker.handler("mail", prefetch=7, idempotent=idempotent)(as_handler(handle))
    client.enqueue_batch("mail", list(range(100)))
    with working(worker):
        wait_until(lambda: len(outcomes(client)) == 100)
    assert sorted(done) == sorted([*range(100), *range(3, 100, 10)])


def test_batches(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    sizes: list[int] = []

    def handle(payloads: list[int], jobs: list[Any]) -> dict[int, Any]:
        sizes.append(len(payloads))
        assert [job.payload for job in jobs] == payloads
        return {
            job.job_id: Reject("odd") if job.payload == 5 else Retry("later", delay=0.01)
            for job in jobs
            if job.payload in (5, 6) and job.attempt == 1
        }

    worker = kind(dsn, concurrency=2)
    worker.handler("mail", batch=10)(as_handler(handle))
    client.enqueue_batch("mail", [*range(50), "text"])
    with working(worker):
        wait_until(lambda: len(outcomes(client)) == 49)
        wait_until(lambda: len(client.jobs.dead_letters("mail")) == 2)
    assert sum(sizes) == 51
    assert max(sizes) == 10
    errors = {letter.payload: letter.last_error for letter in client.jobs.dead_letters("mail")}
    assert errors == {
        5: "odd",
        "text": "the payload does not fit int: a whole number is wanted, not a text",
    }


def test_a_batch_that_fails(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    def handle(payloads: list[Any]) -> None:
        raise OSError("full")

    worker = kind(dsn)
    worker.handler("mail", batch=10)(as_handler(handle))
    client.enqueue_batch("mail", [1, 2, 3])
    with working(worker):
        wait_until(lambda: len(client.jobs.dead_letters("mail")) == 3)
    assert {letter.last_error for letter in client.jobs.dead_letters("mail")} == {"OSError: full"}


def test_queues_share_the_slots(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    client.admin.create_queue("calls")
    order: list[str] = []
    handlers = Handlers()
    handlers.handler("mail")(as_handler(lambda payload: order.append("mail")))
    handlers.handler("calls")(as_handler(lambda payload: order.append("calls")))
    client.enqueue_batch("mail", [1] * 40)
    client.enqueue_batch("calls", [1] * 5)
    with working(kind(dsn, handlers, concurrency=1)):
        wait_until(lambda: len(order) == 45)
    assert order.index("calls") < 3
    assert order[:12].count("calls") == 5


def test_only_some_queues(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    client.admin.create_queue("calls")
    handlers = Handlers()
    for queue in ("mail", "calls"):
        handlers.handler(queue)(as_handler(lambda payload: None))
    client.enqueue("mail", 1)
    client.enqueue("calls", 1)
    with working(kind(dsn, handlers, queues=["calls"])):
        wait_until(lambda: client.jobs.archived_jobs("calls"))
    assert not client.jobs.archived_jobs("mail")


def test_run_once(dsn: str, client: Client, kind: Kind) -> None:
    ran: list[int] = []
    worker = kind(dsn)
    if isinstance(worker, Worker):

        @worker.handler("mail")
        def handle(payload: Any, job: Any) -> None:
            assert job.run_once("send", lambda: ran.append(job.attempt) or "sent") == "sent"
            if job.attempt == 1:
                raise RuntimeError("after the effect")
    else:

        @worker.handler("mail")
        async def handle_in_task(payload: Any, job: Any) -> None:
            async def send() -> str:
                ran.append(job.attempt)
                return "sent"

            assert await job.run_once("send", send) == "sent"
            if job.attempt == 1:
                raise RuntimeError("after the effect")

    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: outcomes(client))
    assert ran == [1]


@pytest.mark.parametrize("batch", [None, 3])
def test_run_once_in_a_plain_function_beside_tasks(
    dsn: str, client: Client, batch: int | None
) -> None:
    """In its own thread, by the connections of the loop; errors of the effect arrive there."""
    client.admin.create_queue("other")
    worker = AsyncWorker(dsn, connections=1)
    ran: list[tuple[int, str]] = []
    refused: list[BaseException] = []

    @worker.handler("other")
    async def beside(payload: Any) -> None: ...

    def effects(job: RunningJob) -> None:
        def send() -> dict[str, int]:
            ran.append((job.attempt, threading.current_thread().name))
            return {"sent": 1}

        def fail() -> None:
            raise LookupError("not there")

        assert isinstance(job, RunningJob)
        assert job.run_once("send", send) == {"sent": 1}
        try:
            job.run_once("fail", fail, not_done=LookupError)
        except LookupError as error:
            refused.append(error)
        if job.attempt == 1:
            raise RuntimeError("after the effect")

    def one(payload: int, job: RunningJob) -> None:
        effects(job)

    def many(payloads: list[int], jobs: list[RunningJob]) -> None:
        effects(jobs[0])

    worker.handler("mail", batch=batch)(many if batch else one)
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: outcomes(client))
    assert ran == [(1, "pgq-handler")]
    assert len(refused) == 2


def test_run_once_in_a_coroutine_of_a_plain_function(dsn: str, client: Client) -> None:
    """One that only returns a coroutine, as a decorator makes it: that runs in the loop."""
    worker = AsyncWorker(dsn)
    ran: list[int] = []

    async def inner(payload: int, job: Any) -> None:
        async def send() -> None:
            ran.append(payload)

        await job.run_once("send", send)

    def outer(payload: int, job: Any) -> Any:
        return inner(payload, job)

    worker.handler("mail")(outer)
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: outcomes(client))
    assert ran == [1]


def test_plain_functions_run_beside_tasks(dsn: str, client: Client) -> None:
    worker = AsyncWorker(dsn)
    names: list[str] = []
    worker.handler("mail")(lambda payload: names.append(threading.current_thread().name))
    client.enqueue("mail", 1)
    with working(worker):
        wait_until(lambda: outcomes(client))
    assert names[0] == "pgq-handler"


def test_what_is_refused(dsn: str, client: Client) -> None:
    async def handle(payload: Any) -> None: ...

    worker = Worker(dsn)
    with pytest.raises(ValueError, match="no handler"):
        worker.run()
    worker.handler("mail")(handle)
    with pytest.raises(TypeError, match="coroutine function"):
        worker.run()
    with pytest.raises(ValueError, match="a handler already"):
        worker.handler("mail")(print)
    with pytest.raises(ValueError, match="exclude"):
        worker.handler("a", batch=2, prefetch=2)
    with pytest.raises(ValueError, match="must be 1 to"):
        worker.handler("a", batch=0)
    with pytest.raises(TypeError, match="must take a payload"):
        worker.handler("a")(lambda: None)
    for setting in ("poll", "grace", "heartbeat", "timeout"):
        with pytest.raises(TypeError, match=f"{setting} is '1': give a timedelta or seconds"):
            Worker(dsn, **{setting: "1"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="lease is True: give a timedelta or seconds"):
        worker.handler("other", lease=True)(lambda payload: None)
    with pytest.raises(TypeError, match="encoder is 3, must be a function"):
        Worker(dsn, encoder=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="concurrency"):
        Worker(concurrency=0)
    unknown = Worker(dsn)
    unknown.handler("nowhere")(lambda payload: None)
    with pytest.raises(UnknownQueue):
        unknown.run()


def test_claims_without_a_flush(dsn: str, client: Client, kind: Kind, as_handler: As) -> None:
    worker = kind(dsn)
    worker.handler("mail", flush_claims=False)(as_handler(lambda payload: None))
    client.enqueue_batch("mail", list(range(20)))
    with working(worker):
        wait_until(lambda: len(outcomes(client)) == 20)
    client.admin.create_queue("once", max_attempts=1)
    refused = Worker(dsn)
    refused.handler("once", flush_claims=False)(lambda payload: None)
    with pytest.raises(ValueError, match="max_attempts 1"):
        refused.run()
