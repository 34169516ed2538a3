"""Jobs that outlive the segment of their payloads take them along."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.clock import Clock
from support.queue import Job, ack, claim, claim_one, enqueue, enqueue_many, new_queue
from support.session import Connect, Session, row
from support.storage import actions, clean, close_segment, held, states


def test_unfinished_jobs_are_carried_along(connection: Session, clock: Clock) -> None:
    """Their payloads stay when their segment is emptied: of waiting, leased and dead jobs."""
    queue = new_queue(
        connection, job_ttl="9 hours", retention="9 hours", lease="9 hours", max_attempts=1
    )
    enqueue(connection, queue, "leased", label="l", key="k", headers={"h": "1"})
    enqueue(connection, queue, "dead", key="d")
    connection.enqueue(queue=queue, body=b"\x00 redriven", label="l")
    enqueue(connection, queue, "done")
    leased, dead, redriven, done = claim(connection, queue, 4)
    token = leased.lease_token
    assert ack(connection, done)
    close_segment(connection, clock, "3 hours")
    clock.advance("4 hours")
    assert connection.extend_lease(job_id=leased.job_id, lease_token=token)
    for job in (dead, redriven):
        assert connection.nack(job_id=job.job_id, lease_token=token, error="e")
    assert connection.redrive(queue=queue, job_id=redriven.job_id).taken == 1
    clock.advance("301 minutes")
    found = connection.cleanup()
    assert [(action, amount) for action, _, amount in found] == [
        ("payloads moved", 3),
        ("segment truncated", 1),
        ("segment sealed", 1),
    ]
    assert held(connection) == (3, 0)
    assert clean(connection) == ["segment closed"]

    assert row(connection, "select job_id, last_error, key, payload from pgq.dead_letters") == (
        dead.job_id,
        "e",
        "d",
        "dead",
    )
    job = claim_one(connection, queue, label="l")
    assert (job.job_id, job.body, job.enqueued_at) == (
        redriven.job_id,
        b"\x00 redriven",
        redriven.enqueued_at,
    )
    assert ack(connection, job)
    assert ack(connection, leased)
    assert connection.redrive(queue=queue, all_jobs=True).taken == 1
    revived = claim_one(connection, queue)
    assert (revived.payload, revived.key) == ("dead", "d")
    assert ack(connection, revived)
    assert connection.execute(
        "select job_id, payload, body, label, key, headers from pgq.archived_jobs order by job_id"
    ).fetchall() == [
        (leased.job_id, "leased", None, "l", "k", {"h": "1"}),
        (dead.job_id, "dead", None, None, "d", None),
        (redriven.job_id, None, b"\x00 redriven", "l", None, None),
    ]


def test_a_claim_over_several_segments(connection: Session, clock: Clock) -> None:
    """Jobs of old and new segments come in one claim, in their order."""
    queue = new_queue(connection, job_ttl="9 hours", retention="9 hours")
    for n in range(4):
        enqueue(connection, queue, n)
        clock.advance("3 hours" if n == 1 else "1 minute")
        connection.cleanup()
        connection.cleanup()
    assert [job.payload for job in claim(connection, queue, 10)] == [0, 1, 2, 3]


def _die(session: Session, queue: str, job: Job) -> None:
    assert session.nack(job_id=job.job_id, lease_token=job.lease_token)


def _revive(session: Session, queue: str, job: Job) -> None:
    assert session.redrive(queue=queue, job_id=job.job_id).taken == 1


@pytest.mark.parametrize("change", [_die, _revive])
def test_jobs_that_move_while_their_segment_is_emptied(
    connect: Connect,
    connection: Session,
    clock: Clock,
    change: Callable[[Session, str, Job], None],
) -> None:
    """One that dies, or comes back, is left for the next time, and keeps its payload."""
    queue = new_queue(
        connection, job_ttl="9 hours", retention="9 hours", lease="30 hours", max_attempts=1
    )
    enqueue_many(connection, queue, 3)
    _, moving, _ = claim(connection, queue, 3)
    close_segment(connection, clock, "3 hours")
    clock.advance("5 hours")
    if change is _revive:
        _die(connection, queue, moving)
    clock.advance("4 hours")

    mover = connect()
    change(mover, queue, moving)
    assert "segment busy" in actions(connection)
    mover.commit()
    assert "segment truncated" in actions(connection)
    if change is _die:
        assert row(connection, "select payload from pgq.dead_letters") == (1,)
    else:
        assert claim_one(connection, queue).payload == 1


@pytest.mark.parametrize("end", ["ack", "nack"])
def test_jobs_that_end_while_their_segment_is_emptied(
    connect: Connect, connection: Session, clock: Clock, end: str
) -> None:
    """cleanup does not wait for the worker's transaction: it says so and comes back."""
    queue = new_queue(connection, job_ttl="9 hours", retention="9 hours", lease="30 hours")
    enqueue(connection, queue, "x")
    job = claim_one(connection, queue)
    close_segment(connection, clock, "3 hours")
    clock.advance("10 hours")
    session = connect()
    assert session.call(end, job_id=job.job_id, lease_token=job.lease_token)
    assert actions(connection) == ["segment busy"]
    session.rollback()
    assert session.call(end, job_id=job.job_id, lease_token=job.lease_token)
    session.commit()
    assert "segment truncated" in actions(connection)
    assert states(connection) == ["open"]
    assert row(connection, "select count(*) from pgq.job_archive") == (0,)
