"""Claims that leave jobs out, in a queue with max_leased_per_key: these jobs count nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.ordered import add_many
from support.queue import claim, new_queue, stats
from support.session import Session


def ids(session: Session, queue: str, max_jobs: int = 9, **options: Any) -> list[int]:
    return [job.job_id for job in claim(session, queue, max_jobs, **options)]


@pytest.mark.parametrize("label", [None, "l"])
def test_a_claim_that_is_cut_blocks_nothing(connection: Session, label: str | None) -> None:
    """What it leaves out is claimed next, and so is the key of what it left out."""
    queue = new_queue(connection, max_leased_per_key=1)
    labels = {} if label is None else {"labels": [label] * 6}
    made = [
        job.job_id
        for job in connection.enqueue_batch(
            queue=queue,
            bodies=[bytes(50_000)] * 6,
            keys=["a", "b", "b", "c", None, "a"],
            **labels,
        )
    ]
    told = []
    for _ in range(4):
        jobs = connection.claim_job(queue=queue, max_jobs=6, max_bytes=110_000, label=label)
        told.append([job.job_id for job in jobs])
        assert {job.cut_short for job in jobs} <= {len(told) == 1}
    assert told == [[made[0], made[1]], [made[3], made[4]], [], []]
    assert stats(connection, queue) == {"leased": 4, "waiting": 2}


def test_what_is_left_out_holds_no_slot(connection: Session) -> None:
    """Once it is cancelled the next job of its key is free at once."""
    queue = new_queue(connection, max_leased_per_key=1)
    keys = ["a", "b", "b"]
    made = connection.enqueue_batch(queue=queue, bodies=[bytes(50_000)] * 3, keys=keys)
    [first] = connection.claim_job(queue=queue, max_jobs=3, max_bytes=60_000)
    assert (first.job_id, first.cut_short) == (made[0].job_id, True)
    connection.cancel_job(job_id=made[1].job_id)
    assert ids(connection, queue) == [made[2].job_id]


def test_a_job_that_is_handed_out_alone_blocks_nothing(connection: Session, clock: Clock) -> None:
    """The others of its claim are left to the next one, with their keys."""
    queue = new_queue(connection, max_leased_per_key=1, max_attempts=3, lease="1 minute")
    made = add_many(connection, queue, ["a", "b", "c"])
    claim(connection, queue, 3, prefetch=True)
    clock.advance("2 minutes")
    told = [ids(connection, queue, prefetch=True) for _ in range(4)]
    assert told == [[made[0]], [made[1]], [made[2]], []]
