"""Jobs whose payloads move to another segment while others change, finish or revive them."""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue
from support.session import Connect, Session, row
from support.storage import actions, clean, seal_and_close
from support.waiting import blocked, results


def _segment(session: Session, queue: str) -> int:
    """Where new payloads of the queue go."""
    return int(row(session, "select segment from pgq.queue where queue = %s", [queue])[0])


@pytest.mark.parametrize("dead", [False, True], ids=["waiting", "dead"])
def test_the_queue_moves_on_meanwhile(
    connect: Connect, connection: Session, clock: Clock, dead: bool
) -> None:
    """The copy of a payload is where its job says, wherever the queue puts new ones."""
    queue = new_queue(connection, retention="3 days", max_attempts=1, no_limit=["job_ttl"])
    enqueue(connection, queue, "kept")
    if dead:
        job = claim_one(connection, queue)
        connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    left = _segment(connection, queue)
    seal_and_close(connection, clock, "2 days")
    blocker, cleaner = connect(), connect()
    blocker.execute(f"lock table pgq.message_{_segment(connection, queue)} in share mode".encode())
    carrying = blocked(
        connection,
        cleaner,
        lambda: cleaner.execute(
            "select * from pgq._relocate_payloads(%s, null, null, pgq._clock(), 100)", [left]
        ).fetchall(),
    )
    connection.alter_queue(queue=queue, retention="5 days")
    blocker.rollback()
    [[moved]] = results(carrying)
    cleaner.commit()
    assert moved[2] == 1
    if dead:
        assert connection.redrive(queue=queue, all_jobs=True).taken == 1
    assert claim_one(connection, queue).payload == "kept"


def test_a_job_is_finished_meanwhile(connect: Connect, connection: Session, clock: Clock) -> None:
    """What is noted of it is kept, though nobody needs the segment for anything else."""
    queue = new_queue(connection, retention="3 days", no_limit=["job_ttl"])
    enqueue_many(connection, queue, 2)
    first = claim_one(connection, queue, lease="50 days")
    connection.alter_queue(queue=queue, retention="5 days")
    worker, blocker, cleaner = connect(), connect(), connect()
    clock.advance("1 minute")
    assert "segment closed" in clean_until_closed(connection)
    assert worker.ack(job_id=first.job_id, lease_token=first.lease_token)
    blocker.execute(f"lock table pgq.message_{_segment(connection, queue)} in share mode".encode())
    cleaning = blocked(
        connection,
        cleaner,
        lambda: cleaner.execute(
            "select * from pgq._truncate_segments('{(,)}', pgq._clock())"
        ).fetchall(),
    )
    worker.commit()
    blocker.rollback()
    results(cleaning)
    cleaner.commit()
    assert row(connection, "select job_id, outcome from pgq.archived_jobs") == (
        first.job_id,
        "acked",
    )


def clean_until_closed(session: Session) -> list[str]:
    """Clean, but stop before the segment that was closed may be emptied."""
    done: list[str] = []
    while "segment closed" not in done:
        done += actions(session)
    return done


def test_expired_jobs_are_noted_where_they_are_kept(connection: Session, clock: Clock) -> None:
    """Also those that are found to have expired only when their segment is to be emptied."""
    queue = new_queue(connection, retention="14 days", job_ttl="10 days")
    enqueue_many(connection, queue, 150)
    connection.alter_queue(queue=queue, job_ttl="1 hour")
    enqueue_many(connection, queue, 10)
    clock.advance("2 hours")
    connection.alter_queue(queue=queue, retention="30 days")
    clean(connection)
    assert len(claim(connection, queue, 200)) == 150
    assert row(connection, "select outcome, count(*) from pgq.archived_jobs group by outcome") == (
        "expired",
        10,
    )


def test_cleanup_twice_in_one_transaction(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """The second call does not take what the first one sealed for something long ago."""
    queue = new_queue(connection, retention="30 seconds", no_limit=["job_ttl"])
    enqueue(connection, queue, "first")
    clock.advance("12 seconds")
    cleaner, late = connect(), connect()
    assert actions(cleaner) == ["segment sealed"]
    assert actions(cleaner) == []
    enqueue(late, queue, "late")
    cleaner.commit()
    for _ in range(3):
        assert "segment closed" not in actions(connection)
    late.commit()
    clock.advance("31 seconds")
    clean(connection)
    clock.advance("31 seconds")
    clean(connection)
    assert [job.payload for job in claim(connection, queue, 10)] == ["first", "late"]
