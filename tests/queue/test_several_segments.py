"""Jobs of one claim whose payloads are stored in several segments: a batch ends them all."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from support.clock import Clock
from support.queue import claim, enqueue_many, new_queue, stats
from support.session import Connect, Session
from support.storage import seal

Claim = tuple[str, list[int], UUID]


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """In place of the one that the tests of this folder share."""
    return emptied_dsn


@pytest.fixture
def clock(emptied_clock: Clock) -> Clock:
    """The clock of that database."""
    return emptied_clock


@pytest.fixture
def claimed(connection: Session, clock: Clock) -> Claim:
    """A queue, the jobs of one claim, stored in three segments, and their token."""
    queue = new_queue(connection, retention="3 days", no_limit=["job_ttl"])
    ids = enqueue_many(connection, queue, 3)
    for _ in range(2):
        seal(connection, clock, "25 hours")
        ids += enqueue_many(connection, queue, 3)
    jobs = claim(connection, queue, 20)
    assert [job.job_id for job in jobs] == ids
    return queue, ids, jobs[0].lease_token


def _segments(session: Session, table: str) -> list[tuple[Any, ...]]:
    rows = session.execute(f"select segment, count(*) from pgq.{table} group by 1 order by 1")
    return rows.fetchall()


def test_they_are_archived_beside_their_payloads(connection: Session, claimed: Claim) -> None:
    """Some are given twice, and some are lost."""
    queue, ids, token = claimed
    segments = _segments(connection, "job")
    assert len(segments) == 3
    ended = connection.ack_batch(job_ids=[-1, *ids[::-1], *ids, 0], lease_token=token)
    assert sorted(job_id for (job_id,) in ended) == ids
    assert stats(connection, queue) == {}
    assert _segments(connection, "job_archive") == segments
    assert connection.execute(
        "select job_id, outcome, attempt, payload from pgq.archived_jobs order by job_id"
    ).fetchall() == [(job_id, "acked", 1, n % 3) for n, job_id in enumerate(ids)]


def test_with_an_outcome(connection: Session, claimed: Claim) -> None:
    _, ids, token = claimed
    arguments = {"outcome": "done", "result": '{"a": 1}'}
    ended = connection.archive_job_batch(job_ids=ids, lease_token=token, **arguments)
    assert sorted(job_id for (job_id,) in ended) == ids
    assert connection.execute(
        "select job_id, outcome, result from pgq.archived_jobs order by job_id"
    ).fetchall() == [(job_id, "done", {"a": 1}) for job_id in ids]


def test_without_an_archive(connection: Session, claimed: Claim) -> None:
    queue, ids, token = claimed
    connection.alter_queue(queue=queue, archive=False)
    assert len(connection.ack_batch(job_ids=ids, lease_token=token)) == 9
    assert stats(connection, queue) == {}
    assert _segments(connection, "job_archive") == []


def test_finished_before_the_next_claim(connection: Session, claimed: Claim) -> None:
    queue, ids, token = claimed
    assert connection.finish_and_claim(queue=queue, job_ids=ids, lease_token=token) == []
    assert [count for _, count in _segments(connection, "job_archive")] == [3, 3, 3]


def test_only_their_leaves_are_locked(connect: Connect, claimed: Claim) -> None:
    """So that the segments of others can be emptied meanwhile."""
    _, ids, token = claimed
    session = connect()
    segments = {segment for segment, _ in _segments(session, "job")}
    session.commit()
    session.ack_batch(job_ids=ids, lease_token=token)
    locked = session.execute(
        r"""
        select distinct substring(c.relname from '\d+$')::integer
        from pg_locks as l
        inner join pg_class as c on c.oid = l.relation
        where l.pid = pg_backend_pid()
            and c.relname ~ '^job_archive_\d+$'
        """
    ).fetchall()
    assert {segment for (segment,) in locked} == segments
