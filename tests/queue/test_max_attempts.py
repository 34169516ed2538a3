"""max_attempts of a job: it counts instead of that of its queue."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Session, refused, unchanged

QUEUES: list[dict[str, Any]] = [
    {"max_attempts": 1},
    {"max_attempts": 9},
    {"no_limit": ["max_attempts"]},
]


def attempts(connection: Session, queue: str, how: str, clock: Clock, most: int = 20) -> int:
    """So many attempts the only job of a queue gets until it is dead."""
    for number in range(most):
        jobs = claim(connection, queue, max_jobs=2 if "many" in how else 1)
        if not jobs:
            assert "cleanup" not in how, "it was left to a claim"
            if how == "label":
                connection.cleanup()
            assert stats(connection, queue) == {"dead": 1}
            return number
        [job] = jobs
        assert job.attempt == number + 1
        if how == "nack":
            connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")
        else:
            clock.advance("31 seconds")
            if "cleanup" in how:
                connection.cleanup()
                if stats(connection, queue) == {"dead": 1}:
                    return number + 1
    return most


@pytest.mark.parametrize("settings", QUEUES)
@pytest.mark.parametrize("how", ["nack", "one", "many", "cleanup", "many, cleanup"])
@pytest.mark.parametrize("batch", [False, True], ids=["enqueue", "enqueue_batch"])
def test_a_job_with_three(
    connection: Session, clock: Clock, settings: dict[str, Any], how: str, batch: bool
) -> None:
    """By failures, and by workers that are lost: found by one claim, by many, and by cleanup."""
    queue = new_queue(connection, **settings)
    if batch:
        enqueue_many(connection, queue, 1, max_attempts=3)
    else:
        enqueue(connection, queue, max_attempts=3)
    assert attempts(connection, queue, how, clock) == 3


@pytest.mark.parametrize("how", ["nack", "one", "many"])
def test_a_change_of_the_queue_leaves_it_alone(connection: Session, clock: Clock, how: str) -> None:
    queue = new_queue(connection, max_attempts=5)
    enqueue(connection, queue, max_attempts=3)
    job = claim_one(connection, queue)
    connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")
    connection.alter_queue(queue=queue, max_attempts=1)
    for _ in range(4):
        connection.cleanup()
    assert stats(connection, queue) == {"ready": 1}
    assert claim_one(connection, queue).attempt == 2
    clock.advance("31 seconds")
    connection.cleanup()
    connection.alter_queue(queue=queue, no_limit=["max_attempts"])
    job = claim_one(connection, queue)
    assert job.attempt == 3
    if how == "nack":
        connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")
    clock.advance("31 seconds")
    assert claim(connection, queue, max_jobs=2 if how == "many" else 1) == []
    assert stats(connection, queue) == {"dead": 1}


def test_beside_others_of_the_queue(connection: Session, clock: Clock) -> None:
    """Lost workers: each job has its own limit, and those that have had theirs delay nobody."""
    queue = new_queue(connection, max_attempts=2)
    few = enqueue_many(connection, queue, 3, max_attempts=1)
    usual = enqueue_many(connection, queue, 3)
    more = enqueue_many(connection, queue, 3, max_attempts=3)
    seen: dict[int, int] = {}
    for _ in range(8):
        for job in claim(connection, queue, 4):
            seen[job.job_id] = job.attempt
        clock.advance("31 seconds")
    connection.cleanup()
    assert seen == {**dict.fromkeys(few, 1), **dict.fromkeys(usual, 2), **dict.fromkeys(more, 3)}
    assert stats(connection, queue) == {"dead": 9}


@pytest.mark.parametrize("label", [None, "l"])
def test_it_is_kept(connection: Session, queue: str, clock: Clock, label: str | None) -> None:
    """Through claims, longer leases, failures, a dead letter and its redrive."""
    number = enqueue(connection, queue, max_attempts=2, label=label)

    def own() -> int:
        found = connection.get_job(job_id=number).max_attempts
        assert isinstance(found, int)
        return found

    for size in (1, 3):
        job = (
            claim_one(connection, queue, label=label)
            if size == 1
            else claim(connection, queue, size, label=label)[0]
        )
        assert own() == 2
        connection.extend_lease(job_id=number, lease_token=job.lease_token)
        assert own() == 2
        connection.release_job(job_id=number, lease_token=job.lease_token)
        assert own() == 2
    for _ in range(2):
        job = claim_one(connection, queue)
        connection.nack(job_id=number, lease_token=job.lease_token, delay="0")
        assert own() == 2
    assert stats(connection, queue) == {"dead": 1}
    assert connection.redrive(queue=queue, job_id=number).taken == 1
    assert own() == 2
    assert attempts(connection, queue, "nack", clock) == 2


def test_what_is_refused(connection: Session, queue: str) -> None:
    with unchanged(connection):
        for wrong in (0, -1):
            refused("22023", connection.enqueue, queue=queue, payload=1, max_attempts=wrong)
            refused(
                "22023", connection.enqueue_batch, queue=queue, payloads=[1], max_attempts=wrong
            )
    assert (
        connection.get_job(job_id=enqueue(connection, queue, max_attempts=2147483647)).max_attempts
        == 2147483647
    )
