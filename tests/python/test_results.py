"""Results of jobs and the attempts before them, on the client's side."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import datetime, timedelta, timezone

import psycopg
import pytest

from pgq import AsyncClient, Client, Job, JobAttempt, JobResult, ResultTimeout
from support.session import Connect
from support.tasks import with_client

SHORT = timedelta(milliseconds=60)


@pytest.fixture
def sums(client: Client) -> Client:
    """A client with a queue that keeps results."""
    client.admin.create_queue("sums", keep_results=True, backoff=timedelta(0), max_attempts=3)
    return client


def claimed(client: Client, queue: str = "sums") -> Job:
    [job] = client.claim_job(queue)
    return job


def test_the_settings(client: Client) -> None:
    made = client.admin.create_queue(
        "mail",
        keep_results=True,
        unique_until="claimed",
        on_duplicate="postpone",
        debounce_max=timedelta(minutes=5),
    )
    assert (made.keep_results, made.on_duplicate) == (True, "postpone")
    assert made.debounce_max == timedelta(minutes=5)
    altered = client.admin.alter_queue(
        "mail", keep_results=False, debounce_max=timedelta(minutes=1)
    )
    assert (altered.keep_results, altered.on_duplicate) == (False, "postpone")
    assert altered.debounce_max == timedelta(minutes=1)
    assert client.admin.alter_queue("mail", no_limit=["debounce_max"]).debounce_max is None


def test_the_states_of_a_job(sums: Client) -> None:
    job_id = sums.enqueue("sums", 1).job_id
    assert sums.get_result(job_id) == JobResult("waiting", None, None, None)
    job = claimed(sums)
    assert sums.get_result(job_id).state == "leased"
    assert not sums.get_result(job_id).ended
    sums.archive_job(job_id, job.lease_token, result={"sum": 3})
    found = sums.get_result(job_id)
    assert (found.state, found.result, found.error, found.ended) == (
        "finished",
        {"sum": 3},
        None,
        True,
    )
    assert found.ended_at is not None
    assert sums.get_result(999999) == JobResult("gone", None, None, None)


def test_attempts_with_what_the_worker_says(sums: Client) -> None:
    began = datetime(2026, 11, 23, 8, tzinfo=timezone.utc)
    sums.enqueue_batch("sums", [1, 2])
    first, second = sums.claim_job("sums", max_jobs=2)
    told = {"worker": "w-1", "began_at": began}
    assert sums.nack(first.job_id, first.lease_token, error="one", **told)  # type: ignore[arg-type]
    both = [second.job_id]
    sums.nack_batch(both, second.lease_token, error="two", **told)  # type: ignore[arg-type]
    again = {job.job_id: job for job in sums.claim_job("sums", max_jobs=2)}
    token = again[first.job_id].lease_token
    sums.reject_job(first.job_id, token, error="three", **told)  # type: ignore[arg-type]
    history = sums.jobs.job_history(first.job_id)
    assert all(isinstance(one, JobAttempt) for one in history)
    assert [(one.attempt, one.outcome, one.error) for one in history] == [
        (2, "rejected", "three"),
        (1, "failed", "one"),
    ]
    assert {(one.worker, one.began_at) for one in history} == {("w-1", began)}
    [only] = sums.jobs.job_history(second.job_id)
    assert (only.error, only.worker, only.began_at) == ("two", "w-1", began)


def test_a_result_is_awaited(sums: Client, connect: Connect) -> None:
    other = Client(connect(autocommit=False))
    job_id = sums.enqueue("sums", 1).job_id

    def finish() -> None:
        with other.connection.transaction():
            job = claimed(other)
            other.archive_job(job_id, job.lease_token, result=[1, 2])

    timer = threading.Timer(0.2, finish)
    timer.start()
    found = sums.await_result(job_id, timeout=timedelta(seconds=30))
    timer.join()
    assert (found.state, found.result) == ("finished", [1, 2])


@pytest.mark.parametrize("how", ["failed", "cancelled", "gone"])
def test_every_end_is_returned(client: Client, how: str) -> None:
    client.admin.create_queue("sums", keep_results=how != "gone")
    job_id = client.enqueue("sums", 1).job_id
    if how == "cancelled":
        client.cancel_job(job_id)
    else:
        job = claimed(client)
        if how == "failed":
            client.reject_job(job_id, job.lease_token, error="no sum")
        else:
            client.ack(job_id, job.lease_token)
    found = client.await_result(job_id)
    assert found.state == how
    assert found.error == ("no sum" if how == "failed" else None)


def test_time_is_up(sums: Client) -> None:
    job_id = sums.enqueue("sums", 1).job_id
    began = time.monotonic()
    with pytest.raises(ResultTimeout) as caught:
        sums.await_result(job_id, timeout=SHORT)
    assert 0.06 <= time.monotonic() - began < 5
    assert isinstance(caught.value, TimeoutError)
    assert (caught.value.job_id, caught.value.state) == (job_id, "waiting")
    assert str(caught.value) == f"job {job_id} has not ended in time: it is waiting"
    assert sums.get_result(job_id).state == "waiting"
    with pytest.raises(ResultTimeout):
        sums.await_result(job_id, timeout=timedelta(0))


def test_it_looks_less_often(sums: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("pgq._sync._results.time.sleep", pauses.append)
    job_id = sums.enqueue("sums", 1).job_id
    original = Client.get_result

    def looked(client: Client, job_id: int) -> JobResult:
        found = original(client, job_id)
        return JobResult("gone", None, None, None) if len(pauses) == 8 else found

    monkeypatch.setattr(Client, "get_result", looked)
    sums.await_result(job_id)
    assert pauses == pytest.approx([0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0])


def test_not_within_a_transaction(sums: Client, connect: Connect) -> None:
    """The job would be seen by no worker before the commit."""
    client = Client(connect(autocommit=False))
    job_id = client.enqueue("sums", 1).job_id
    with pytest.raises(psycopg.ProgrammingError, match="await_result"):
        client.await_result(job_id)
    client.connection.commit()
    with pytest.raises(ResultTimeout):
        client.await_result(job_id, timeout=SHORT)
    assert client.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_in_asyncio(dsn: str) -> None:
    async def tour(client: AsyncClient) -> None:
        await client.admin.create_queue("sums", keep_results=True)
        first = (await client.enqueue("sums", 1)).job_id
        with pytest.raises(ResultTimeout):
            await asyncio.wait_for(client.await_result(first, timeout=SHORT), 30)
        [job] = await client.claim_job("sums")
        await client.archive_job(first, job.lease_token, result=7)
        assert (await client.await_result(first)).result == 7
        assert await client.jobs.job_history(first) == []

    with_client(dsn, tour)
