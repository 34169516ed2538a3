"""Handlers say how far they have come; heartbeats store the last of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import psycopg
import pytest

import pgq
from pgq import Client, JobInfo
from pgq.worker import AsyncWorker, Worker
from pgq.worker._async import _supervisor as tasks_supervisor
from pgq.worker._sync import _supervisor as threads_supervisor
from support.session import Connect
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import working

Kind = type[Worker] | type[AsyncWorker]
Making = Callable[[Callable[..., Any]], Callable[..., Any]]
BEAT = 0.1


def wait_until(condition: Callable[[], Any]) -> Any:
    return _wait_until(condition, 2 * PATIENCE)


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail")
    return client


@pytest.fixture
def calls(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    """The calls of set_progress by the worker: of which job, and when."""
    calls: list[tuple[int, float]] = []
    owner: Any = Client if kind is Worker else pgq.AsyncClient
    original = owner.set_progress

    def noting(self: Any, job_id: int, *arguments: Any) -> Any:
        calls.append((job_id, time.monotonic()))
        return original(self, job_id, *arguments)

    monkeypatch.setattr(owner, "set_progress", noting)
    return calls


class Long:
    """Handlers of all kinds, which say something again and again until they are let go."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.jobs: list[Any] = []
        self.said = 0
        self.silent = False

    def say(self, jobs: list[Any]) -> None:
        if not self.silent:
            self.said += 1
            for job in jobs:
                job.set_progress({"of": job.payload, "said": self.said})

    def plain(self, _: Any, given: Any) -> None:
        jobs = given if isinstance(given, list) else [given]
        self.jobs.extend(jobs)
        while not self.open.wait(0.002):
            self.say(jobs)

    async def coroutine(self, _: Any, given: Any) -> None:
        jobs = given if isinstance(given, list) else [given]
        self.jobs.extend(jobs)
        while not self.open.is_set():
            await asyncio.sleep(0.002)
            self.say(jobs)

    def handler(self, kind: Kind) -> Callable[..., Any]:
        return self.plain if kind is Worker else self.coroutine


def look(client: Client, job_id: int) -> JobInfo:
    found = client.get_job(job_id)
    assert found is not None
    return found


@pytest.mark.parametrize("plain", [False, True], ids=["own", "plain"])
def test_the_last_value_is_stored_with_a_heartbeat(
    dsn: str, client: Client, kind: Kind, calls: list[Any], plain: bool
) -> None:
    """At most one for each heartbeat, though notices wake its connection much more often."""
    long = Long()
    client.admin.alter_queue("mail", notify=True)
    worker = kind(dsn, heartbeat=BEAT, concurrency=1)
    worker.handler("mail")(long.plain if plain else long.handler(kind))
    job_id = client.enqueue("mail", "a").job_id
    with working(worker):
        wait_until(lambda: look(client, job_id).progress)
        first = look(client, job_id)
        wait_until(lambda: client.enqueue("mail", "b") and len(calls) > 5)
        long.silent = True
        wait_until(lambda: look(client, job_id).progress == {"of": "a", "said": long.said})
        count, last = len(calls), look(client, job_id)
        time.sleep(3 * BEAT)
        assert len(calls) == count  # nothing was said since
        long.open.set()
        wait_until(lambda: client.jobs.archived_jobs("mail"))
    assert first.progress_at is not None
    assert last.progress_at is not None
    assert last.progress_at > first.progress_at
    assert calls[-1][1] - calls[0][1] > (len(calls) - 1) * BEAT / 2


@pytest.mark.parametrize("heartbeat", [3600, None])
def test_short_leases_have_it_stored_more_often(
    dsn: str, client: Client, kind: Kind, heartbeat: float | None
) -> None:
    """A third of a lease is enough, whatever the heartbeats of the worker."""
    long = Long()
    worker = kind(dsn, heartbeat=heartbeat)
    worker.handler("mail", lease=0.6)(long.handler(kind))
    job_id = client.enqueue("mail", "a").job_id
    with working(worker):
        wait_until(lambda: look(client, job_id).progress)
        said = look(client, job_id).progress
        wait_until(lambda: look(client, job_id).progress != said)
        long.open.set()


def test_a_batch(dsn: str, client: Client, kind: Kind) -> None:
    """Each job has its own, in one call of the handler."""
    long = Long()
    ids = [one.job_id for one in client.enqueue_batch("mail", ["a", "b", "c"])]
    worker = kind(dsn, heartbeat=BEAT)
    worker.handler("mail", batch=3)(long.handler(kind))
    with working(worker):
        wait_until(lambda: all(look(client, job_id).progress for job_id in ids))
        assert [look(client, job_id).progress["of"] for job_id in ids] == ["a", "b", "c"]
        long.open.set()


