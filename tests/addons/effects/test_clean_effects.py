"""cleanup and effects: those of jobs that have ended go, by and by; the others stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.clock import Clock
from support.effects import begin, finish
from support.queue import Job, ack, claim, claim_one, enqueue, enqueue_many, new_queue
from support.session import Connect, Session, row

MOST = 10_000
"""So many jobs are looked at by one call, and so many effects removed."""


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """In place of the one that the tests of this folder share."""
    return emptied_dsn


@pytest.fixture
def clock(emptied_clock: Clock) -> Clock:
    """The clock of that database."""
    return emptied_clock


@pytest.fixture(autouse=True)
def from_the_beginning(connection: Session) -> None:
    """What other tests of this file have left."""
    connection.execute("select setval('pgq.effect_walk', 0)")


def left(connection: Session) -> list[int]:
    """The jobs that have effects."""
    rows = connection.execute("select distinct job_id from pgq.effect order by 1").fetchall()
    return [job_id for (job_id,) in rows]


def many(connection: Session, first: int, last: int, effects: int = 1) -> None:
    """Effects of jobs of these ids, which need not be there."""
    connection.execute(
        "insert into pgq.effect (job_id, effect, lease_token, attempt, begun_at)"
        " select j, e::text, gen_random_uuid(), 1, pgq._clock()"
        " from generate_series(%s::bigint, %s) as j, generate_series(1, %s) as e",
        [first, last, effects],
    )


def kept(connection: Session, first: int, last: int) -> None:
    """Dead letters of these ids, in a queue that keeps them for ever."""
    queue = new_queue(connection, no_limit=["retention"])
    connection.execute(
        "insert into pgq.dead_job (job_id, queue_id, partition_id, log_offset, segment, priority,"
        " attempt, died_at) select j, q.queue_id, q.partition_id, j, q.segment, 0, 1, pgq._clock()"
        " from pgq.queue as q, generate_series(%s::bigint, %s) as j where q.queue = %s",
        [first, last, queue],
    )


ENDS: dict[str, Callable[[Session, Clock, str, Job], object]] = {
    "ack": lambda session, clock, queue, job: ack(session, job),
    "archive_job": lambda session, clock, queue, job: session.archive_job(
        job_id=job.job_id, lease_token=job.lease_token
    ),
    "finish_and_claim": lambda session, clock, queue, job: session.finish_and_claim(
        queue=queue, job_ids=[job.job_id], lease_token=job.lease_token, max_jobs=0
    ),
    "purge_queue": lambda session, clock, queue, job: session.purge_queue(
        queue=queue, all_jobs=True
    ),
    "drop_queue": lambda session, clock, queue, job: session.drop_queue(queue=queue),
    "expiry": lambda session, clock, queue, job: clock.advance("2 days"),
}


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("end", ENDS)
def test_of_jobs_that_have_ended(
    connection: Session, clock: Clock, end: str, archive: bool
) -> None:
    """However they have; those of another queue stay."""
    queue = new_queue(connection, job_ttl="1 day", archive=archive)
    other = new_queue(connection)
    for name in (queue, other):
        enqueue(connection, name)
    job, living = claim_one(connection, queue), claim_one(connection, other)
    for effect in ("a", "b"):
        begin(connection, job, effect)
        begin(connection, living, effect)
    finish(connection, job, "a", result=1)
    connection.cleanup()
    assert left(connection) == [job.job_id, living.job_id]
    ENDS[end](connection, clock, queue, job)
    assert ("effects removed", "jobs", 2) in connection.cleanup()
    assert left(connection) == [living.job_id]


def test_of_jobs_that_live_on(connection: Session, clock: Clock) -> None:
    """Waiting, leased and dead ones keep theirs, and a redriven one has them again."""
    queue = new_queue(connection, max_attempts=2, retention="10 days")
    ids = enqueue_many(connection, queue, 3)
    for job in claim(connection, queue, 3):
        begin(connection, job)
        finish(connection, job, result=job.job_id)
        connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")
    dead, leased, waiting = claim(connection, queue, 3)
    connection.nack(job_id=dead.job_id, lease_token=dead.lease_token)
    connection.nack(job_id=waiting.job_id, lease_token=waiting.lease_token, delay="1 hour")
    connection.extend_lease(job_id=leased.job_id, lease_token=leased.lease_token, lease="1 hour")
    connection.cleanup()
    assert left(connection) == ids
    assert connection.redrive(queue=queue, job_id=dead.job_id).taken == 1
    connection.cleanup()
    assert begin(connection, claim_one(connection, queue)).result == dead.job_id
    # a dead letter that is old enough takes them along
    connection.purge_queue(queue=queue, all_jobs=True)
    connection.cleanup()
    assert left(connection) == []


def test_of_an_old_dead_letter(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, max_attempts=1, retention="10 days")
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    begin(connection, job)
    connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    clock.advance("11 days")
    found = connection.cleanup()
    assert ("dead letters removed", queue, 1) in found
    assert ("effects removed", "jobs", 1) in found


def test_a_piece_at_a_time(connection: Session) -> None:
    """As long as it says that there is more, there is."""
    many(connection, 1, 2 * MOST + 5)
    calls = [("effects removed", "jobs", MOST), ("more", "effects", 1)]
    assert connection.cleanup() == calls
    assert connection.cleanup() == calls
    assert connection.cleanup() == [("effects removed", "jobs", 5)]
    assert connection.cleanup() == []


def test_a_job_with_many_effects(connection: Session) -> None:
    many(connection, 1, 1, MOST + 5)
    many(connection, 2, 2)
    assert connection.cleanup() == [("effects removed", "jobs", MOST), ("more", "effects", 1)]
    assert row(connection, "select count(*) from pgq.effect") == (6,)
    assert connection.cleanup() == [("effects removed", "jobs", 6)]


def test_many_jobs_with_several_effects(connection: Session) -> None:
    """It does not leave a piece before all of it is gone."""
    many(connection, 1, MOST, 2)
    for _ in range(2):
        assert connection.cleanup() == [("effects removed", "jobs", MOST), ("more", "effects", 1)]
    assert left(connection) == []


def test_behind_many_that_stay(connection: Session) -> None:
    """It goes on where it stopped, and round again, so nothing keeps it from the rest."""
    kept(connection, 2, MOST + 2)
    many(connection, 1, MOST + 3)
    assert connection.cleanup() == [("effects removed", "jobs", 1), ("more", "effects", 1)]
    many(connection, 1, 1)
    assert connection.cleanup() == [("effects removed", "jobs", 1)]
    assert left(connection) == list(range(1, MOST + 3))
    assert connection.cleanup() == [("effects removed", "jobs", 1), ("more", "effects", 1)]
    assert left(connection) == list(range(2, MOST + 3))
    # nothing is removed, and so there is no more of it; the round goes on all the same
    for _ in range(3):
        assert connection.cleanup() == []


def test_one_that_is_being_settled(connect: Connect, connection: Session) -> None:
    """It is passed by, and found the next time."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 2)
    one, other = claim(connection, queue, 2)
    for job in (one, other):
        begin(connection, job)
        ack(connection, job)
    session = connect()
    assert finish(session, one) is True
    assert connection.cleanup() == [("effects removed", "jobs", 1)]
    session.commit()
    assert connection.cleanup() == [("effects removed", "jobs", 1)]
    assert finish(session, one) is False


def test_a_job_that_moves(connect: Connect, connection: Session, clock: Clock) -> None:
    """While others claim, bury and redrive it, it is never taken for one that has ended."""
    queue = new_queue(connection, max_attempts=1)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    begin(connection, job)
    session = connect()
    for move in (
        lambda: session.extend_lease(job_id=job.job_id, lease_token=job.lease_token),
        lambda: session.nack(job_id=job.job_id, lease_token=job.lease_token),
        lambda: session.redrive(queue=queue, all_jobs=True),
        lambda: claim_one(session, queue),
        lambda: session.purge_queue(queue=queue, all_jobs=True),
    ):
        move()
        connection.cleanup()
        assert left(connection) == [job.job_id]
        session.commit()
    connection.cleanup()
    assert left(connection) == []


def test_nothing_is_written_when_there_are_none(connection: Session) -> None:
    """The walk stays where it is, and an empty table is all that is looked at."""
    connection.execute("select setval('pgq.effect_walk', 5)")
    assert connection.cleanup() == []
    assert row(connection, "select last_value from pgq.effect_walk") == (5,)
