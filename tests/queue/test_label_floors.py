"""Floors of claims by label: only where they help.

Labels may be many, one for each customer or even for each job.
"""

from __future__ import annotations

import time

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, new_queue, stats
from support.session import Session, row

# a claim raises the floor at most this often
PAUSE = 0.03


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """In place of the one that the tests of this folder share."""
    return emptied_dsn


@pytest.fixture
def clock(emptied_clock: Clock) -> Clock:
    """The clock of that database."""
    return emptied_clock


def labels(connection: Session) -> int:
    """How many labels have floors of their own."""
    [number] = row(
        connection,
        "select count(*) from (select distinct f.queue_id, f.label from pgq.queue_floor as f"
        " where f.label <> '') as f",
    )
    assert isinstance(number, int)
    return number


def test_a_label_that_no_job_has(connection: Session, clock: Clock) -> None:
    """Whatever is asked for leaves nothing behind."""
    queue = new_queue(connection)
    enqueue(connection, queue, "other", label="other")
    for _ in range(3):
        for number in range(20):
            assert claim(connection, queue, label=f"reply {number}") == []
        clock.advance("6 seconds")
        connection.cleanup()
    assert labels(connection) == 0


def test_a_label_for_each_job(connection: Session) -> None:
    """Where nothing else waits, the floors of all claims do."""
    queue = new_queue(connection)
    for number in range(5):
        label = f"reply {number}"
        job_id = enqueue(connection, queue, label=label)
        time.sleep(PAUSE)
        assert claim_one(connection, queue, label=label).job_id == job_id
    assert labels(connection) == 0


def test_a_label_beside_jobs_that_wait(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection)
    enqueue(connection, queue, "other", label="other")
    for _ in range(3):
        clock.advance("1 second")
        job_id = enqueue(connection, queue, label="customer")
        assert claim_one(connection, queue, label="customer").job_id == job_id
    assert labels(connection) == 1
    assert stats(connection, queue) == {"ready": 1, "leased": 3}
