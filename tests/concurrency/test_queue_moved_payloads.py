"""Old snapshots, and payloads that cleanup has meanwhile moved to another place.

A leaf that was emptied looks empty to older snapshots as well, and where such a snapshot would put
a job nothing is put any more. The answer is right, or it is 40001.
"""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.queue import claim, enqueue, enqueue_many, new_queue
from support.session import Connect, Session
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session, second_answer_of


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("change", ["alter", "seal", "truncate"])
def test_a_job_added_when_payloads_have_moved_on(
    connect: Connect, connection: Session, clock: Clock, change: str, level: str
) -> None:
    """Where the snapshot would put it, nothing is put any more, or not for long."""
    queue = new_queue(connection, retention="3 days")
    enqueue(connection, queue, "before")
    sessions = [old_session(connect, level) for _ in range(2)]
    if change == "alter":
        connection.alter_queue(queue=queue, retention="30 days")
    for _ in range({"alter": 0, "seal": 3, "truncate": 10}[change]):
        clock.advance("12 hours")
        connection.cleanup()
    one, other = sessions
    answers = [
        answer_of(one, lambda: enqueue(one, queue, "one")),
        answer_of(other, lambda: enqueue_many(other, queue, 1)[0]),
    ]
    for _ in range(3):
        clock.advance("20 hours")
        connection.cleanup()
    found = {job.job_id: job.payload for job in claim(connection, queue, 10)}
    for answer, payload in zip(answers, ("one", 0), strict=True):
        assert answer == TRY_AGAIN or found[answer] == payload


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("max_jobs", [1, 5])
def test_a_claim_of_a_job_whose_payload_was_moved(
    connect: Connect, connection: Session, clock: Clock, max_jobs: int, level: str
) -> None:
    """A leaf that was emptied looks empty to an old snapshot as well."""
    queue = new_queue(connection, retention="3 days", max_attempts=1)
    enqueue_many(connection, queue, 2)
    for _ in range(5):
        clock.advance("12 hours")
        connection.cleanup()
    for job in claim(connection, queue, 2):
        connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    connection.redrive(queue=queue, all_jobs=True)
    session = old_session(connect, level)
    # it reads no leaf, so nothing keeps cleanup from emptying it
    done: list[str] = []
    for _ in range(5):
        clock.advance("12 hours")
        done += [action for action, _, _ in connection.cleanup()]
    assert "segment truncated" in done
    answer = second_answer_of(session, lambda: claim(session, queue, max_jobs))
    assert [job.payload for job in answer] == [0, 1][:max_jobs]
