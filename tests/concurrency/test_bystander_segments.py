"""What a transaction without any business with pgq does not hold up: segments, and what is counted.

And what it meets when it begins to work behind that, with whatever snapshot it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from support.bystanders import BYSTANDERS, end, furnish, idle, undone
from support.clock import Clock
from support.queue import Job, claim, claim_one, enqueue, enqueue_many, new_queue
from support.session import Connect, Session, row
from support.snapshots import LEVELS, TRY_AGAIN, answer_of
from support.waiting import blocked, results


@pytest.fixture
def work(connection: Session, clock: Clock) -> Session:
    """A database with a queue and a topic, where others have worked before."""
    return furnish(connection, clock)


def _is_emptied(work: Session, clock: Clock) -> bool:
    """Whether the segment with the first message is emptied once its time is over."""
    for _ in range(8):
        clock.advance("1 day")
        work.publish(topic="events", payload=Jsonb("later"))
        while any(done.action == "more" for done in work.cleanup()):
            pass
    [offsets] = work.list_offsets(topic="events")
    return bool(offsets.first_offset > 1)


@pytest.mark.parametrize("hold", BYSTANDERS)
def test_segments_are_emptied(
    connect: Connect,
    work: Session,
    clock: Clock,
    hold: Callable[[Connect, Session], Session],
) -> None:
    """A transaction that somebody forgot does not fill the disk."""
    work.publish(topic="events", payload=Jsonb("first"))
    session = hold(connect, work)
    assert _is_emptied(work, clock)
    end(session, work)


@pytest.mark.parametrize("call", ["enqueue", "publish", "read"])
def test_segments_wait_for_those_who_may_write(
    connect: Connect, work: Session, clock: Clock, call: str
) -> None:
    """They may have read which one is open."""
    work.publish(topic="events", payload=Jsonb("first"))
    session = connect()
    session.execute("select pg_current_xact_id()")
    if call == "enqueue":
        enqueue(session, "work", "late")
    elif call == "publish":
        # another topic of the same storage
        work.create_topic(topic="others", partitions=1, retention="1 day")
        session.publish(topic="others", payload=Jsonb("late"))
    else:
        session.execute("select count(*) from pgq.partition")
    closed = "select count(*) from pgq.segment where state = 'closed'"
    assert not _is_emptied(work, clock)
    assert row(work, closed) == (0,)
    session.commit()
    assert _is_emptied(work, clock)


@pytest.mark.parametrize("hold", [idle, undone])
@pytest.mark.parametrize("call", ["enqueue", "publish", "once", "unique"])
@pytest.mark.parametrize("level", ["read committed", *LEVELS])
def test_a_bystander_that_begins_to_write(
    connect: Connect,
    work: Session,
    clock: Clock,
    hold: Callable[[Connect, Session], Session],
    call: str,
    level: str,
) -> None:
    """What it writes is kept, though the segment that its snapshot shows is emptied long ago."""

    def hold_at_level(**options: Any) -> Session:
        return connect(isolation_level=level, **options)

    work.publish(topic="events", payload=Jsonb("first"))
    session = hold(hold_at_level, work)
    session.execute("select 1")
    assert _is_emptied(work, clock)

    def write() -> Any:
        if call == "enqueue":
            return enqueue(session, "work", "late")
        if call == "unique":
            return enqueue(session, "work", "late", idempotency_key="k")
        key = {"idempotency_key": "k"} if call == "once" else {}
        return session.publish(topic="events", payload=Jsonb("late"), **key)

    answer = answer_of(session, write)
    if level == "read committed":
        assert answer != TRY_AGAIN
    if answer == TRY_AGAIN:
        answer = answer_of(session, write)
    assert answer != TRY_AGAIN
    stored = "select count(*) from pgq.messages where payload = '\"late\"'"
    if call in ("enqueue", "unique"):
        assert [job.payload for job in claim(work, "work", 100)] == ["late"]
    else:
        assert row(work, stored) == (1,)


@pytest.mark.parametrize("level", ["read committed", *LEVELS])
@pytest.mark.parametrize("taken", [True, False], ids=["with an id", "without"])
@pytest.mark.parametrize("call", ["claim_job", "finish_and_claim"])
@pytest.mark.parametrize("limit", ["max_leased", "max_leased_per_key"])
def test_a_limit_holds_for_who_has_an_older_snapshot(
    connect: Connect, connection: Session, level: str, taken: bool, call: str, limit: str
) -> None:
    """It was switched on behind that, and what was leased before has been counted."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 4, keys=["k"] * 4)
    session = connect(isolation_level=level)
    session.execute("select pg_current_xact_id()" if taken else "select 1")
    connection.alter_queue(queue=queue, **{limit: 1})
    for _ in range(3):
        enqueue(connection, queue, key="other", label="other")
        [job] = claim(connection, queue, label="other")
        connection.ack(job_id=job.job_id, lease_token=job.lease_token)

    def claimed() -> Any:
        return session.call(call, queue=queue)

    answer = answer_of(session, claimed)
    if level != "read committed":
        assert answer == TRY_AGAIN
        answer = answer_of(session, claimed)
    assert len(answer) == 1
    assert claim(connection, queue) == []


