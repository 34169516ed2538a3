"""Jobs that come too early: their handler has them come again, without using an attempt."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.worker import AsyncWorker, Snooze, Worker
from support.waiting import PATIENCE
from support.waiting import wait_until as _wait_until
from support.working import working

Kind = type[Worker] | type[AsyncWorker]
As = Callable[[Callable[..., Any]], Callable[..., Any]]


def wait_until(condition: Callable[[], Any]) -> Any:
    return _wait_until(condition, 2 * PATIENCE)


@pytest.fixture
def client(connection: psycopg.Connection[Any]) -> Client:
    client = Client(connection)
    client.admin.create_queue("mail", max_attempts=2, backoff=timedelta(milliseconds=10))
    return client


class Early:
    """A handler for which the payloads from 10 on come too early, three times."""

    def __init__(self, delay: Any = timedelta(milliseconds=20)) -> None:
        self.delay = delay
        self.calls: list[tuple[int, int]] = []

    def one(self, payload: int, job: Any) -> None:
        """Raise it."""
        self.calls.append((payload, job.attempt))
        if payload >= 10 and self.calls.count((payload, 1)) <= 3:
            raise Snooze(self.delay)

    def many(self, payloads: list[int], jobs: list[Any]) -> dict[int, Any]:
        """Return it for some of a batch."""
        said: dict[int, Any] = {}
        for job in jobs:
            try:
                self.one(job.payload, job)
            except Snooze as snooze:
                said[job.job_id] = snooze
        return said


@pytest.mark.parametrize(
    "settings",
    [{}, {"prefetch": 4}, {"prefetch": 4, "idempotent": True}, {"batch": 4}, {"timeout": 60}],
    ids=["single", "prefetch", "idempotent", "batch", "timeout"],
)
def test_it_uses_no_attempt(
    dsn: str, client: Client, kind: Kind, as_handler: As, settings: dict[str, Any]
) -> None:
    """With two attempts each is snoozed three times, and done at its first one."""
    early = Early()
    worker = kind(dsn, concurrency=2)
    worker.handler("mail", **settings)(as_handler(early.many if "batch" in settings else early.one))
    client.enqueue_batch("mail", [1, 10, 2, 11, 12])
    with working(worker):
        wait_until(lambda: len(client.jobs.archived_jobs("mail")) == 5)
    assert sorted(early.calls) == sorted(
        [(1, 1), (2, 1), *[(payload, 1) for payload in (10, 11, 12)] * 4]
    )
    assert {(job.attempt, job.last_error) for job in client.jobs.archived_jobs("mail")} == {
        (1, None)
    }


@pytest.mark.parametrize("delay", [timedelta(hours=1), 3600])
def test_it_is_counted_and_told(
    dsn: str, client: Client, kind: Kind, as_handler: As, delay: Any, caplog: Any
) -> None:
    caplog.set_level(logging.INFO, "pgq.worker")
    heard: list[str] = []

    class Hook:
        def begin(self, source: str, jobs: Any) -> None: ...

        def end(self, begun: Any, source: str, outcomes: Any, seconds: float, error: Any) -> None:
            heard.extend(word for _, word in outcomes)

    job_id = client.enqueue("mail", 10).job_id
    worker = kind(dsn, hooks=[Hook()])
    worker.handler("mail")(as_handler(Early(delay).one))
    with working(worker):
        wait_until(lambda: heard)
        wait_until(lambda: client.get_job(job_id).state == "delayed")  # type: ignore[union-attr]
    found = client.get_job(job_id)
    assert found is not None
    assert (found.snoozes, found.attempt, found.last_error) == (1, 0, None)
    [(waits,)] = client.connection.execute(
        "select %s - pgq._clock() > '59 minutes'", [found.due_at]
    ).fetchall()
    assert waits is True
    assert heard == ["snoozed"]
    [record] = [record for record in caplog.records if hasattr(record, "job_id")]
    assert (record.outcome, record.levelno) == ("snoozed", logging.INFO)  # type: ignore[attr-defined]


class Unsaid(Snooze):
    """Of a class whose `__init__` forgets that of its base."""

    def __init__(self) -> None: ...


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (lambda: Snooze(timedelta(days=15)), "the job would expire before it is due"),
        (lambda: Snooze(timedelta(seconds=-1)), 'argument "delay"'),
        (lambda: Snooze("some day"), "delay is 'some day': give a timedelta or s"),  # type: ignore[arg-type]
        (lambda: Snooze(object()), ": give a timedelta or seconds"),  # type: ignore[arg-type]
        (lambda: Snooze(float("inf")), "delay is inf, must be a length of time"),
        (Snooze, "missing 1 required positional argument"),
        (Unsaid, "Unsaid is no outcome"),
    ],
    ids=["expiry", "negative", "text", "object", "infinity", "class", "unsaid"],
)
@pytest.mark.parametrize("settings", [{}, {"batch": 2}], ids=["single", "batch"])
def test_what_cannot_be_is_a_failed_attempt(
    dsn: str,
    client: Client,
    kind: Kind,
    as_handler: As,
    raised: Callable[[], BaseException],
    error: str,
    settings: dict[str, Any],
) -> None:
    """The job is not kept until its lease runs out, and its last error says why."""

    def handle(payload: Any) -> None:
        raise raised()

    client.enqueue("mail", 1)
    worker = kind(dsn)
    worker.handler("mail", lease=600, **settings)(as_handler(handle))
    with working(worker):
        wait_until(lambda: client.jobs.dead_letters("mail"))
    [letter] = client.jobs.dead_letters("mail")
    assert letter.attempt == 2
    assert error in str(letter.last_error)
