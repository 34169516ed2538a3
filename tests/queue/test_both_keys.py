"""Jobs with an idempotency key and a unique key: the first one is asked first."""

from __future__ import annotations

from typing import Any

from support.queue import ack, claim_one, new_queue
from support.session import Session


def add(session: Session, queue: str, idempotency_key: str | None, unique_key: str | None) -> Any:
    return session.enqueue(
        queue=queue,
        payload=1,
        idempotency_key=idempotency_key,
        unique_key=unique_key,
        max_attempts=7,
    )


def test_a_duplicate_by_either(connection: Session) -> None:
    """What is a duplicate by its unique key gives its idempotency key the same job, for good."""
    queue = new_queue(connection)
    first = add(connection, queue, "a", "u")
    assert not first.duplicate
    assert add(connection, queue, "a", "v") == (first.job_id, True)
    assert add(connection, queue, "b", "u") == (first.job_id, True)
    assert add(connection, queue, None, "u") == (first.job_id, True)
    assert connection.get_job(job_id=first.job_id).max_attempts == 7
    assert ack(connection, claim_one(connection, queue))
    assert add(connection, queue, "b", "u") == (first.job_id, True)
    again = add(connection, queue, "c", "u")
    assert not again.duplicate
    assert again.job_id != first.job_id


def test_in_one_batch(connection: Session) -> None:
    queue = new_queue(connection)
    there = add(connection, queue, None, "u").job_id
    made = connection.enqueue_batch(
        queue=queue,
        payloads=[1, 2, 3, 4, 5, 6],
        idempotency_keys=["a", "b", "a", None, "c", None],
        unique_keys=["u", "v", "w", "v", "x", None],
        max_attempts=3,
    )
    ids = [each.job_id for each in made]
    assert [each.duplicate for each in made] == [True, False, True, True, False, False]
    assert ids[0] == ids[2] == there
    assert ids[1] == ids[3]
    assert len({*ids}) == 4
    assert add(connection, queue, "a", None) == (there, True)
    assert add(connection, queue, "c", "y") == (ids[4], True)
    assert not add(connection, queue, None, "w").duplicate
    assert connection.get_job(job_id=ids[4]).max_attempts == 3
