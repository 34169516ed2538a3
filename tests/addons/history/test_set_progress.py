"""set_progress: a worker notes how far it has come, for get_job to show."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from support.clock import Clock
from support.notes import noted, set_progress, snooze
from support.queue import ack, claim_one, enqueue, new_queue
from support.session import Connect, Session, refused, row, unchanged

MOST = 16384
"""So many bytes a progress has at most, as jsonb."""


@pytest.mark.parametrize("progress", [{"done": 40, "of": 100}, [1, 2], "half", 0.5, 0, False, ""])
def test_what_is_noted(connection: Session, queue: str, progress: Any) -> None:
    """Any JSON; the job itself does not change."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    before = connection.get_job(job_id=job.job_id)
    assert (before.progress, before.progress_at) == (None, None)
    given_at = row(connection, "select pgq._clock()")[0]
    assert set_progress(connection, job, progress) is True
    found = connection.get_job(job_id=job.job_id)
    assert found.progress == progress
    assert given_at <= found.progress_at <= row(connection, "select pgq._clock()")[0]
    assert found._replace(progress=None, progress_at=None) == before
    assert ack(connection, job)


def test_null_of_json_is_not_none(connection: Session, queue: str) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert set_progress(connection, job, Jsonb(None)) is True
    kind = "select jsonb_typeof(progress) from pgq.get_job(%s)"
    assert row(connection, kind, [job.job_id]) == ("null",)
    assert set_progress(connection, job) is True
    assert row(connection, kind, [job.job_id]) == (None,)


def test_it_is_replaced(connection: Session, queue: str, clock: Clock) -> None:
    """By the next one, which may be none; when is noted each time. Snoozes stay."""
    number = enqueue(connection, queue)
    assert snooze(connection, claim_one(connection, queue), "0") is True
    job = claim_one(connection, queue, lease="1 day")
    last = row(connection, "select pgq._clock()")[0]
    for progress in ({"a": 1}, {"b": 2}, None, [3], None):
        clock.advance("1 minute")
        assert set_progress(connection, job, progress) is True
        found = connection.get_job(job_id=number)
        assert (found.snoozes, found.progress) == (1, progress)
        assert (found.progress_at - last).total_seconds() >= 60
        last = found.progress_at
    assert connection.set_progress(job_id=number, lease_token=job.lease_token) is True


def test_how_large_it_may_be(connection: Session, queue: str) -> None:
    """A text in an array: 8 bytes of it are not the text's."""
    number = enqueue(connection, queue)
    job = claim_one(connection, queue)
    size = "select pg_column_size(%s::jsonb)"
    largest = "x" * (MOST - 12)
    assert row(connection, size, [json.dumps([largest])]) == (MOST,)
    assert set_progress(connection, job, [largest]) is True
    with unchanged(connection):
        error = refused("22023", set_progress, connection, job, progress=[largest + "x"])
        assert f"Given: {MOST + 1}." in str(error.diag.message_detail)
        refused("22023", set_progress, connection, job, progress=list(range(10_000)))
    assert noted(connection, number) == (0, [largest])


@pytest.mark.parametrize("storage", ["extended", "external", "main"])
@pytest.mark.parametrize("kind", ["array", "object"])
def test_a_large_one_that_is_compressed(
    connection: Session, queue: str, storage: str, kind: str
) -> None:
    """A column that stores it in few bytes makes it no smaller."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    value = {"array": ["x" * 1_000_000], "object": {"a": "x" * 1_000_000}}[kind]
    connection.execute("drop table if exists public.drafts")
    connection.execute("create table public.drafts (progress jsonb)")
    connection.execute(
        f"alter table public.drafts alter column progress set storage {storage}".encode()
    )
    connection.execute("insert into public.drafts values (%s::jsonb)", [json.dumps(value)])
    call = "select pgq.set_progress(%s, %s, d.progress) from public.drafts as d"
    with unchanged(connection):
        refused("22023", lambda: connection.execute(call, [job.job_id, job.lease_token]))
    connection.execute("drop table public.drafts")


def test_a_job_of_somebody_else(connection: Session, queue: str, clock: Clock) -> None:
    """Nothing is noted, and what was stays."""
    number = enqueue(connection, queue)
    first = claim_one(connection, queue)
    assert set_progress(connection, first, "first") is True
    clock.advance("31 seconds")
    second = claim_one(connection, queue)
    with unchanged(connection):
        assert set_progress(connection, first, "late") is False
        assert set_progress(connection, first) is False
        assert connection.set_progress(job_id=number, lease_token=uuid4(), progress=1) is False
        assert connection.set_progress(job_id=2**62, lease_token=uuid4(), progress=1) is False
    assert noted(connection, number) == (0, "first")
    assert set_progress(connection, second, "second") is True
    assert ack(connection, second)
    with unchanged(connection):
        assert set_progress(connection, second, "late") is False


def test_a_lease_that_has_run_out(connection: Session, queue: str, clock: Clock) -> None:
    """It counts as long as nobody else got the job, but it is no longer for that."""
    number = enqueue(connection, queue)
    job = claim_one(connection, queue)
    clock.advance("31 seconds")
    assert set_progress(connection, job, 1) is True
    assert noted(connection, number) == (0, 1)
    assert connection.get_job(job_id=number).state == "ready"
    assert claim_one(connection, queue).attempt == 2


def test_it_stays(connection: Session, clock: Clock) -> None:
    """Over a nack, a release, a lease that runs out, the dead letter and its redrive."""
    queue = new_queue(connection, max_attempts=3, backoff="0")
    number = enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert set_progress(connection, job, "mine") is True

    def there() -> None:
        connection.cleanup()
        assert noted(connection, number)[1] == "mine"

    there()
    for give_back in (connection.nack, connection.release_job):
        assert give_back(job_id=number, lease_token=job.lease_token) is True
        there()
        job = claim_one(connection, queue)
        there()
    clock.advance("31 seconds")
    job = claim_one(connection, queue)
    assert job.attempt == 3
    there()
    assert connection.nack(job_id=number, lease_token=job.lease_token) is True
    assert connection.get_job(job_id=number).state == "dead"
    there()
    with unchanged(connection):
        assert set_progress(connection, job, "late") is False
    assert connection.redrive(queue=queue, job_id=number).taken == 1
    there()
    assert set_progress(connection, claim_one(connection, queue), "new") is True
    assert noted(connection, number) == (0, "new")


def test_of_each_job_its_own(connection: Session, queue: str) -> None:
    for name in ("a", "b", "c"):
        enqueue(connection, queue, name)
    jobs = [claim_one(connection, queue) for _ in range(3)]
    for job in jobs[:2]:
        assert set_progress(connection, job, job.payload) is True
    assert [noted(connection, job.job_id)[1] for job in jobs] == ["a", "b", None]


def test_what_is_refused(connection: Session, queue: str) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    with unchanged(connection):
        for null in ("job_id", "lease_token"):
            held = {"job_id": job.job_id, "lease_token": job.lease_token, "progress": 1}
            refused("22004", connection.set_progress, **{**held, null: None})


def test_in_one_transaction(connect: Connect, connection: Session, queue: str) -> None:
    number = enqueue(connection, queue)
    session = connect()
    job = claim_one(session, queue)
    assert set_progress(session, job, 1) is True
    session.execute("savepoint s")
    assert set_progress(session, job, 2) is True
    session.execute("rollback to savepoint s")
    assert noted(session, number) == (0, 1)
    assert ack(session, job)
    assert set_progress(session, job, 3) is False
    session.rollback()
    assert noted(connection, number) == (0, None)