CALLS: dict[str, Callable[[Session, str, Job], Any]] = {
    "claim_job": lambda session, queue, job: session.claim_job(queue=queue),
    "claim several": lambda session, queue, job: session.claim_job(queue=queue, max_jobs=2),
    "finish_and_claim": lambda session, queue, job: session.finish_and_claim(queue=queue),
    "enqueue": lambda session, queue, job: enqueue(session, queue),
    "enqueue_batch": lambda session, queue, job: enqueue_many(session, queue, 2),
    "enqueue once": lambda session, queue, job: enqueue(session, queue, idempotency_key="k"),
    "nack": lambda session, queue, job: session.nack(
        job_id=job.job_id, lease_token=job.lease_token
    ),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("level", LEVELS)
def test_who_has_looked_at_a_queue_does_not_keep_others_from_changing_it(
    connect: Connect, connection: Session, level: str, call: str
) -> None:
    """However long it stays open; overlapping ones would keep them out for ever."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 3)
    job = claim_one(connection, queue)
    session = connect(isolation_level=level)
    CALLS[call](session, queue, job)
    connection.execute("set lock_timeout = '5s'")
    connection.pause_queue(queue=queue)
    connection.alter_queue(queue=queue, max_leased=3, max_attempts=2)
    session.commit()


@pytest.mark.parametrize("call", ["claim_job", "finish_and_claim"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_claim_behind_an_ack_beside_a_drop(
    connect: Connect, connection: Session, level: str, call: str
) -> None:
    """The drop waits for the job; the claim must not wait for the drop."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 2)
    job = claim_one(connection, queue)
    session, dropper = connect(isolation_level=level), connect(autocommit=True)
    assert session.ack(job_id=job.job_id, lease_token=job.lease_token)
    drop = blocked(connection, dropper, lambda: dropper.drop_queue(queue=queue))
    assert len(session.call(call, queue=queue)) == 1
    session.commit()
    results(drop)
    assert row(connection, "select count(*) from pgq.job") == (0,)


@pytest.mark.parametrize("call", ["publish", "enqueue"])
def test_what_is_written_while_cleanup_is_at_work(
    connect: Connect, work: Session, clock: Clock, call: str
) -> None:
    """No segment is closed before its last message, however long the parts before that take."""
    work.publish(topic="events", payload=1)
    enqueue(work, "work")
    early, blocker, cleaner = connect(), connect(), connect(autocommit=True)
    early.execute("select pg_current_xact_id()")
    early.list_queues()
    clock.advance("17 hours")
    for _ in range(3):
        work.cleanup()
    assert row(work, "select count(*) from pgq.segment where horizon is not null") > (0,)
    blocker.execute("lock table pgq.worker in access exclusive mode")
    cleaning = blocked(work, cleaner, cleaner.cleanup)
    clock.advance("1 minute")
    if call == "publish":
        early.publish(topic="events", payload=2)
    else:
        enqueue(early, "work")
    early.commit()
    blocker.rollback()
    results(cleaning)
    for _ in range(3):
        work.cleanup()
    assert row(work, "select count(*) from pgq.segment where state = 'closed'") > (0,)
    assert row(
        work,
        "select count(*) from pgq.segment as s inner join pgq.message as m using (segment)"
        " where s.closed_at < m.published_at and isfinite(m.published_at)",
    ) == (0,)
