"""purge_queue: unfinished jobs go, or dead letters alone; archived ones stay."""

from __future__ import annotations

from typing import Any

import pytest

from jobs import (
    AnyConnection,
    Connect,
    call,
    claim,
    claim_one,
    enqueue,
    enqueue_many,
    new_queue,
    refused,
    row,
    stats,
    value,
)


def _fill(connection: AnyConnection) -> str:
    """A queue with one archived, one dead, one leased, one delayed and two ready jobs."""
    queue = new_queue(connection, max_attempts=1)
    enqueue_many(connection, queue, 5)
    enqueue(connection, queue, delay="1 hour")
    archived, dead, _ = claim(connection, queue, 3)
    token = archived.lease_token
    assert value(connection, "ack", job_id=archived.job_id, lease_token=token)
    assert value(connection, "nack", job_id=dead.job_id, lease_token=token)
    assert stats(connection, queue) == {"ready": 2, "leased": 1, "delayed": 1, "dead": 1}
    return queue


def test_unfinished_jobs_go(connection: AnyConnection) -> None:
    queue, other = _fill(connection), _fill(connection)
    enqueue(connection, queue, priority=0, label="mine")
    held = claim_one(connection, queue, label="mine")
    assert value(connection, "purge_queue", queue=queue, all_jobs=True) == 6
    assert stats(connection, queue) == {}
    assert claim(connection, queue, 10) == []
    # its worker learns of it
    assert not value(connection, "extend_lease", job_id=held.job_id, lease_token=held.lease_token)
    assert not value(connection, "ack", job_id=held.job_id, lease_token=held.lease_token)
    assert not value(connection, "nack", job_id=held.job_id, lease_token=held.lease_token)

    assert row(connection, "select count(*) from pgq.archived_jobs where queue = %s", [queue]) == (
        1,
    )
    assert stats(connection, other) == {"ready": 2, "leased": 1, "delayed": 1, "dead": 1}
    assert value(connection, "purge_queue", queue=queue, all_jobs=True) == 0
    enqueue(connection, queue, "new")
    assert claim_one(connection, queue).payload == "new"


def test_dead_letters_alone(connection: AnyConnection) -> None:
    queue = _fill(connection)
    assert value(connection, "purge_queue", queue=queue, dead_only=True, all_jobs=False) == 1
    assert stats(connection, queue) == {"ready": 2, "leased": 1, "delayed": 1}
    assert value(connection, "purge_queue", queue=queue, dead_only=True) == 0


def test_twice_in_one_transaction_and_rolled_back(connect: Connect) -> None:
    connection = connect()
    queue = _fill(connection)
    connection.commit()
    assert value(connection, "purge_queue", queue=queue, all_jobs=True) == 5
    assert value(connection, "purge_queue", queue=queue, all_jobs=True) == 0
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
def test_it_must_be_said_what_goes(connection: AnyConnection, selectors: dict[str, Any]) -> None:
    """Exactly one of both is true, or nothing is touched."""
    queue = _fill(connection)
    refused(connection, "22023", "purge_queue", queue=queue, **selectors)
    assert stats(connection, queue) == {"ready": 2, "leased": 1, "delayed": 1, "dead": 1}


@pytest.mark.parametrize("selector", ["dead_only", "all_jobs"])
def test_refusals(connection: AnyConnection, queue: str, selector: str) -> None:
    enqueue(connection, queue)
    refused(connection, "MQ002", "purge_queue", queue="no-such-queue", **{selector: True})
    refused(connection, "22004", "purge_queue", queue=None, **{selector: True})
    assert len(call(connection, "claim_job", queue=queue)) == 1
