"""What a job's workers said stays with it when cleanup makes a dead letter of it."""

from __future__ import annotations

from jobs import AnyConnection, claim, cleanup, enqueue_many, new_queue, value
from support import Clock

RAN_OUT = "the lease of the last attempt ran out"


def test_jobs_that_lost_their_last_workers(connection: AnyConnection, clock: Clock) -> None:
    """The error of the last nack, if there was one, and then how it ended."""
    queue = new_queue(connection, max_attempts=3)
    enqueue_many(connection, queue, 3)
    for errors in ((None, "an old one", None), (None, "the newest one", None)):
        for job, error in zip(claim(connection, queue, 3), errors, strict=True):
            arguments = {"job_id": job.job_id, "lease_token": job.lease_token, "delay": "0"}
            assert value(connection, "nack", **arguments, error=error)
    assert len(claim(connection, queue, 3)) == 3
    clock.advance("31 seconds")
    assert cleanup(connection) == [("jobs dead", queue, 3)]
    letters = connection.execute(
        "select payload, attempt, last_error from pgq.dead_letters order by job_id"
    ).fetchall()
    assert letters[0] == (0, 3, RAN_OUT)
    assert letters[2] == (2, 3, RAN_OUT)
    payload, attempt, error = letters[1]
    assert (payload, attempt) == (1, 3)
    assert error.startswith("the newest one")
    assert RAN_OUT in error
