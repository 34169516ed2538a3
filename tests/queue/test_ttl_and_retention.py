"""job_ttl and retention: how long a job may wait, and how long what became of it is kept.

An unfinished job lives as long as its job_ttl, though its payload is stored with what is kept for
the retention: when that is truncated, the payload is carried on.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, new_queue, stats
from support.session import Session, row

DAY = "1 day"


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """In place of the one that the tests of this folder share."""
    return emptied_dsn


@pytest.fixture
def clock(emptied_clock: Clock) -> Clock:
    """The clock of that database."""
    return emptied_clock


def _days(connection: Session, clock: Clock, number: int) -> list[str]:
    """Let days pass, with cleanup each of them; returns what it did."""
    done = []
    for _ in range(number):
        clock.advance(DAY)
        for _ in range(3):
            done += [action for action, _, _ in connection.cleanup()]
    return done


def _archived(connection: Session, queue: str) -> list[tuple[Any, ...]]:
    return connection.execute(
        "select payload, outcome from pgq.archived_jobs where queue = %s order by job_id", [queue]
    ).fetchall()


def _ack_next(connection: Session, queue: str) -> None:
    job = claim_one(connection, queue)
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)


def test_a_job_outlives_the_retention(connection: Session, clock: Clock) -> None:
    """It is carried over every truncation and delivered whole; what was finished goes with it."""
    queue = new_queue(connection, job_ttl="60 days", retention="3 days", max_attempts=1)
    enqueue(connection, queue, "finished")
    enqueue(connection, queue, "dead")
    job_id = enqueue(connection, queue, "waits", key="k", headers={"h": "1"}, label="l")
    enqueue(connection, queue, body=b"\x00 raw")
    [(enqueued_at,)] = connection.execute("select pgq._clock()").fetchall()
    _ack_next(connection, queue)
    job = claim_one(connection, queue)
    assert connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    assert _archived(connection, queue) == [("finished", "acked")]

    done = _days(connection, clock, 2)
    assert _archived(connection, queue) == [("finished", "acked")]
    assert stats(connection, queue) == {"ready": 2, "dead": 1}

    done = _days(connection, clock, 40)
    assert done.count("segment truncated") > 2
    assert done.count("payloads moved") > 2
    assert "jobs expired" not in done
    assert done.count("dead letters removed") == 1
    assert _archived(connection, queue) == []
    assert stats(connection, queue) == {"ready": 2}

    [job, raw] = claim(connection, queue, 10)
    assert (job.job_id, job.payload, job.key, job.headers, job.label) == (
        job_id,
        "waits",
        "k",
        {"h": "1"},
        "l",
    )
    assert (raw.payload, raw.body) == (None, b"\x00 raw")
    assert job.enqueued_at <= enqueued_at
    # and from now on it is kept as what was finished is: with the segment in which it stands now
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    assert _archived(connection, queue) == [("waits", "acked")]
    _days(connection, clock, 8)
    assert _archived(connection, queue) == []


def test_a_job_expires_before_the_retention(connection: Session, clock: Clock) -> None:
    """It is never delivered then, and stands in the archive until the retention is over."""
    queue = new_queue(connection, job_ttl="1 day", retention="30 days")
    other = new_queue(connection, job_ttl="1 day", retention="30 days", archive=False)
    for name in (queue, other):
        enqueue(connection, name, "acked")
        enqueue(connection, name, "expired")
        _ack_next(connection, name)
    clock.advance("23 hours")
    assert "jobs expired" not in [action for action, _, _ in connection.cleanup()]
    clock.advance("1 hour")
    assert [claim(connection, name, 10) for name in (queue, other)] == [[], []]
    assert [stats(connection, name) for name in (queue, other)] == [{"expired": 1}] * 2
    assert ("jobs expired", queue, 1) in connection.cleanup()
    expected = [("acked", "acked"), ("expired", "expired")]
    _days(connection, clock, 27)
    assert _archived(connection, queue) == expected
    assert _archived(connection, other) == []
    _days(connection, clock, 20)
    assert _archived(connection, queue) == []


def test_a_dead_letter_is_kept_for_the_retention(connection: Session, clock: Clock) -> None:
    """Counted from when it died, whatever its job_ttl was."""
    queue = new_queue(connection, job_ttl="1 day", retention="10 days", max_attempts=1)
    enqueue(connection, queue, "dead")
    job = claim_one(connection, queue)
    assert connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    done = _days(connection, clock, 9)
    assert "dead letters removed" not in done
    assert row(connection, "select payload from pgq.dead_letters") == ("dead",)
    assert "dead letters removed" in _days(connection, clock, 1)


def test_without_job_ttl(connection: Session, clock: Clock) -> None:
    """A job waits for ever; once it is finished, the retention counts."""
    queue = new_queue(connection, no_limit=["job_ttl"], retention="3 days")
    enqueue(connection, queue, "finished")
    enqueue(connection, queue, "waits")
    _ack_next(connection, queue)
    done = _days(connection, clock, 30)
    assert "segment truncated" in done
    clock.advance("3000 days")
    connection.cleanup()
    assert _archived(connection, queue) == []
    assert claim_one(connection, queue).payload == "waits"


def test_without_retention(connection: Session, clock: Clock) -> None:
    """A job expires; what became of it is kept for ever."""
    queue = new_queue(connection, job_ttl="1 day", no_limit=["retention"], max_attempts=1)
    for payload in ("finished", "dead", "expired"):
        enqueue(connection, queue, payload)
    _ack_next(connection, queue)
    job = claim_one(connection, queue)
    assert connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    done = _days(connection, clock, 2)
    clock.advance("3000 days")
    done += _days(connection, clock, 2)
    assert done.count("jobs expired") == 1
    assert "segment truncated" not in done
    assert _archived(connection, queue) == [("finished", "acked"), ("expired", "expired")]
    assert row(connection, "select payload from pgq.dead_letters") == ("dead",)
    assert stats(connection, queue) == {"dead": 1}


def test_the_retention_chooses_where_payloads_are_stored(connection: Session) -> None:
    """Queues with one retention share their storage, whatever their job_ttl."""
    queues = [
        new_queue(connection, retention="3 days", job_ttl="1 hour"),
        new_queue(connection, retention="3 days", no_limit=["job_ttl"]),
        new_queue(connection, retention="4 days", job_ttl="1 hour"),
    ]

    def classes() -> list[int]:
        return [
            row(connection, "select storage_class_id from pgq.queue where queue = %s", [name])[0]
            for name in queues
        ]

    first, second, third = classes()
    assert first == second != third
    connection.alter_queue(queue=queues[0], job_ttl="4 days")
    assert classes() == [first, second, third]
    connection.alter_queue(queue=queues[0], retention="4 days")
    assert classes() == [third, second, third]
