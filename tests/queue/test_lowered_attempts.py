"""max_attempts is lowered: jobs that have had as many become dead letters, wherever they stand."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import Job, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, row
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session

RAN_OUT = "the lease of the last attempt ran out"


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """In place of the one that the tests of this folder share."""
    return emptied_dsn


@pytest.fixture
def clock(emptied_clock: Clock) -> Clock:
    """The clock of that database."""
    return emptied_clock


@pytest.fixture
def queue(connection: Session) -> str:
    """A queue in whose front a job stands that nobody claims."""
    queue = new_queue(connection, no_limit=["job_ttl", "max_attempts"])
    enqueue(connection, queue, "in front", label="A")
    return queue


def _nack(session: Session, job: Job, error: str | None = None) -> None:
    assert session.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0", error=error)


def _tried(session: Session, queue: str, times: int, error: str | None = None) -> int:
    """A job with the label B that was given back so many times."""
    job_id = enqueue(session, queue, label="B")
    for _ in range(times):
        _nack(session, claim_one(session, queue, label="B"), error)
    return job_id


def _letters(session: Session, queue: str) -> list[tuple[Any, ...]]:
    return session.execute(
        "select job_id, attempt, last_error from pgq.dead_letters where queue = %s", [queue]
    ).fetchall()


def test_behind_one_that_nobody_claims(connection: Session, queue: str) -> None:
    """It says how often it was delivered, and what its worker said: no lease ran out."""
    job_id = _tried(connection, queue, 3, "boom")
    other = enqueue(connection, queue, label="B")
    connection.alter_queue(queue=queue, max_attempts=3)
    assert [job.job_id for job in claim(connection, queue, 10, label="B")] == [other]
    connection.cleanup()
    assert _letters(connection, queue) == [(job_id, 3, "boom")]
    assert stats(connection, queue) == {"dead": 1, "leased": 1, "ready": 1}


@pytest.mark.parametrize("change", [{"max_attempts": 9}, {"max_attempts": 5}, {"lease": "1 hour"}])
def test_nothing_is_looked_for_when_none_has_had_too_many(
    connection: Session, queue: str, change: dict[str, Any]
) -> None:
    """Looking walks over all jobs of the queue."""
    connection.alter_queue(queue=queue, max_attempts=5)
    connection.execute("delete from pgq.lowered_queue")
    connection.alter_queue(queue=queue, **change)
    assert row(connection, "select count(*) from pgq.lowered_queue") == (0,)


@pytest.mark.parametrize("kept", [True, False])
def test_one_that_is_leased(connection: Session, clock: Clock, queue: str, kept: bool) -> None:
    """Its worker may still end it, also after a heartbeat; when it is lost, so is the job."""
    _tried(connection, queue, 3)
    job = claim_one(connection, queue, label="B")
    connection.alter_queue(queue=queue, max_attempts=2)
    connection.cleanup()
    arguments = {"job_id": job.job_id, "lease_token": job.lease_token}
    assert connection.extend_lease(**arguments, lease="1 minute")
    if kept:
        assert connection.ack(**arguments)
    else:
        clock.advance("2 minutes")
        connection.cleanup()
        assert _letters(connection, queue) == [(job.job_id, 4, RAN_OUT)]
    assert stats(connection, queue) == {"ready": 1} | ({} if kept else {"dead": 1})


def test_while_another_has_its_row(
    connect: Connect, connection: Session, clock: Clock, queue: str
) -> None:
    """Cleanup passes it by, and comes again."""
    _tried(connection, queue, 1)
    job = claim_one(connection, queue, label="B")
    connection.alter_queue(queue=queue, max_attempts=1)
    worker = connect()
    assert worker.extend_lease(job_id=job.job_id, lease_token=job.lease_token)
    connection.cleanup()
    worker.commit()
    connection.cleanup()
    clock.advance("1 minute")
    connection.cleanup()
    assert _letters(connection, queue) == [(job.job_id, 2, RAN_OUT)]


@pytest.mark.parametrize("began", ["before", "meanwhile"])
def test_a_claim_that_knows_the_limit_before(
    connect: Connect, connection: Session, clock: Clock, queue: str, began: str
) -> None:
    """It is in progress while the limit is lowered and cleanup runs; later ones hold up nothing."""
    job_id = _tried(connection, queue, 1)
    worker, owner, later = connect(), connect(), connect()
    if began == "before":
        claim_one(worker, queue, label="B")
    owner.alter_queue(queue=queue, max_attempts=2)
    if began == "meanwhile":
        claim_one(worker, queue, label="B")
    owner.commit()
    for _ in range(2):
        connection.cleanup()
    later.execute("select pg_current_xact_id(), count(*) from pgq.queue")
    worker.commit()
    clock.advance("1 minute")
    connection.cleanup()
    assert _letters(connection, queue) == [(job_id, 2, RAN_OUT)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("which", [{"label": "B"}, {"max_jobs": 2}])
def test_a_snapshot_that_shows_the_limit_before(
    connect: Connect,
    connection: Session,
    clock: Clock,
    queue: str,
    which: dict[str, Any],
    level: str,
) -> None:
    """Its claim comes after the cleanup: it has to try again, and then it knows the new one."""
    job_id = _tried(connection, queue, 1)
    worker = old_session(connect, level)
    connection.alter_queue(queue=queue, max_attempts=2)
    connection.cleanup()
    assert answer_of(worker, lambda: claim(worker, queue, **which)) == TRY_AGAIN
    assert job_id in [job.job_id for job in claim(worker, queue, **which)]
    worker.commit()
    clock.advance("1 minute")
    connection.cleanup()
    assert _letters(connection, queue) == [(job_id, 2, RAN_OUT)]


@pytest.mark.parametrize("level", LEVELS)
def test_a_snapshot_of_when_it_was_raised(
    connect: Connect, connection: Session, queue: str, level: str
) -> None:
    """Its nack comes when the old limit holds again: it has to try again, and the job dies."""
    connection.alter_queue(queue=queue, max_attempts=2)
    job_id = _tried(connection, queue, 1)
    job = claim_one(connection, queue, label="B")
    connection.alter_queue(queue=queue, max_attempts=5)
    worker = old_session(connect, level)
    connection.alter_queue(queue=queue, max_attempts=2)
    connection.cleanup()
    assert answer_of(worker, lambda: _nack(worker, job, "boom")) == TRY_AGAIN
    _nack(worker, job, "boom")
    worker.commit()
    connection.cleanup()
    assert _letters(connection, queue) == [(job_id, 2, "boom")]


def test_it_goes_on_where_it_was(connection: Session, queue: str) -> None:
    """A piece of all jobs at a time, and only those of the queue."""
    other = new_queue(connection, no_limit=["max_attempts"])
    for _ in range(3):
        for each in (queue, other):
            enqueue(connection, each, label="B")
    for each in (queue, other):
        for job in claim(connection, each, 3, label="B"):
            _nack(connection, job)
    connection.alter_queue(queue=queue, max_attempts=1)
    marked = "select count(*) from pgq.job where last_attempt"
    found = []
    mark = (
        "select pgq._mark_exhausted("
        "pg_current_snapshot(), pg_current_xact_id(), pgq._settled_xid(null), 2)"
    )
    while row(connection, mark) == (True,):
        found.append(row(connection, marked)[0])
    assert found == [1, 2, 3]
    assert row(connection, "select count(*) from pgq.lowered_queue") == (0,)
    connection.cleanup()
    assert len(_letters(connection, queue)) == 3
    assert _letters(connection, other) == []


def test_one_that_is_locked_for_long(connect: Connect, connection: Session) -> None:
    """The others are done meanwhile, in pieces, and those of other queues; then it is."""
    queue, other = (new_queue(connection, no_limit=["max_attempts"]) for _ in range(2))
    enqueue_many(connection, queue, 5)
    enqueue_many(connection, other, 1)
    jobs = claim(connection, queue, 5)
    claim_one(connection, other)
    for each in (queue, other):
        connection.alter_queue(queue=each, max_attempts=1)
    mark = (
        "select pgq._mark_exhausted("
        "pg_current_snapshot(), pg_current_xact_id(), pgq._settled_xid(null), 2)"
    )
    earlier, worker = connect(), connect()
    earlier.execute("select pg_current_xact_id(), count(*) from pgq.queue")
    assert row(connection, mark) == (False,)
    # it comes later than that, and so it is not waited for
    assert worker.extend_lease(job_id=jobs[0].job_id, lease_token=jobs[0].lease_token)
    earlier.commit()
    marked = "select array_agg(job_id order by job_id) from pgq.job where last_attempt"
    more = [row(connection, mark)[0] for _ in range(30)]
    assert more[0]
    assert not any(more[-4:])
    first, *others = (job.job_id for job in jobs)
    assert row(connection, marked) == ([*others, others[-1] + 1],)
    worker.commit()
    while row(connection, "select count(*) from pgq.lowered_queue") != (0,):
        connection.execute(mark)
    assert row(connection, marked) == ([first, *others, others[-1] + 1],)


def test_raised_again_in_time(connection: Session, queue: str) -> None:
    _tried(connection, queue, 2)
    for attempts in (2, 3):
        connection.alter_queue(queue=queue, max_attempts=attempts)
    connection.cleanup()
    assert _letters(connection, queue) == []
    assert claim_one(connection, queue, label="B").attempt == 3


@pytest.mark.parametrize("max_jobs", [1, 10])
@pytest.mark.parametrize("error", ["boom", None])
def test_by_a_claim(connection: Session, max_jobs: int, error: str | None) -> None:
    """It stands in front: the claim itself buries it, with what is true of it."""
    queue = new_queue(connection)
    job_id = enqueue(connection, queue)
    for _ in range(4):
        _nack(connection, claim_one(connection, queue), error)
    connection.alter_queue(queue=queue, max_attempts=2)
    assert claim(connection, queue, max_jobs) == []
    assert _letters(connection, queue) == [(job_id, 4, error)]


def test_lost_before_it_was_lowered(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection)
    job_id = enqueue(connection, queue)
    for _ in range(4):
        claim_one(connection, queue)
        clock.advance("1 minute")
    connection.alter_queue(queue=queue, max_attempts=2)
    enqueue_many(connection, queue, 1)
    assert claim_one(connection, queue).attempt == 1
    assert _letters(connection, queue) == [(job_id, 4, RAN_OUT)]
