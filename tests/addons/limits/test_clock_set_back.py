"""max_leased_per_key after the clock was set back: no job waits for one that is not due."""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.ordered import add, add_many
from support.queue import ack, claim, claim_one, new_queue
from support.session import Session


@pytest.fixture
def queue(connection: Session) -> str:
    """At most one job of a key."""
    return new_queue(connection, max_leased_per_key=1)


def ids(session: Session, queue: str, **options: str) -> list[int]:
    return [job.job_id for job in claim(session, queue, 9, **options)]


def test_a_clock_that_is_set_back(connection: Session, queue: str, clock: Clock) -> None:
    """A blocked job that is not due any more takes no place from one that is."""
    first, second = add_many(connection, queue, ["a", "a"])
    [job] = claim(connection, queue, 2)
    clock.advance("-10 minutes")
    assert ack(connection, job)
    third = add(connection, queue, "a")
    clock.advance("1 minute")
    found = [number for _ in range(3) for number in ids(connection, queue, lease="1 hour")]
    assert (job.job_id, found) == (first, [third])
    assert connection.get_job(job_id=second).state == "delayed"
    clock.advance("9 minutes")
    assert ids(connection, queue) == []
    assert connection.cancel_job(job_id=third)
    found = [number for _ in range(3) for number in ids(connection, queue)]
    assert found == [second]


def test_a_clock_that_is_set_back_after_a_job_was_unblocked(
    connection: Session, queue: str, clock: Clock
) -> None:
    """Such a one takes no place either, and is handed out once it is due."""
    _, second = add_many(connection, queue, ["a", "a"])
    clock.advance("1 hour")
    [job] = claim(connection, queue, 2)
    add(connection, queue, None)
    assert ack(connection, job)
    # unblocks the second one, and gives out what stands before it
    claim_one(connection, queue)
    clock.advance("-1 hour")
    third = add(connection, queue, "a")
    [job] = claim(connection, queue, 1, lease="2 hours")
    assert (job.job_id, ids(connection, queue)) == (third, [])
    clock.advance("61 minutes")
    assert second not in [number for _ in range(3) for number in ids(connection, queue)]
    assert ack(connection, job)
    assert second in [number for _ in range(3) for number in ids(connection, queue)]
