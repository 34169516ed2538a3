"""fetch_archived_jobs: the jobs that ended last, read from the end of the archive."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from plans.counting import Reader
from support.clock import Clock
from support.queue import claim, claim_one, enqueue, new_queue
from support.session import Session, refused, unchanged


def fill(connection: Session, queue: str, number: int) -> list[int]:
    """Finished jobs, each in the archive behind those before."""
    ids: list[int] = []
    while len(ids) < number:
        payloads = [Jsonb({"n": n}) for n in range(min(5000, number - len(ids)))]
        connection.enqueue_batch(queue=queue, payloads=payloads)
        jobs = claim(connection, queue, len(payloads))
        job_ids = [job.job_id for job in jobs]
        connection.ack_batch(job_ids=job_ids, lease_token=jobs[0].lease_token)
        ids += job_ids
    return ids


def test_what_it_returns(connection: Session, clock: Clock) -> None:
    """The same rows as the view, the newest first."""
    queue = new_queue(connection, archive=True)
    other = new_queue(connection, archive=True)
    enqueue(connection, queue, {"n": 0}, label="l", key="k", headers={"h": 1})
    job = claim_one(connection, queue)
    connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0", error="it broke")
    job = claim_one(connection, queue)
    connection.archive_job(
        job_id=job.job_id, lease_token=job.lease_token, outcome="sent", result=Jsonb({"r": 1})
    )
    fill(connection, other, 3)
    clock.advance("1 second")
    cancelled = enqueue(connection, queue, {"n": 1})
    connection.cancel_job(job_id=cancelled)
    clock.advance("1 second")
    fill(connection, queue, 1)
    found = connection.fetch_archived_jobs(queue=queue)
    assert [(one.outcome, one.attempt) for one in found] == [
        ("acked", 1), ("cancelled", 0), ("sent", 2),
    ]  # fmt: skip
    [last] = found[2:]
    assert (last.result, last.last_error, last.label) == ({"r": 1}, "it broke", "l")
    assert (last.key, last.headers, last.payload, last.body) == ("k", {"h": 1}, {"n": 0}, None)
    rows = connection.execute(
        "select queue, job_id, outcome, attempt, enqueued_at, ended_at, result, last_error, key,"
        " label, headers, payload, body from pgq.archived_jobs where queue = %s"
        " order by ended_at desc",
        [queue],
    ).fetchall()
    assert [tuple(one) for one in found] == [tuple(one) for one in rows]
    assert connection.fetch_archived_jobs(queue=queue, max_jobs=2) == found[:2]


def test_what_cannot_be_done(connection: Session) -> None:
    queue = new_queue(connection, archive=True)
    with unchanged(connection):
        assert connection.fetch_archived_jobs(queue=queue) == []
        refused("MQ002", connection.fetch_archived_jobs, queue="none")
        refused("22004", connection.fetch_archived_jobs, queue=None)
        for wrong in (0, -1, 10001):
            refused("22023", connection.fetch_archived_jobs, queue=queue, max_jobs=wrong)


@pytest.mark.slow
def test_it_reads_the_end_alone(connection: Session, dsn: str) -> None:
    """However long the archive is, and whoever else has written to it."""
    queue = new_queue(connection, archive=True)
    other = new_queue(connection, archive=True)
    fill(connection, queue, 5)
    fill(connection, other, 60_000)
    reader = Reader(dsn)

    def newest() -> list[Any]:
        rows = reader.call("fetch_archived_jobs", queue=queue, max_jobs=50)
        assert reader.last.scanned <= {"segment"}
        return [one.job_id for one in rows]

    assert newest() == []  # they are too far from the end
    ids = fill(connection, queue, 60)
    assert set(newest()) < set(ids)
    assert len(newest()) == 50
    reader.close()