def test_prefetched_jobs(dsn: str, client: Client, kind: Kind, calls: list[Any]) -> None:
    """Only of the one that runs is anything stored, though the first goes on to talk."""
    ids = [one.job_id for one in client.enqueue_batch("mail", [1, 2])]
    go, second, seen = threading.Event(), threading.Event(), []

    def begin(payload: int, job: Any) -> bool:
        """Whether it is the second, which talks for the first."""
        seen.append(job)
        job.set_progress(payload)
        return payload == 2

    def thread(payload: int, job: Any) -> None:
        if begin(payload, job):
            second.set()
            while not go.wait(0.01):
                seen[0].set_progress("late")
                job.set_progress(2)

    async def task(payload: int, job: Any) -> None:
        if begin(payload, job):
            second.set()
            while not go.is_set():
                seen[0].set_progress("late")
                job.set_progress(2)
                await asyncio.sleep(0.01)

    worker = kind(dsn, heartbeat=BEAT, concurrency=1)
    worker.handler("mail", prefetch=2, idempotent=True, ack_after=600)(
        thread if kind is Worker else task
    )
    with working(worker):
        wait_until(lambda: second.is_set() and look(client, ids[1]).progress == 2)
        begun = len(calls)
        wait_until(lambda: len(calls) > begun + 3)
        assert {job_id for job_id, _ in calls[begun:]} == {ids[1]}
        assert look(client, ids[0]).progress in (None, 1)
        go.set()


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, float("nan"), [float("inf")], "a\0b", {"\ud800": 1}, {(1, 2): 3}, b"bytes"],
    ids=["object", "set", "nan", "infinity", "nul", "surrogate", "key", "bytes"],
)
def test_what_cannot_be_json_is_refused_at_once(
    dsn: str, client: Client, kind: Kind, as_handler: Making, value: Any
) -> None:
    """In the handler, so that its last error says where."""

    def handle(payload: Any, job: Any) -> None:
        with pytest.raises((TypeError, ValueError)):
            job.set_progress(value)
        job.set_progress({"a": [None, "\\u0000", 2**70, 0.5, "ü€"]})

    worker = kind(dsn)
    worker.handler("mail")(as_handler(handle))
    client.enqueue("mail", 1, max_attempts=1)
    with working(worker):
        wait_until(lambda: client.jobs.archived_jobs("mail") or client.jobs.dead_letters("mail"))
    assert client.jobs.dead_letters("mail") == []


def test_values_that_json_does_not_have(dsn: str, client: Client, kind: Kind) -> None:
    def encoder(value: Any) -> Any:
        return "a complex number" if isinstance(value, complex) else pgq.encode(value)

    long = Long()
    long.silent = True
    worker = kind(dsn, heartbeat=BEAT, encoder=encoder)
    worker.handler("mail")(long.handler(kind))
    job_id = client.enqueue("mail", 1).job_id
    with working(worker):
        [job] = wait_until(lambda: long.jobs)
        with pytest.raises(TypeError, match=r"progress\.at: naive datetime; give it a time zone"):
            job.set_progress({"at": datetime(2030, 1, 1)})
        job.set_progress({"on": date(2030, 1, 1), "number": 1j})
        said = {"on": "2030-01-01", "number": "a complex number"}
        wait_until(lambda: look(client, job_id).progress == said)
        long.open.set()


def test_values_arrive_as_they_were_said(dsn: str, client: Client, kind: Kind) -> None:
    """None takes back what was said."""
    long = Long()
    long.silent = True
    worker = kind(dsn, heartbeat=BEAT)
    worker.handler("mail")(long.handler(kind))
    job_id = client.enqueue("mail", 1).job_id
    with working(worker):
        [job] = wait_until(lambda: long.jobs)
        for value in ({"a": [None, "\\u0000", 2**70, 0.5, "ü€"]}, 0, False, "", None, [1]):
            job.set_progress(value)
            wait_until(lambda: look(client, job_id).progress == value)  # noqa: B023
        job.set_progress(None)
        stored = "select from pgq.job_note where progress is null"
        wait_until(lambda: client.connection.execute(stored).fetchall())
        long.open.set()


