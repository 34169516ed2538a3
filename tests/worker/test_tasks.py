"""Functions that are enqueued by their names, and run with their arguments."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pydantic
import pytest

import pgq
from pgq import AlreadyExists, Client
from pgq.worker import AsyncWorker, Handlers, RunningJob, Task, Tasks, Worker
from support.waiting import wait_until
from support.working import working

Kind = type[Worker] | type[AsyncWorker]


@dataclass
class Address:
    street: str
    number: int


class Model(pydantic.BaseModel):
    at: date


class Struct(msgspec.Struct):
    size: int


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail")
    return client


def done(client: Client, count: int) -> Callable[[], bool]:
    return lambda: len(client.jobs.archived_jobs("mail")) == count


def test_a_task_is_enqueued_and_run(dsn: str, client: Client, kind: Kind) -> None:
    """Two of one queue, and the plain function."""
    called: list[Any] = []
    tasks = Tasks()

    @tasks.task("mail")
    def send(to: str, subject: str = "hi") -> int:
        called.append(("send", to, subject))
        return len(to)

    @tasks.task("mail", name="bill")
    def charge(amount: Decimal, *, currency: str) -> None:
        called.append(("charge", amount, currency))

    assert send("ann") == 3
    first = send.enqueue(client, to="bob")
    send.enqueue(client, "cleo", subject="bye")
    charge.enqueue(client, Decimal("1.50"), currency="EUR")
    found = client.get_job(first.job_id)
    assert found is not None
    assert (found.payload, found.headers) == ({"to": "bob"}, {"task": send.name})
    with working(kind(dsn, tasks, concurrency=1)):
        wait_until(done(client, 3))
    assert sorted(called[1:], key=str) == [
        ("charge", Decimal("1.50"), "EUR"),
        ("send", "bob", "hi"),
        ("send", "cleo", "bye"),
    ]


def test_arguments_keep_their_types(dsn: str, client: Client, kind: Kind) -> None:
    given = {
        "address": Address("Elm", 3),
        "model": Model(at=date(2026, 1, 2)),
        "struct": Struct(7),
        "at": datetime(2026, 1, 2, 3, tzinfo=timezone.utc),
        "ids": [UUID(int=1)],
        "anything": {"a": [1]},
    }
    got: list[Any] = []
    tasks = Tasks()

    @tasks.task("mail")
    def keep(
        address: Address,
        model: Model,
        struct: Struct,
        at: datetime,
        ids: list[UUID],
        anything: Any,
        job: RunningJob | None = None,
    ) -> None:
        assert job is not None
        got.append(
            {
                "address": address,
                "model": model,
                "struct": struct,
                "at": at,
                "ids": ids,
                "anything": anything,
            }
        )
        got.append((job.queue, job.attempt))

    keep.enqueue(client, **given)  # type: ignore[arg-type]
    with working(kind(dsn, tasks)):
        wait_until(done(client, 1))
    assert got == [given, ("mail", 1)]


def test_coroutine_functions(dsn: str, client: Client) -> None:
    """Beside plain ones, and enqueued by an asynchronous client."""
    tasks = Tasks()
    called: list[str] = []

    @tasks.task("mail")
    async def send(to: str) -> None:
        await asyncio.sleep(0)
        called.append(to)

    @tasks.task("mail")
    def plain(to: str) -> None:
        called.append(to)

    async def enqueue() -> None:
        async with await pgq.connect_async(dsn) as other:
            await send.enqueue(other, to="ann")
            await plain.schedule(other, "hourly", timedelta(hours=1), to="all")

    asyncio.run(enqueue())
    plain.enqueue(client, to="bob")
    assert [one.schedule for one in client.schedules.list_schedules()] == ["hourly"]
    with working(AsyncWorker(dsn, tasks)):
        wait_until(done(client, 2))
    assert sorted(called) == ["ann", "bob"]


def test_an_enqueue_is_part_of_the_transaction(client: Client) -> None:
    with client.connection.transaction(force_rollback=True):
        _task().enqueue(client, 1)
        assert len(client.jobs.peek_jobs("mail")) == 1
    assert client.jobs.peek_jobs("mail") == []


def _keep(number: int) -> int:
    return number


def _task() -> Task[..., int]:
    task: Task[..., int] = Tasks().task("mail", name="keep", max_attempts=2)(_keep)
    return task


@pytest.mark.parametrize(
    ("args", "kwargs", "why"),
    [
        ((), {}, r"keep: missing a required argument: 'number'"),
        ((1,), {"other": 2}, r"keep: got an unexpected keyword argument 'other'"),
        ((1, 2), {}, r"keep: too many positional arguments"),
        (("one",), {}, r"do not fit keep: number: a whole number is wanted, not a text"),
        (({1},), {}, r"keep.number: set is not in JSON; make it a list"),
    ],
)
def test_wrong_arguments_are_refused_at_once(
    client: Client, args: Any, kwargs: Any, why: str
) -> None:
    with pytest.raises(TypeError, match=why):
        _task().enqueue(client, *args, **kwargs)
    with pytest.raises(TypeError, match=why):
        _task().schedule(client, "hourly", "@hourly", *args, **kwargs)
    assert client.jobs.peek_jobs("mail") == []


def test_what_is_no_client(client: Client) -> None:
    connection: Any = client.connection
    with pytest.raises(TypeError, match="client is a Session, must be"):
        _task().enqueue(connection, 1)
    with pytest.raises(TypeError, match="client is a Session, must be"):
        Tasks().create_queues(connection)


def test_options(client: Client) -> None:
    task = _task()
    later = task.options(delay=60, unique_key="one").options(headers={"n": 1}, priority=3)
    job = client.get_job(later.enqueue(client, 5).job_id)
    assert job is not None
    assert (job.state, job.unique_key, job.priority) == ("delayed", "one", 3)
    assert (job.headers, job.max_attempts) == ({"n": 1, "task": "keep"}, 2)
    more = client.get_job(task.options(max_attempts=9).enqueue(client, 5).job_id)
    assert more is not None
    assert (more.max_attempts, more.headers) == (9, {"task": "keep"})
    with pytest.raises(TypeError, match="unexpected keyword argument 'time_zone'"):
        task.options(time_zone="UTC").enqueue(client, 5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'delay'"):
        task.options(delay=1).schedule(client, "daily", "@daily", 5)


def test_headers_of_every_enqueue(client: Client) -> None:
    tenant = "blue"
    task = Tasks(headers=lambda: {"tenant": tenant, "task": "no"}).task("mail")(_keep)
    jobs = [client.get_job(task.enqueue(client, 1).job_id)]
    tenant = "red"
    jobs.append(client.get_job(task.enqueue(client, 1).job_id))
    assert [job and job.headers for job in jobs] == [
        {"tenant": "blue", "task": "_keep"},
        {"tenant": "red", "task": "_keep"},
    ]


def test_a_schedule(dsn: str, client: Client, kind: Kind, clock: Any) -> None:
    tasks = Tasks()
    called: list[int] = []
    task = tasks.task("mail", name="keep")(_noting(called))
    daily = task.options(time_zone="Europe/Berlin")
    made = daily.schedule(client, "nightly", "0 3 * * *", number=4)
    assert daily.schedule(client, "nightly", "0 3 * * *", number=4) == made
    assert (made.cron, made.time_zone, made.payload) == (
        "0 3 * * *",
        "Europe/Berlin",
        {"number": 4},
    )
    with pytest.raises(AlreadyExists):
        daily.schedule(client, "nightly", "0 3 * * *", number=5)
    when: Any = 5
    with pytest.raises(TypeError, match="when is 5: give a cron expression or a timedelta"):
        task.schedule(client, "other", when, number=5)
    clock.advance(timedelta(days=1))
    assert client.schedules.run_schedules()
    with working(kind(dsn, tasks)):
        wait_until(done(client, 1))
    assert called == [4]


def _noting(called: list[int]) -> Callable[[int], None]:
    def keep(number: int) -> None:
        called.append(number)

    return keep


NO_TASK = "the job has no header task: set it to the name of one of the tasks"


@pytest.mark.parametrize(
    ("headers", "payload", "said"),
    [
        ({"task": "later"}, {}, "there is no task 'later' here"),
        ({"task": 7}, {}, "there is no task 7 here"),
        (None, {}, NO_TASK),
        ({"trace": 1}, {}, NO_TASK),
        ({"task": "keep"}, {"number": 1, "of_the_next_release": True}, "here"),
    ],
)
def test_what_is_not_known_here_is_given_back(
    dsn: str,
    client: Client,
    kind: Kind,
    caplog: pytest.LogCaptureFixture,
    headers: Any,
    payload: Any,
    said: str,
) -> None:
    """An old program leaves the jobs of a new one alone, though it is their last attempt.

    The job says why.
    """
    called: list[int] = []
    tasks = Tasks()
    tasks.task("mail", name="keep")(_noting(called))
    job_id = client.enqueue("mail", payload, headers=headers, max_attempts=1).job_id

    def given_back() -> bool:
        found = client.get_job(job_id)
        return found is not None and found.snoozes == 1

    with working(kind(dsn, tasks)):
        wait_until(given_back)
    job = client.get_job(job_id)
    assert job is not None
    assert (job.state, job.attempt, called) == ("delayed", 0, [])
    [record] = [one for one in caplog.records if getattr(one, "job_id", None) == job_id]
    assert record.levelno == logging.WARNING
    assert f"{said}, given back for 30 s" in record.getMessage()
    assert (job.last_error or "").endswith(f"{said}, given back for 30 s")


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ({"number": "x"}, "number: a whole number is wanted, not a text"),
        ({}, "number: is missing"),
        ([1], "the arguments of keep are no object"),
    ],
)
def test_what_does_not_fit_is_a_dead_letter(
    dsn: str, client: Client, kind: Kind, payload: Any, error: str
) -> None:
    tasks = Tasks()
    tasks.task("mail", name="keep")(_keep)
    client.enqueue("mail", payload, headers={"task": "keep"})
    with working(kind(dsn, tasks)):
        wait_until(lambda: client.jobs.dead_letters("mail"))
    assert error in (client.jobs.dead_letters("mail")[0].last_error or "")


def test_each_task_has_its_timeout(dsn: str, client: Client) -> None:
    tasks = Tasks()

    @tasks.task("mail", timeout=0.1, max_attempts=1)
    async def slow() -> None:
        await asyncio.sleep(3600)

    @tasks.task("mail")
    def quick() -> None:
        pass

    slow.enqueue(client)
    quick.enqueue(client)
    with working(AsyncWorker(dsn, tasks)):
        wait_until(lambda: client.jobs.dead_letters("mail"))
        wait_until(done(client, 1))
    assert "HandlerTimeout" in (client.jobs.dead_letters("mail")[0].last_error or "")


def test_results(dsn: str, client: Client, kind: Kind) -> None:
    client.admin.alter_queue("mail", keep_results=True)
    tasks = Tasks()
    job = tasks.task("mail")(_keep).enqueue(client, 5)
    with working(kind(dsn, tasks)):
        assert client.await_result(job.job_id).result == 5


def test_wrong_declarations() -> None:
    tasks = Tasks()
    wrong: Any = tasks.task
    with pytest.raises(TypeError, match="queue is <function _keep"):
        wrong(_keep)
    for function in (lambda *numbers: 1, lambda **numbers: 1, lambda number, /: 1):
        with pytest.raises(TypeError, match="has no name that an argument could be sent by"):
            tasks.task("mail")(function)
    with pytest.raises(TypeError, match="job needs a default, None"):
        tasks.task("mail")(lambda job: 1)
    with pytest.raises(TypeError, match="settings: a queue has no colour"):
        tasks.task("mail", settings={"colour": 1})(_keep)
    nonsense: Any = 5
    for declare in (tasks.task, tasks.handler):
        with pytest.raises(TypeError, match="middleware is 5, must be a list"):
            declare("other", middleware=nonsense)
        with pytest.raises(TypeError, match=r"middleware is \[5\], must be a list"):
            declare("other", middleware=[nonsense])
        with pytest.raises(TypeError, match="retry is 5, must be a RetryPolicy"):
            declare("other", retry=nonsense)
    with pytest.raises(TypeError, match="headers is 5, must be a function"):
        Tasks(headers=nonsense)
    tasks.task("mail", lease=5)(_keep)
    with pytest.raises(ValueError, match='queue "mail" has a task "_keep" already'):
        tasks.task("mail")(_keep)
    with pytest.raises(ValueError, match='with the first task of queue "mail"'):
        tasks.task("mail", name="other", lease=5)(_keep)
    with pytest.raises(ValueError, match='queue "mail" has a handler already'):
        tasks.handler("mail")(_keep)


@pytest.mark.parametrize("of_tasks", [False, True])
def test_queues_are_created_as_declared(dsn: str, client: Client, of_tasks: bool) -> None:
    handlers = Tasks()
    declare: Any = handlers.task if of_tasks else Handlers.handler.__get__(handlers)
    declare("orders", settings={"ordered": True, "max_attempts": 3})(_keep)
    declare("plain")(_keep)
    orders, plain = handlers.create_queues(client)
    assert (orders.queue, orders.ordered, orders.max_attempts) == ("orders", True, 3)
    assert (plain.queue, plain.ordered, plain.max_attempts) == ("plain", False, 5)

    async def again() -> list[pgq.Queue]:
        async with await pgq.connect_async(dsn) as other:
            return await handlers.create_queues(other)

    assert asyncio.run(again()) == [orders, plain]
    client.admin.alter_queue("orders", max_attempts=4)
    with pytest.raises(AlreadyExists):
        handlers.create_queues(client)
