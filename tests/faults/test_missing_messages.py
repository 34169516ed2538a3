"""Jobs whose messages are not there: a disk that lost a page, a hand that deleted a row.

Such a job has no content any more. It is given out without it, so that its worker can end it, and
is in the way of nothing: never leased to nobody, never an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.clock import Clock
from support.queue import Job, claim, claim_one, enqueue, new_queue, stats
from support.session import Connect, Session, row

LOST = "lost"


def _queue(connection: Session, contents: list[str], **settings: Any) -> tuple[str, list[int]]:
    """A queue with jobs; the messages of those called "lost" are gone."""
    queue = new_queue(connection, **settings)
    ids = [enqueue(connection, queue, text, key=text, label="l") for text in contents]
    gone = connection.execute("delete from pgq.message where key = %s", [LOST])
    assert gone.rowcount == contents.count(LOST)
    return queue, ids


def _is_lost(job: Job) -> bool:
    assert (job.payload is None) == (job.key is None)
    return job.payload is None and job.body is None


CLAIMS: dict[str, dict[str, Any]] = {
    "one": {},
    "one by label": {"label": "l"},
    "many": {"max_jobs": 10},
    "many by label": {"max_jobs": 10, "label": "l"},
}


@pytest.mark.parametrize("how", CLAIMS)
def test_a_claim_returns_what_it_leases(connection: Session, how: str) -> None:
    """The job comes without its content, and its worker ends it."""
    queue, [job_id] = _queue(connection, [LOST])
    [job] = claim(connection, queue, **CLAIMS[how])
    assert (job.job_id, job.attempt, job.label, job.priority) == (job_id, 1, "l", 0)
    assert _is_lost(job)
    assert stats(connection, queue) == {"leased": 1}
    assert connection.ack(job_id=job_id, lease_token=job.lease_token)
    assert stats(connection, queue) == {}


@pytest.mark.parametrize("how", CLAIMS)
def test_it_stands_among_others(connection: Session, how: str) -> None:
    """One after the other, in their order, and each is given out."""
    queue, ids = _queue(connection, ["first", LOST, "third"])
    found: list[Job] = []
    while jobs := claim(connection, queue, **CLAIMS[how]):
        found += jobs
    assert [job.job_id for job in found] == ids
    assert [_is_lost(job) for job in found] == [False, True, False]
    assert [job.payload for job in found] == ["first", None, "third"]
    assert stats(connection, queue) == {"leased": 3}


@pytest.mark.parametrize("max_jobs", [1, 10])
def test_it_is_retried_and_dies_like_others(
    connection: Session, clock: Clock, max_jobs: int
) -> None:
    """Given back, lost with its worker, dead, redriven, and claimed again."""
    queue, [job_id] = _queue(connection, [LOST], max_attempts=2)
    [job] = claim(connection, queue, max_jobs)
    arguments = {"job_id": job_id, "lease_token": job.lease_token}
    assert connection.nack(**arguments, delay="0", error="nothing in it")
    [job] = claim(connection, queue, max_jobs)
    assert job.attempt == 2
    clock.advance("31 seconds")
    assert claim(connection, queue, max_jobs) == []
    assert row(connection, "select job_id, payload, body, key from pgq.dead_letters") == (
        job_id,
        None,
        None,
        None,
    )
    assert connection.redrive(queue=queue, all_jobs=True).taken == 1
    [job] = claim(connection, queue, max_jobs)
    assert _is_lost(job)
    assert connection.archive_job(job_id=job_id, lease_token=job.lease_token)
    assert row(
        connection, "select job_id, outcome, payload, enqueued_at from pgq.archived_jobs"
    ) == (job_id, "archived", None, None)


def test_cleanup_buries_and_removes_it(connection: Session, clock: Clock) -> None:
    """Of jobs without messages some expire, some lose their workers, and some are old letters."""
    expiring, _ = _queue(connection, [LOST], job_ttl="1 hour", retention="1 hour")
    dying, _ = _queue(
        connection, [LOST, "kept"], max_attempts=1, job_ttl="1 hour", retention="1 hour"
    )
    assert len(claim(connection, dying, 2)) == 2
    clock.advance("31 seconds")
    assert connection.cleanup() == [("jobs died", dying, 2)]
    assert stats(connection, dying) == {"dead": 2}
    clock.advance("62 minutes")
    done = connection.cleanup()
    assert ("jobs expired", expiring, 1) in done
    assert ("dead letters removed", dying, 2) in done
    assert [stats(connection, queue) for queue in (expiring, dying)] == [{}, {}]


@pytest.mark.parametrize("state", ["ready", "leased", "dead"])
def test_its_segment_is_emptied(connection: Session, clock: Clock, state: str) -> None:
    """cleanup carries forward what lives; where nothing is to be carried it goes on."""
    queue, ids = _queue(
        connection, ["kept", LOST], job_ttl="3 days", retention="3 days", max_attempts=1
    )
    done: list[str] = []

    def pass_by(halves: int) -> None:
        for _ in range(halves):
            clock.advance("12 hours")
            done.extend(action for action, _, _ in connection.cleanup())

    # they outlive their messages: by a lease, or because their last days begin late
    pass_by(5)
    jobs = claim(connection, queue, 2, lease="100 days")
    if state != "leased":
        for job in jobs:
            connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    if state == "ready":
        assert connection.redrive(queue=queue, all_jobs=True).taken == 2
    pass_by(5)
    assert "busy" not in done
    assert "segment truncated" in done
    assert stats(connection, queue) == {state: 2}
    if state == "dead":
        assert connection.redrive(queue=queue, all_jobs=True).taken == 2
    if state != "leased":
        found = claim(connection, queue, 2)
        assert [job.job_id for job in found] == ids
        assert [_is_lost(job) for job in found] == [False, True]


def test_a_batch_without_any(connection: Session) -> None:
    queue, ids = _queue(connection, [LOST] * 5)
    jobs = claim(connection, queue, 5)
    assert [job.job_id for job in jobs] == ids
    assert all(_is_lost(job) for job in jobs)
    acked = connection.ack_batch(job_ids=ids, lease_token=jobs[0].lease_token)
    assert len(acked) == 5
    assert row(connection, "select count(*), count(payload) from pgq.archived_jobs") == (5, 0)


def test_a_claim_that_is_rolled_back(connect: Connect, connection: Session) -> None:
    queue, [job_id] = _queue(connection, [LOST])
    session = connect()
    assert claim_one(session, queue).job_id == job_id
    session.rollback()
    assert claim_one(connection, queue).attempt == 1


READS: dict[str, Callable[[Session, str], Any]] = {
    "queue_stats": lambda connection, queue: stats(connection, queue),
    "list_queues": lambda connection, queue: connection.list_queues(),
    "purge_queue": lambda connection, queue: connection.purge_queue(queue=queue, all_jobs=True),
    "drop_queue": lambda connection, queue: connection.drop_queue(queue=queue),
}


@pytest.mark.parametrize("read", READS)
def test_nothing_fails_for_it(connection: Session, read: str) -> None:
    queue, _ = _queue(connection, [LOST, "kept"])
    claim(connection, queue, 1)
    READS[read](connection, queue)
    connection.cleanup()
