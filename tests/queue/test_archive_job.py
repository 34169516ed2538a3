"""archive_job: a job ends with an outcome and a result, which are kept whatever the queue says."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from support.clock import Clock
from support.queue import Job, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, contents, refused, unchanged


def archive(connection: Session, job: Job, **options: Any) -> bool:
    answer = connection.archive_job(job_id=job.job_id, lease_token=job.lease_token, **options)
    assert isinstance(answer, bool)
    return answer


def archived(connection: Session, queue: str) -> list[tuple[Any, ...]]:
    return connection.execute(
        "select job_id, outcome, result, payload, attempt from pgq.archived_jobs"
        " where queue = %s order by job_id",
        [queue],
    ).fetchall()


@pytest.mark.parametrize("setting", [True, False])
def test_outcome_and_result(connection: Session, setting: bool) -> None:
    """They are kept also where ack would keep nothing."""
    queue = new_queue(connection, archive=setting)
    ids = enqueue_many(connection, queue, 3)
    first, second, third = claim(connection, queue, 3)
    assert archive(connection, first)
    assert archive(connection, second, outcome="called off", result=Jsonb({"by": "user"}))
    assert archive(connection, third, outcome="ü" * 63, result=Jsonb(None))
    assert stats(connection, queue) == {}
    assert archived(connection, queue) == [
        (ids[0], "archived", None, 0, 1),
        (ids[1], "called off", {"by": "user"}, 1, 1),
        (ids[2], "ü" * 63, None, 2, 1),
    ]


def test_null_is_the_default(connection: Session, queue: str) -> None:
    job_id = enqueue(connection, queue)
    assert archive(connection, claim_one(connection, queue), outcome=None, result=None)
    assert archived(connection, queue) == [(job_id, "archived", None, None, 1)]


def test_once(connection: Session, queue: str) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert archive(connection, job, outcome="first") is True
    before = contents(connection)
    assert archive(connection, job, outcome="second") is False
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token) is False
    assert connection.nack(job_id=job.job_id, lease_token=job.lease_token) is False
    assert contents(connection) == before


def test_unknown_ids_and_stale_tokens(connection: Session, queue: str, clock: Clock) -> None:
    """They say no and archive nothing."""
    enqueue(connection, queue)
    slow = claim_one(connection, queue)
    clock.advance("31 seconds")
    quick = claim_one(connection, queue)
    before = contents(connection)
    assert archive(connection, slow) is False
    assert connection.archive_job(job_id=-1, lease_token=quick.lease_token) is False
    assert contents(connection) == before
    assert archive(connection, quick) is True


@pytest.mark.parametrize(
    ("sqlstate", "bad"),
    [
        ("22004", {"job_id": None}),
        ("22004", {"lease_token": None}),
        ("22023", {"outcome": ""}),
        ("22023", {"outcome": "x" * 64}),
        ("22023", {"outcome": "acked"}),
        ("22023", {"outcome": "expired"}),
        ("22023", {"outcome": "cancelled"}),
    ],
)
def test_refusals(connection: Session, queue: str, sqlstate: str, bad: dict[str, Any]) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    good = {"job_id": job.job_id, "lease_token": job.lease_token}
    with unchanged(connection):
        refused(sqlstate, connection.archive_job, **{**good, **bad})


def test_twice_in_one_transaction_and_rolled_back(
    connect: Connect, connection: Session, queue: str
) -> None:
    enqueue_many(connection, queue, 2)
    jobs = claim(connection, queue, 2)
    session = connect()
    for job in jobs:
        assert archive(session, job)
        assert not archive(session, job)
    session.rollback()
    assert archived(connection, queue) == []
    assert stats(connection, queue) == {"leased": 2}
