"""Unique jobs, and the ways in which jobs end that are no ack."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import psycopg
import pytest
from psycopg import AsyncConnection

from pgq import AsyncClient, Client, EnqueueResult, JobInfo


def test_unique_jobs(client: Client) -> None:
    queue = client.admin.create_queue("mail", unique_until="claimed")
    assert queue.unique_until == "claimed"
    first = client.enqueue("mail", 1, unique_key="k", max_attempts=3)
    assert first == EnqueueResult(first.job_id, False)
    assert client.enqueue("mail", 2, unique_key="k") == EnqueueResult(first.job_id, True)
    made = client.enqueue_batch("mail", [3, 4], unique_keys=["k", None], max_attempts=2)
    assert made[0] == EnqueueResult(first.job_id, True)
    assert made[1].duplicate is False
    assert client.admin.alter_queue("mail", unique_until="removed").unique_until == "removed"
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        client.admin.alter_queue("mail", unique_until="never")


def test_what_becomes_of_a_job(mail: Client) -> None:
    number = mail.enqueue(
        "mail", {"to": "you"}, key="k", headers={"h": 1}, label="l", unique_key="u", priority=2
    ).job_id
    found = mail.get_job(number)
    assert isinstance(found, JobInfo)
    assert (found.job_id, found.queue, found.state) == (number, "mail", "ready")
    assert (found.payload, found.key, found.headers) == ({"to": "you"}, "k", {"h": 1})
    assert (found.label, found.unique_key, found.priority) == ("l", "u", 2)
    assert (found.attempt, found.max_attempts) == (0, 5)
    assert found.enqueued_at == found.due_at

    (job,) = mail.claim_job("mail")
    leased = mail.get_job(number)
    assert leased is not None
    assert (leased.state, leased.leased_until) == ("leased", job.leased_until)
    assert mail.release_job(number, job.lease_token) is True
    assert mail.release_job(number, job.lease_token) is False
    (job,) = mail.claim_job("mail")
    assert job.attempt == 1
    assert mail.reject_job(number, job.lease_token, error="no such address") is True
    assert mail.reject_job(number, job.lease_token) is False
    dead = mail.get_job(number)
    assert dead is not None
    assert (dead.state, dead.last_error) == ("dead", "no such address")
    assert mail.cancel_job(number) is False
    assert mail.jobs.redrive("mail", job_id=number).taken == 1
    assert mail.cancel_job(number) is True
    assert mail.get_job(number) is None
    assert [job.outcome for job in mail.jobs.archived_jobs("mail")] == ["cancelled"]


def test_a_job_that_waits(mail: Client) -> None:
    """Snoozed it has used no attempt; then it is due at once."""
    number = mail.enqueue("mail", 1).job_id
    (job,) = mail.claim_job("mail")
    assert mail.retry_job(number) is False
    assert mail.set_progress(number, job.lease_token, {"done": 1, "of": 2}) is True
    assert mail.release_job(number, job.lease_token, delay=timedelta(hours=1)) is True
    assert mail.set_progress(number, job.lease_token) is False
    found = mail.get_job(number)
    assert found is not None
    assert (found.state, found.attempt, found.snoozes) == ("delayed", 0, 1)
    assert (found.progress, found.progress_at) == ({"done": 1, "of": 2}, found.progress_at)
    assert found.progress_at is not None
    assert mail.jobs.peek_jobs("mail") == [found]
    assert mail.claim_job("mail") == []
    assert mail.retry_job(number) is True
    assert mail.retry_job(number) is False
    (job,) = mail.claim_job("mail")
    assert job.attempt == 1
    assert mail.set_progress(number, job.lease_token, progress=None) is True
    found = mail.get_job(number)
    assert found is not None
    assert (found.progress, found.snoozes) == (None, 1)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        mail.release_job(number, job.lease_token, delay=timedelta(days=15))
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        mail.set_progress(number, job.lease_token, "x" * 20000)
    assert mail.ack(number, job.lease_token)


def test_a_batch_is_released(mail: Client) -> None:
    mail.enqueue_batch("mail", [1, 2, 3])
    jobs = mail.claim_job("mail", max_jobs=3, lease=timedelta(hours=1))
    ids, token = [job.job_id for job in jobs], jobs[0].lease_token
    assert mail.ack(ids[0], token)
    assert sorted(mail.release_job_batch(ids, token)) == ids[1:]
    assert [job.attempt for job in mail.claim_job("mail", max_jobs=3)] == [1, 1]


def test_async(dsn: str) -> None:
    async def tour() -> None:
        async with await AsyncConnection.connect(dsn, autocommit=True) as connection:
            client = AsyncClient(connection)
            await client.admin.create_queue("mail")
            first = await client.enqueue("mail", 1, unique_key="k")
            assert (await client.enqueue("mail", 1, unique_key="k")).duplicate
            (job,) = await client.claim_job("mail")
            assert await client.release_job(job.job_id, job.lease_token)
            (job,) = await client.claim_job("mail")
            assert await client.reject_job(job.job_id, job.lease_token)
            found = await client.get_job(first.job_id)
            assert found is not None
            assert found.state == "dead"
            assert not await client.cancel_job(first.job_id)
            waiting = await client.enqueue("mail", 2, delay=timedelta(hours=1))
            assert await client.retry_job(waiting.job_id)
            (job,) = await client.claim_job("mail")
            assert await client.set_progress(job.job_id, job.lease_token, [1])
            assert await client.release_job(job.job_id, job.lease_token, delay=timedelta(hours=1))
            found = await client.get_job(waiting.job_id)
            assert found is not None
            assert (found.progress, found.snoozes) == ([1], 1)

    asyncio.run(tour())
