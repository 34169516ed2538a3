"""Each kind of handler, as a worker would call it."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from pgq import Client, LeaseLost
from pgq.testing import work_off
from pgq.worker import Handlers, Reject, RunningJob

Connection = psycopg.Connection[Any]


def test_claims_are_those_of_the_handler(inner: Connection) -> None:
    client = Client(inner)
    client.enqueue("mail", 0)
    jobs = [client.enqueue("mail", n, label="x").job_id for n in (1, 2)]
    seen: list[Any] = []
    handlers = Handlers()

    @handlers.handler("mail", label="x", prefetch=5, lease=600)
    def send(payload: int, job: RunningJob) -> None:
        seen.extend(
            inner.execute(
                "select job_id, last_attempt is null, visible_at > now() + interval '9 minutes'"
                " from pgq.job where lease_token is not null order by 1"
            )
        )

    assert [one.job_id for one in work_off(handlers, inner)] == jobs
    # the second one has not begun when the first one has
    assert seen[:2] == [(jobs[0], False, True), (jobs[1], True, True)]


def test_results_are_written_by_the_encoder_of_the_client(inner: Connection) -> None:
    client = Client(inner, encoder=lambda value: sorted(value))
    client.admin.create_queue("sums", keep_results=True)
    job_id = client.enqueue("sums", {}).job_id
    handlers = Handlers()

    @handlers.handler("sums")
    def add(payload: Any) -> set[int]:
        return {2, 1}

    assert [one.result for one in work_off(handlers, client)] == [{1, 2}]
    found = client.get_result(job_id)
    assert found is not None
    assert found.result == [1, 2]


def test_batches_and_results(inner: Connection) -> None:
    client = Client(inner)
    client.admin.create_queue("sums", keep_results=True)
    jobs = [one.job_id for one in client.enqueue_batch("sums", [{"n": n} for n in (1, 2, 3)])]
    handlers = Handlers()

    @handlers.handler("sums", batch=10)
    def add(payloads: list[dict[str, int]], running: list[RunningJob]) -> dict[int, Any]:
        refused = Reject("too many")
        return {
            job.job_id: refused if payload["n"] == 3 else payload["n"] + 1
            for payload, job in zip(payloads, running)
        }

    done = work_off(handlers, inner)
    assert [(one.job_id, one.outcome, one.result) for one in done] == [
        (jobs[0], "done", 2),
        (jobs[1], "done", 3),
        (jobs[2], "rejected", None),
    ]
    assert str(done[2].error) == "too many"
    found = client.get_result(jobs[1])
    assert found is not None
    assert found.result == 3


def test_a_result_that_the_database_refuses_is_a_failed_attempt(inner: Connection) -> None:
    client = Client(inner)
    client.admin.create_queue("sums", keep_results=True)
    client.enqueue("sums", {})
    handlers = Handlers()

    @handlers.handler("sums")
    def add(payload: Any) -> str:
        return "a\0b"

    (attempt,) = work_off(handlers, inner)
    assert attempt.outcome == "failed"
    assert inner.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS


def test_a_payload_that_does_not_fit_is_rejected(inner: Connection) -> None:
    Client(inner).enqueue("mail", ["not", "a", "dict"])
    handlers = Handlers()

    @handlers.handler("mail")
    def send(payload: dict[str, int]) -> None: ...

    (attempt,) = work_off(handlers, inner)
    assert attempt.outcome == "rejected"
    assert "does not fit" in str(attempt.error)


def test_an_effect_runs_once(inner: Connection) -> None:
    Client(inner).enqueue("mail", {})
    ran: list[int] = []
    handlers = Handlers()

    @handlers.handler("mail")
    def send(payload: Any, job: RunningJob) -> None:
        job.run_once("mail", lambda: ran.append(job.attempt))
        if job.attempt == 1:
            raise OSError

    done = work_off(handlers, inner, until_empty=True)
    assert [one.outcome for one in done] == ["failed", "done"]
    assert ran == [1]


def test_a_timeout_leaves_the_handler_in_the_thread_of_the_test(inner: Connection) -> None:
    """Django's connections belong to threads."""
    Client(inner).enqueue("mail", {})
    handlers = Handlers()

    @handlers.handler("mail", timeout=60)
    def send(payload: Any) -> int:
        return threading.get_ident()

    assert [one.result for one in work_off(handlers, inner)] == [threading.get_ident()]


def test_a_lease_that_is_lost_raises_nothing(inner: Connection) -> None:
    client = Client(inner)
    client.enqueue("mail", {})
    handlers = Handlers()

    @handlers.handler("mail")
    def send(payload: Any, job: RunningJob) -> None:
        client.cancel_job(job.job_id)
        with pytest.raises(LeaseLost):
            job.run_once("mail", lambda: None)

    assert [one.outcome for one in work_off(handlers, inner)] == ["done"]
