"""purge_queue: unfinished jobs go, or dead letters alone; archived ones stay."""

from __future__ import annotations

from typing import Any

import pytest

from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, refused, row, unchanged


def _fill(connection: Session) -> str:
    """A queue with one archived, one dead, one leased, one delayed and two ready jobs."""
    queue = new_queue(connection, max_attempts=1)
    enqueue_many(connection, queue, 5)
    enqueue(connection, queue, delay="1 hour")
    archived, dead, _ = claim(connection, queue, 3)
    token = archived.lease_token
    assert connection.ack(job_id=archived.job_id, lease_token=token)
    assert connection.nack(job_id=dead.job_id, lease_token=token)
    assert stats(connection, queue) == {"ready": 2, "leased": 1, "delayed": 1, "dead": 1}
    return queue


def test_unfinished_jobs_go(connection: Session) -> None:
    queue, other = _fill(connection), _fill(connection)
    enqueue(connection, queue, priority=0, label="mine")
    held = claim_one(connection, queue, label="mine")
    assert connection.purge_queue(queue=queue, all_jobs=True).taken == 6
    assert stats(connection, queue) == {}
    assert claim(connection, queue, 10) == []
    # its worker learns of it
    assert not connection.extend_lease(job_id=held.job_id, lease_token=held.lease_token)
    assert not connection.ack(job_id=held.job_id, lease_token=held.lease_token)
    assert not connection.nack(job_id=held.job_id, lease_token=held.lease_token)

    assert row(connection, "select count(*) from pgq.archived_jobs where queue = %s", [queue]) == (
        1,
    )
    assert stats(connection, other) == {"ready": 2, "leased": 1, "delayed": 1, "dead": 1}
    assert connection.purge_queue(queue=queue, all_jobs=True).taken == 0
    enqueue(connection, queue, "new")
    assert claim_one(connection, queue).payload == "new"


def test_dead_letters_alone(connection: Session) -> None:
    queue = _fill(connection)
    assert connection.purge_queue(queue=queue, dead_only=True, all_jobs=False).taken == 1
    assert stats(connection, queue) == {"ready": 2, "leased": 1, "delayed": 1}
    assert connection.purge_queue(queue=queue, dead_only=True).taken == 0


def test_twice_in_one_transaction_and_rolled_back(connect: Connect) -> None:
    connection = connect()
    queue = _fill(connection)
    connection.commit()
    assert connection.purge_queue(queue=queue, all_jobs=True).taken == 5
    assert connection.purge_queue(queue=queue, all_jobs=True).taken == 0
    connection.rollback()
    assert stats(connection, queue) == {"ready": 2, "leased": 1, "delayed": 1, "dead": 1}


@pytest.mark.parametrize(
    "selectors",
    [
        {},
        {"dead_only": None, "all_jobs": None},
        {"dead_only": False},
        {"all_jobs": False},
        {"dead_only": False, "all_jobs": False},
        {"dead_only": True, "all_jobs": True},
    ],
)
def test_it_must_be_said_what_goes(connection: Session, selectors: dict[str, Any]) -> None:
    """Exactly one of both is true, or nothing is touched."""
    queue = _fill(connection)
    with unchanged(connection):
        refused("22023", connection.purge_queue, queue=queue, **selectors)
    assert stats(connection, queue) == {"ready": 2, "leased": 1, "delayed": 1, "dead": 1}


@pytest.mark.parametrize("selector", ["dead_only", "all_jobs"])
def test_refusals(connection: Session, queue: str, selector: str) -> None:
    enqueue(connection, queue)
    with unchanged(connection):
        refused("MQ002", connection.purge_queue, queue="no-such-queue", **{selector: True})
    with unchanged(connection):
        refused("22004", connection.purge_queue, queue=None, **{selector: True})
    assert len(connection.claim_job(queue=queue)) == 1