def test_what_the_database_refuses_holds_up_nothing(
    dsn: str, client: Client, kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    long = Long()
    long.silent = True
    worker = kind(dsn, heartbeat=BEAT)
    worker.handler("mail", lease=1.5)(long.handler(kind))
    job_id = client.enqueue("mail", 1).job_id
    with working(worker):
        [job] = wait_until(lambda: long.jobs)
        job.set_progress("x" * 20000)
        wait_until(lambda: "was not stored" in caplog.text)
        until = look(client, job_id).leased_until
        wait_until(lambda: look(client, job_id).leased_until != until)  # it is extended
        job.set_progress("short")
        wait_until(lambda: look(client, job_id).progress == "short")
        long.open.set()
    assert f"progress of job {job_id} was not stored" in caplog.text
    assert "heartbeats interrupted" not in caplog.text


def test_nothing_is_stored_after_a_lost_lease(
    dsn: str, client: Client, kind: Kind, calls: list[Any]
) -> None:
    """The next one has the job, and says something else; the old handler goes on to talk."""
    long = Long()
    worker = kind(dsn, heartbeat=BEAT, concurrency=1)
    # a thread, also beside tasks: it cannot be stopped
    worker.handler("mail", lease=1.5)(long.plain)
    job_id = client.enqueue("mail", "old").job_id
    with working(worker):
        wait_until(lambda: look(client, job_id).progress)
        [job] = long.jobs
        client.connection.execute(
            "update pgq.job set lease_token = gen_random_uuid() where job_id = %s", [job_id]
        )
        wait_until(lambda: job.lost)
        count, said = len(calls), long.said
        client.connection.execute("update pgq.job_note set progress = '\"new\"'")
        wait_until(lambda: long.said > said + 20)
        time.sleep(3 * BEAT)
        assert len(calls) == count
        assert look(client, job_id).progress == "new"
        long.open.set()


def test_a_database_without_it(
    dsn: str, client: Client, kind: Kind, caplog: pytest.LogCaptureFixture, calls: list[Any]
) -> None:
    """An older one, or a role that may not: the worker says so once, and works on."""
    long = Long()
    rename = "alter function pgq.{} rename to {}"
    client.connection.execute(rename.format("set_progress", "_set_progress").encode())
    try:
        worker = kind(dsn, heartbeat=BEAT)
        worker.handler("mail", lease=0.6)(long.handler(kind))
        job_id = client.enqueue("mail", 1).job_id
        with working(worker):
            wait_until(lambda: "stores no progress" in caplog.text)
            until = look(client, job_id).leased_until
            wait_until(lambda: look(client, job_id).leased_until != until)
            long.open.set()
            wait_until(lambda: client.jobs.archived_jobs("mail"))
    finally:
        client.connection.execute(rename.format("_set_progress", "set_progress").encode())
    assert caplog.text.count("stores no progress") == 1
    assert len(calls) == 1


def test_a_role_that_may_not(
    dsn: str,
    client: Client,
    kind: Kind,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may do all the rest, and does; after the grant that is named it stores progress."""
    for module in (tasks_supervisor, threads_supervisor):
        assert module.TRY_AGAIN == 60
        monkeypatch.setattr(module, "TRY_AGAIN", 0.05)
    role = "pgq_test_no_progress"
    try:
        client.connection.execute(f"create role {role}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    try:
        client.connection.execute(f"grant usage on schema pgq to {role}")
        client.connection.execute(f"grant execute on all functions in schema pgq to {role}")
        client.connection.execute(f"revoke execute on function pgq.set_progress from {role}")
        long = Long()
        worker = kind(dsn, heartbeat=BEAT, connect={"options": f"-c role={role}"})
        worker.handler("mail")(long.handler(kind))
        job_id = client.enqueue("mail", 1).job_id
        with working(worker):
            wait_until(lambda: "stores no progress" in caplog.text)
            [line] = [one for one in caplog.messages if "stores no progress" in one]
            client.connection.execute(line.partition("HINT: ")[2].encode())
            wait_until(lambda: look(client, job_id).progress is not None)
            long.open.set()
            wait_until(lambda: client.jobs.archived_jobs("mail"))
    finally:
        client.connection.execute(f"drop owned by {role}")
        client.connection.execute(f"drop role {role}")
    assert caplog.text.count("stores no progress") == 1
    assert "heartbeats interrupted" not in caplog.text


def test_it_waits_for_the_database(
    dsn: str, client: Client, kind: Kind, connect: Connect, calls: list[Any]
) -> None:
    """What was said while the connection of the heartbeats was lost is stored by the next one."""
    long = Long()
    long.silent = True
    worker = kind(dsn, heartbeat=BEAT)
    worker.handler("mail")(long.handler(kind))
    job_id = client.enqueue("mail", 1).job_id
    with working(worker):
        [job] = wait_until(lambda: long.jobs)
        with connect() as holder:
            holder.execute("lock table pgq.job_note")
            job.set_progress("said")
            wait_until(lambda: calls)
            holder.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'pgq worker: leases'"
                " and datname = current_database() and query ~ 'set_progress'"
            )
        wait_until(lambda: look(client, job_id).progress == "said")
        long.open.set()
