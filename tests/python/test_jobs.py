"""Queues and their jobs."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone

import psycopg
import pytest

from pgq import (
    Client,
    EnqueueResult,
    Queue,
)


def test_queue_settings_arrive_and_return(client: Client) -> None:
    queue = client.admin.create_queue(
        "mail",
        lease=timedelta(seconds=5),
        delay=timedelta(seconds=1),
        job_ttl=timedelta(days=2),
        backoff=timedelta(seconds=2),
        backoff_max=timedelta(minutes=1),
        backoff_jitter=0.0,
        archive=False,
        notify=True,
        no_limit=["max_attempts", "retention"],
    )
    assert isinstance(queue, Queue)
    assert (queue.lease, queue.max_attempts, queue.delay) == (
        timedelta(seconds=5),
        None,
        timedelta(seconds=1),
    )
    assert (queue.job_ttl, queue.retention) == (timedelta(days=2), None)
    assert queue.backoff == timedelta(seconds=2)
    assert (queue.backoff_max, queue.backoff_jitter) == (timedelta(minutes=1), 0.0)
    assert (queue.archive, queue.notify, queue.paused) == (False, True, False)
    assert client.admin.list_queues() == [queue]
    altered = client.admin.alter_queue(
        "mail",
        lease=timedelta(seconds=9),
        max_attempts=3,
        delay=timedelta(0),
        job_ttl=timedelta(days=3),
        retention=timedelta(days=1),
        backoff=timedelta(seconds=1),
        backoff_max=timedelta(seconds=30),
        backoff_jitter=0.5,
        archive=True,
        notify=False,
    )
    assert (altered.lease, altered.max_attempts, altered.archive) == (timedelta(seconds=9), 3, True)
    assert (altered.job_ttl, altered.retention) == (timedelta(days=3), timedelta(days=1))
    assert client.admin.alter_queue("mail", no_limit=["max_attempts"]).max_attempts is None
    client.admin.drop_queue("mail")
    assert client.admin.list_queues() == []


def test_none_in_the_place_of_a_required_argument_is_refused(mail: Client) -> None:
    with pytest.raises(psycopg.errors.NullValueNotAllowed):
        mail.ack(None, uuid.uuid4())  # type: ignore[arg-type]
    with pytest.raises(psycopg.errors.NullValueNotAllowed):
        mail.ack_batch(None, uuid.uuid4())  # type: ignore[arg-type]


def test_job_is_claimed_and_acked(mail: Client) -> None:
    enqueued = mail.enqueue("mail", {"to": "you"}, label="a", headers={"h": 1}, key="k", priority=3)
    number = enqueued.job_id
    assert enqueued == EnqueueResult(number, False)
    (job,) = mail.claim_job("mail", lease=timedelta(minutes=1))
    assert (job.job_id, job.attempt, job.priority) == (number, 1, 3)
    assert (job.payload, job.label, job.headers, job.key) == ({"to": "you"}, "a", {"h": 1}, "k")
    assert job.body is None
    assert job.enqueued_at < job.leased_until
    assert mail.extend_lease(number, job.lease_token, lease=timedelta(minutes=2))
    assert not mail.ack(number, uuid.uuid4())
    assert mail.ack(number, job.lease_token)
    assert not mail.ack(number, job.lease_token)
    (archived,) = mail.jobs.archived_jobs("mail")
    assert (archived.job_id, archived.payload, archived.attempt) == (number, {"to": "you"}, 1)


def test_batches_of_jobs(mail: Client) -> None:
    enqueued = mail.enqueue_batch(
        "mail", [1, 2, 3, 4], labels=["a", "b", "a", "b"], headers=[{}] * 4, keys=["k"] * 4
    )
    numbers = [each.job_id for each in enqueued]
    assert enqueued == [EnqueueResult(number, False) for number in numbers]
    assert numbers == sorted(numbers)
    assert [job.payload for job in mail.claim_job("mail", max_jobs=9, label="a")] == [1, 3]
    jobs = mail.claim_job("mail", max_jobs=9)
    token = jobs[0].lease_token
    ids = [job.job_id for job in jobs]
    assert ids == [numbers[1], numbers[3]]
    assert mail.extend_lease_batch(ids, token) == ids
    assert mail.nack_batch(ids, token, delay=timedelta(0), error="not now") == ids
    jobs = mail.claim_job("mail", max_jobs=9)
    assert [job.attempt for job in jobs] == [2, 2]
    token = jobs[0].lease_token
    assert mail.ack_batch([ids[0]], token) == [ids[0]]
    assert mail.archive_job_batch(ids, token, outcome="done", result={"n": 1}) == [ids[1]]
    assert {job.job_id: job.outcome for job in mail.jobs.archived_jobs("mail")}[ids[1]] == "done"


def test_bodies_delays_and_times(mail: Client) -> None:
    mail.enqueue("mail", body=b"\x01", delay=timedelta(hours=1))
    mail.enqueue("mail", body=b"\x02", run_at=datetime.now(timezone.utc) + timedelta(hours=1))
    mail.enqueue_batch("mail", bodies=[b"\x03"])
    (job,) = mail.claim_job("mail", max_jobs=5)
    assert job.body == b"\x03"
    (stats,) = mail.monitor.queue_stats("mail")
    assert (stats.ready, stats.leased, stats.delayed, stats.dead) == (0, 1, 2, 0)
    assert stats.oldest_ready_at is None


def test_failures_end_in_the_dead_letters_and_return(client: Client) -> None:
    client.admin.create_queue("mail", max_attempts=1)
    number = client.enqueue("mail", {"to": "nobody"}).job_id
    (job,) = client.claim_job("mail")
    assert client.nack(number, job.lease_token, error="no such address")
    (dead,) = client.jobs.dead_letters("mail")
    assert (dead.job_id, dead.last_error, dead.attempt) == (number, "no such address", 1)
    assert dead.payload == {"to": "nobody"}
    assert client.jobs.redrive("mail", job_id=number).taken == 1
    assert client.jobs.redrive("mail", all_jobs=True).taken == 0
    (job,) = client.claim_job("mail")
    assert client.nack(number, job.lease_token)
    assert client.jobs.purge_queue("mail", dead_only=True).taken == 1
    assert client.jobs.purge_queue("mail", all_jobs=True).taken == 0
    for unclear in (client.jobs.redrive, client.jobs.purge_queue):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            unclear("mail")


def test_job_is_archived_with_its_result(client: Client) -> None:
    client.admin.create_queue("mail", archive=False)
    client.enqueue("mail", {})
    (job,) = client.claim_job("mail")
    assert client.archive_job(job.job_id, job.lease_token, outcome="sent", result=[1, {"a": 2}])
    (archived,) = client.jobs.archived_jobs("mail")
    assert (archived.outcome, archived.result) == ("sent", [1, {"a": 2}])


def test_pause_and_resume(mail: Client) -> None:
    mail.enqueue("mail", {})
    mail.admin.pause_queue("mail")
    assert mail.claim_job("mail") == []
    assert mail.admin.list_queues()[0].paused
    mail.admin.resume_queue("mail")
    assert len(mail.claim_job("mail")) == 1


def test_idempotency_keys(client: Client) -> None:
    queue = client.admin.create_queue("mail", idempotency_window=timedelta(hours=1))
    assert queue.idempotency_window == timedelta(hours=1)
    first = client.enqueue("mail", "a", idempotency_key="1")
    assert client.enqueue("mail", "b", idempotency_key="1") == EnqueueResult(
        first.job_id, duplicate=True
    )
    batch = client.enqueue_batch("mail", ["a", "b", "c"], idempotency_keys=["2", None, "1"])
    assert [result.duplicate for result in batch] == [False, False, True]
    assert batch[2].job_id == first.job_id
    altered = client.admin.alter_queue("mail", idempotency_window=timedelta(days=1))
    assert altered.idempotency_window == timedelta(days=1)
    assert client.enqueue("mail", "a", idempotency_key="1").duplicate is True


def test_dead_letters_page_by_page(client: Client) -> None:
    client.admin.create_queue("work", max_attempts=1)
    client.enqueue_batch("work", [1, 2, 3, 4])
    for job in client.claim_job("work", max_jobs=4):
        client.nack(job.job_id, job.lease_token, error="no")
    first = client.jobs.fetch_dead_letters("work", max_jobs=3)
    last = first[-1]
    rest = client.jobs.fetch_dead_letters(
        "work", after_died_at=last.died_at, after_job_id=last.job_id
    )
    assert [letter.payload for letter in (*first, *rest)] == [1, 2, 3, 4]
    assert client.jobs.purge_queue("work", job_id=first[0].job_id).taken == 1
    assert client.jobs.purge_queue("work", died_before=last.died_at).taken == 1
    assert client.jobs.redrive("work", all_jobs=True, max_jobs=5, per_second=0.5).taken == 2
    assert [job.payload for job in client.claim_job("work", max_jobs=2)] == [3]
