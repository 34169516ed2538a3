"""ack: a job ends once, and only by the worker that has it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, contents, refused, row, unchanged


def test_once(connection: Session, queue: str, clock: Clock) -> None:
    """The second time is a quiet no; the job never comes back."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token) is True
    after = contents(connection)
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token) is False
    assert connection.nack(job_id=job.job_id, lease_token=job.lease_token) is False
    assert contents(connection) == after
    clock.advance("1 hour")
    assert claim(connection, queue) == []
    assert stats(connection, queue) == {}


def test_archive_keeps_what_it_was(connection: Session, queue: str) -> None:
    enqueue(connection, queue, {"n": 1}, label="l", key="k", headers={"h": "1"})
    first = claim_one(connection, queue)
    connection.nack(
        job_id=first.job_id, lease_token=first.lease_token, delay="0", error="at first it failed"
    )
    job = claim_one(connection, queue)
    [before] = row(connection, "select pgq._clock()")
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    [after] = row(connection, "select pgq._clock()")
    columns = (
        "job_id, outcome, attempt, enqueued_at, result, last_error, label, key, headers,"
        " payload, body, ended_at"
    )
    *found, ended_at = row(
        connection, f"select {columns} from pgq.archived_jobs where queue = %s", [queue]
    )
    assert found == [
        job.job_id,
        "acked",
        2,
        job.enqueued_at,
        None,
        "at first it failed",
        "l",
        "k",
        {"h": "1"},
        {"n": 1},
        None,
    ]
    assert before <= ended_at <= after


def test_archive_switched_off(connection: Session) -> None:
    queue = new_queue(connection, archive=False)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    assert row(connection, "select count(*) from pgq.archived_jobs where queue = %s", [queue]) == (
        0,
    )


def test_a_stale_token_changes_nothing(connection: Session, queue: str, clock: Clock) -> None:
    """The worker that lost its lease cannot end what another one has now."""
    enqueue(connection, queue)
    slow = claim_one(connection, queue)
    clock.advance("31 seconds")
    quick = claim_one(connection, queue)
    before = contents(connection)
    assert connection.ack(job_id=slow.job_id, lease_token=slow.lease_token) is False
    assert contents(connection) == before
    assert connection.ack(job_id=quick.job_id, lease_token=quick.lease_token) is True


def test_a_lease_that_ran_out_counts_until_somebody_else_claims(
    connection: Session, queue: str, clock: Clock
) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    clock.advance("1 hour")
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token) is True


def test_wrong_tokens(connection: Session, queue: str) -> None:
    enqueue_many(connection, queue, 2)
    enqueue(connection, queue, priority=9)
    first, second = claim_one(connection, queue), claim_one(connection, queue)
    [(waiting,)] = connection.execute(
        "select job_id from pgq.job as j inner join pgq.queue as q using (queue_id)"
        " where q.queue = %s and j.attempt = 0",
        [queue],
    ).fetchall()
    before = contents(connection)
    for job_id, token in (
        (first.job_id, uuid4()),
        (first.job_id, second.lease_token),
        (waiting, first.lease_token),
        (-1, first.lease_token),
        (9223372036854775807, first.lease_token),
    ):
        assert connection.ack(job_id=job_id, lease_token=token) is False
    assert contents(connection) == before


def test_after_nack_there_is_nothing_to_ack(connection: Session, queue: str) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token) is False
    assert stats(connection, queue) == {"ready": 1}


@pytest.mark.parametrize("bad", [{"job_id": None}, {"lease_token": None}])
def test_refusals(connection: Session, queue: str, bad: dict[str, Any]) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    good = {"job_id": job.job_id, "lease_token": job.lease_token}
    with unchanged(connection):
        refused("22004", connection.ack, **{**good, **bad})


def test_twice_in_one_transaction_and_rolled_back(
    connect: Connect, connection: Session, queue: str
) -> None:
    enqueue_many(connection, queue, 2)
    jobs = claim(connection, queue, 2)
    session = connect()
    for job in jobs:
        assert session.ack(job_id=job.job_id, lease_token=job.lease_token)
        assert not session.ack(job_id=job.job_id, lease_token=job.lease_token)
    session.rollback()
    assert stats(connection, queue) == {"leased": 2}
    for job in jobs:
        assert session.ack(job_id=job.job_id, lease_token=job.lease_token)
    session.commit()
    assert stats(connection, queue) == {}
