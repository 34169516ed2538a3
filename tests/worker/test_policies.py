"""When a failed job is tried again, and what handlers run within."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgq import Client, JobInfo
from pgq.worker import (
    AsyncWorker,
    Handlers,
    Reject,
    Retry,
    RetryPolicy,
    RunningJob,
    Tasks,
    Worker,
)
from support.clock import Clock
from support.waiting import wait_until
from support.working import working

Kind = type[Worker] | type[AsyncWorker]

TENANT: ContextVar[str] = ContextVar("tenant", default="none")


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", backoff=timedelta(minutes=30), backoff_jitter=0)
    return client


def _waits(client: Client, job_id: int, attempt: int) -> Callable[[], JobInfo | None]:
    def found() -> JobInfo | None:
        job = client.get_job(job_id)
        return job if job and (job.attempt, job.state) == (attempt, "delayed") else None

    return found


def _wait(client: Client, job: JobInfo) -> int:
    """Seconds that it waits, from the end of its last attempt on."""
    assert job.due_at is not None
    wait = job.due_at - client.jobs.job_history(job.job_id)[0].ended_at
    return round(wait.total_seconds())


@pytest.mark.parametrize("way", ["fails", "retries", "task"])
def test_the_delays_of_a_policy(
    dsn: str, client: Client, kind: Kind, as_handler: Any, clock: Clock, way: str
) -> None:
    """The last one counts for all further attempts."""
    policy = RetryPolicy(delays=[60, timedelta(minutes=10)])

    def fail(payload: Any = None) -> None:
        raise Retry("again") if way == "retries" else ValueError("no")

    handlers = Tasks()
    if way == "task":
        task: Any = handlers.task("mail", retry=policy)(fail)
        job_id = task.enqueue(client).job_id
    else:
        handlers.handler("mail", retry=policy)(as_handler(fail))
        job_id = client.enqueue("mail", 1).job_id
    with working(kind(dsn, handlers)):
        for attempt, seconds in enumerate([60, 600, 600], start=1):
            job = wait_until(_waits(client, job_id, attempt))
            assert job is not None
            assert _wait(client, job) == seconds
            clock.advance(timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("policy", "said", "wait", "broken"),
    [
        (RetryPolicy(delays=lambda attempt: attempt * 7), None, 7, False),
        (RetryPolicy(delays=lambda attempt: attempt * 7), 5, 5, False),
        (RetryPolicy(delays=lambda attempt: 1 // (attempt - 1)), None, 1800, True),
        (RetryPolicy(delays=lambda attempt: -1), None, 1800, True),
        (RetryPolicy(), None, 1800, False),
        (None, None, 20, False),
    ],
    ids=["function", "own", "raises", "negative", "empty", "of all"],
)
def test_the_delay_of_one_failure(
    dsn: str,
    client: Client,
    kind: Kind,
    as_handler: Any,
    caplog: pytest.LogCaptureFixture,
    policy: RetryPolicy | None,
    said: int | None,
    wait: int,
    broken: bool,
) -> None:
    def fail(payload: int) -> None:
        raise Retry("again", delay=said)

    handlers = Handlers(retry=RetryPolicy(delays=[20]))
    handlers.handler("mail", retry=policy)(as_handler(fail))
    job_id = client.enqueue("mail", 1).job_id
    with working(kind(dsn, handlers)):
        job = wait_until(_waits(client, job_id, 1))
    assert job is not None
    assert _wait(client, job) == wait
    assert ("a retry policy has failed" in caplog.text) == broken


def test_exceptions_that_no_attempt_can_help(
    dsn: str, client: Client, kind: Kind, as_handler: Any
) -> None:
    def fail(payload: int) -> None:
        raise KeyError("gone") if payload == 1 else ValueError("no")

    handlers = Handlers()
    handlers.handler("mail", retry=RetryPolicy(reject=(LookupError,)))(as_handler(fail))
    client.enqueue("mail", 1)
    other = client.enqueue("mail", 2).job_id
    with working(kind(dsn, handlers)):
        wait_until(_waits(client, other, 1))
        wait_until(lambda: client.jobs.dead_letters("mail"))
    [letter] = client.jobs.dead_letters("mail")
    assert (letter.payload, letter.attempt) == (1, 1)
    assert letter.last_error == "KeyError: 'gone'"


@pytest.mark.parametrize(
    ("settings", "error", "why"),
    [
        ({"delays": [1, -1]}, ValueError, r"delays\[1\] is -1"),
        ({"delays": ["1 s"]}, TypeError, r"delays\[0\] is '1 s': give a timedelta or seconds"),
        ({"delays": 5}, TypeError, "delays is 5, must be a list or a function"),
        ({"reject": ValueError}, TypeError, "must be a tuple of exceptions"),
        ({"reject": ("ValueError",)}, TypeError, "'ValueError' is not an exception class"),
    ],
)
def test_policies_that_make_no_sense(settings: Any, error: Any, why: str) -> None:
    with pytest.raises(error, match=why):
        RetryPolicy(**settings)


def _tenants(seen: list[Any]) -> Callable[[Any], Any]:
    @contextmanager
    def tenant(job: RunningJob) -> Iterator[None]:
        token = TENANT.set((job.headers or {})["tenant"])
        try:
            yield
        except ValueError as error:
            seen.append(str(error))
            raise Reject("by middleware") from error
        finally:
            TENANT.reset(token)
            seen.append("left")

    return tenant


@pytest.mark.parametrize("timeout", [None, 60])
@pytest.mark.parametrize("way", ["handler", "with job", "task"])
def test_middleware_is_around_the_handler(
    dsn: str, client: Client, kind: Kind, as_handler: Any, way: str, timeout: float | None
) -> None:
    """The same context manager for threads and for tasks; it may change what an error means."""
    seen: list[Any] = []

    def handle(payload: Any) -> None:
        seen.append((TENANT.get(), payload))
        if payload == 2:
            raise ValueError("two")

    def with_job(payload: Any, job: RunningJob) -> None:
        assert job.payload == payload
        handle(payload)

    def task(payload: int) -> None:
        handle(payload)

    handlers = Tasks(middleware=[_tenants(seen)])
    if way == "task":
        declared = handlers.task("mail", timeout=timeout)(task)
        for payload in (1, 2):
            declared.options(headers={"tenant": "blue"}).enqueue(client, payload)
    else:
        function = with_job if way == "with job" else handle
        handlers.handler("mail", timeout=timeout)(as_handler(function))
        client.enqueue_batch("mail", [1, 2], headers=[{"tenant": "blue"}] * 2)
    with working(kind(dsn, handlers, concurrency=1)):
        wait_until(lambda: client.jobs.dead_letters("mail"))
        wait_until(lambda: client.jobs.archived_jobs("mail"))
    assert seen == [("blue", 1), "left", ("blue", 2), "two", "left"]
    assert client.jobs.dead_letters("mail")[0].last_error == "by middleware"


def test_middleware_of_a_batch_gets_its_jobs(
    dsn: str, client: Client, kind: Kind, as_handler: Any
) -> None:
    seen: list[Any] = []

    @contextmanager
    def count(jobs: list[RunningJob]) -> Iterator[None]:
        seen.append([job.payload for job in jobs])
        yield

    handlers = Handlers()
    handlers.handler("mail", batch=10, middleware=[count])(as_handler(seen.append))
    client.enqueue_batch("mail", [1, 2])
    with working(kind(dsn, handlers)):
        wait_until(lambda: len(client.jobs.archived_jobs("mail")) == 2)
    assert seen == [[1, 2], [1, 2]]


def test_asynchronous_middleware(dsn: str, client: Client) -> None:
    """The first one is the outermost; both kinds go together around a coroutine function."""
    seen: list[str] = []

    @asynccontextmanager
    async def outer(job: Any) -> AsyncIterator[None]:
        seen.append("outer")
        yield
        await asyncio.sleep(0)
        seen.append("outer left")

    @contextmanager
    def inner(job: Any) -> Iterator[None]:
        seen.append("inner")
        yield
        seen.append("inner left")

    tasks = Tasks(middleware=[outer])

    @tasks.task("mail", middleware=[inner])
    async def send(to: str) -> None:
        await asyncio.sleep(0)
        seen.append(to)

    send.enqueue(client, to="ann")
    with working(AsyncWorker(dsn, tasks)):
        wait_until(lambda: client.jobs.archived_jobs("mail"))
    assert seen == ["outer", "inner", "ann", "inner left", "outer left"]


def test_middleware_that_does_not_fit_is_a_failure(dsn: str, client: Client) -> None:
    @asynccontextmanager
    async def only_for_tasks(job: Any) -> AsyncIterator[None]:
        yield

    @contextmanager
    def nothing(job: Any) -> Iterator[None]:
        yield

    async def later(payload: int) -> None: ...

    def hides(payload: int) -> Any:
        return later(payload)

    handlers = Handlers()
    client.admin.create_queue("other")
    handlers.handler("mail", middleware=[only_for_tasks])(lambda payload: None)
    handlers.handler("other", middleware=[nothing])(hides)
    jobs = [client.enqueue(queue, 1, max_attempts=1).job_id for queue in ("mail", "other")]
    with working(AsyncWorker(dsn, handlers)):
        wait_until(lambda: len(client.jobs.dead_letters()) == 2)
    errors = {letter.job_id: letter.last_error or "" for letter in client.jobs.dead_letters()}
    assert "needs a handler that is a coroutine" in errors[jobs[0]]
    assert "must be a coroutine function itself" in errors[jobs[1]]
