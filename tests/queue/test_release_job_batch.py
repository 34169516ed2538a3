"""release_job_batch: which of many are given back; test_release_job.py has what becomes of each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.clock import Clock
from support.queue import Job, claim, enqueue_many, stats
from support.session import Connect, Session, unchanged

LEVELS = ["read committed", "repeatable read", "serializable"]


def release(session: Session, jobs: Sequence[Job]) -> list[int]:
    """The ids that are given back, in order."""
    found = session.release_job_batch(
        job_ids=[job.job_id for job in jobs], lease_token=jobs[0].lease_token
    )
    return sorted(job_id for (job_id,) in found)


def test_ids_that_are_given_twice(connection: Session, queue: str) -> None:
    """Each is given back once, and told once."""
    ids = enqueue_many(connection, queue, 3)
    jobs = claim(connection, queue, 3)
    assert release(connection, [*jobs[:2], *reversed(jobs[:2]), jobs[0]]) == ids[:2]
    assert stats(connection, queue) == {"ready": 2, "leased": 1}
    assert [job.attempt for job in claim(connection, queue, 9)] == [1, 1]


def test_a_claim_of_which_others_got_some(connection: Session, queue: str, clock: Clock) -> None:
    """Those that nobody has claimed since are given back; the others stay with their workers."""
    ids = enqueue_many(connection, queue, 4)
    slow = claim(connection, queue, 4)
    clock.advance("31 seconds")
    taken = claim(connection, queue, 2)
    assert [job.job_id for job in taken] == ids[:2]
    assert release(connection, slow) == ids[2:]
    assert stats(connection, queue) == {"ready": 2, "leased": 2}
    with unchanged(connection):
        assert release(connection, slow) == []
    assert release(connection, [*taken, *slow]) == ids[:2]
    assert [job.attempt for job in claim(connection, queue, 9)] == [1, 1, 2, 2]


def test_the_order_stays(connection: Session, queue: str) -> None:
    """They come again in the order that they had, whatever the order of the call."""
    ids = enqueue_many(connection, queue, 5)
    assert release(connection, claim(connection, queue, 5)[::-1]) == ids
    assert [job.job_id for job in claim(connection, queue, 9)] == ids


@pytest.mark.parametrize("level", LEVELS)
def test_twice_in_one_transaction(
    connect: Connect, connection: Session, queue: str, level: str
) -> None:
    """Claimed and given back, and again; a rollback leaves them with their worker."""
    ids = enqueue_many(connection, queue, 3)
    held = claim(connection, queue, 2)
    session = connect(isolation_level=level)
    for end in ("rollback", "commit"):
        assert release(session, held) == ids[:2]
        assert release(session, held) == []
        again = claim(session, queue, 9)
        assert [job.attempt for job in again] == [1, 1, 1]
        assert release(session, again) == ids
        getattr(session, end)()
        expected = {"ready": 1, "leased": 2} if end == "rollback" else {"ready": 3}
        assert stats(connection, queue) == expected
