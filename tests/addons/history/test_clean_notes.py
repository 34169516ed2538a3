"""cleanup and what is noted of jobs: notes of jobs that have ended go; the others stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.clock import Clock
from support.notes import noted, set_progress, snooze
from support.queue import Job, ack, claim, claim_one, enqueue, enqueue_many, new_queue
from support.session import Connect, Session, row

MOST = 10_000
"""So many notes are looked at by one call."""


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
    connection.execute("select setval('pgq.job_note_walk', 0)")


def left(connection: Session) -> list[int]:
    """The jobs of which something is noted."""
    rows = connection.execute("select job_id from pgq.job_note order by 1").fetchall()
    return [job_id for (job_id,) in rows]


def many(connection: Session, first: int, last: int) -> None:
    """Notes of jobs of these ids, which need not be there."""
    connection.execute(
        "insert into pgq.job_note (job_id, snoozes)"
        " select j, 1 from generate_series(%s::bigint, %s) as j",
        [first, last],
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
    "cancel_job": lambda session, clock, queue, job: session.cancel_job(job_id=job.job_id),
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
        assert snooze(connection, claim_one(connection, name), "0")
    job, living = claim_one(connection, queue), claim_one(connection, other)
    for each in (job, living):
        assert set_progress(connection, each, each.job_id)
    connection.cleanup()
    assert left(connection) == [job.job_id, living.job_id]
    assert ENDS[end](connection, clock, queue, job) is not False
    assert ("notes removed", "jobs", 1) in connection.cleanup()
    assert left(connection) == [living.job_id]
    assert noted(connection, living.job_id) == (1, living.job_id)


def test_of_jobs_that_live_on(connection: Session) -> None:
    """Waiting, leased and dead ones keep theirs, and so does a redriven one."""
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 3)
    for job in claim(connection, queue, 3):
        assert set_progress(connection, job, job.payload)
        assert snooze(connection, job, "0")
    dead, _, waiting = claim(connection, queue, 3)
    assert connection.reject_job(job_id=dead.job_id, lease_token=dead.lease_token)
    assert snooze(connection, waiting)
    expected = [(1, 0), (1, 1), (2, 2)]
    for _ in range(2):
        assert connection.cleanup() == []
        assert [noted(connection, number) for number in ids] == expected
        connection.redrive(queue=queue, all_jobs=True)
    assert connection.get_job(job_id=dead.job_id).state == "ready"


@pytest.mark.parametrize("how", ["purge", "retention"])
def test_of_a_dead_letter_that_goes(connection: Session, clock: Clock, how: str) -> None:
    queue = new_queue(connection, max_attempts=1, retention="10 days")
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert set_progress(connection, job, 1)
    connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    connection.cleanup()
    assert left(connection) == [job.job_id]
    if how == "purge":
        assert connection.purge_queue(queue=queue, dead_only=True).taken == 1
    else:
        clock.advance("11 days")
    assert ("notes removed", "jobs", 1) in connection.cleanup()
    assert left(connection) == []


def test_a_piece_at_a_time(connection: Session) -> None:
    """As long as it says that there is more, there is."""
    many(connection, 1, 2 * MOST + 5)
    calls = [("notes removed", "jobs", MOST), ("more", "notes", 1)]
    assert connection.cleanup() == calls
    assert left(connection) == list(range(MOST + 1, 2 * MOST + 6))
    assert connection.cleanup() == calls
    assert connection.cleanup() == [("notes removed", "jobs", 5)]
    assert connection.cleanup() == []


def test_behind_many_that_stay(connection: Session) -> None:
    """It goes on where it stopped, and round again, so nothing keeps it from the rest."""
    kept(connection, 2, MOST + 2)
    many(connection, 1, MOST + 3)
    assert connection.cleanup() == [("notes removed", "jobs", 1), ("more", "notes", 1)]
    many(connection, 1, 1)
    assert connection.cleanup() == [("notes removed", "jobs", 1)]
    assert left(connection) == list(range(1, MOST + 3))
    assert connection.cleanup() == [("notes removed", "jobs", 1), ("more", "notes", 1)]
    assert left(connection) == list(range(2, MOST + 3))
    # nothing is removed, and so there is no more of it; the round goes on all the same
    for _ in range(3):
        assert connection.cleanup() == []


def test_it_waits_for_no_lock(connect: Connect, connection: Session) -> None:
    """A note that somebody has locked is passed by, and found the next time."""
    many(connection, 1, 3)
    session = connect()
    session.execute("select from pgq.job_note where job_id = 2 for update")
    connection.execute("set lock_timeout = '1ms'")
    assert connection.cleanup() == [("notes removed", "jobs", 2)]
    assert left(connection) == [2]
    session.commit()
    assert connection.cleanup() == [("notes removed", "jobs", 1)]


def test_a_job_that_moves(connect: Connect, connection: Session) -> None:
    """While others work on it, bury and redrive it, it is never taken for one that has ended."""
    queue = new_queue(connection, max_attempts=1)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert snooze(connection, job, "0")
    session = connect()

    def give_back() -> None:
        job = claim_one(session, queue)
        assert set_progress(session, job, 1)
        assert snooze(session, job)
        assert session.retry_job(job_id=job.job_id)

    def bury() -> None:
        job = claim_one(session, queue)
        assert session.nack(job_id=job.job_id, lease_token=job.lease_token)

    for move in (
        give_back,
        bury,
        lambda: session.redrive(queue=queue, all_jobs=True),
        lambda: claim_one(session, queue),
        lambda: session.purge_queue(queue=queue, all_jobs=True),
    ):
        move()
        assert connection.cleanup() == []
        assert left(connection) == [job.job_id]
        session.commit()
    assert connection.cleanup() == [("notes removed", "jobs", 1)]
    assert left(connection) == []


def test_nothing_is_written_when_there_are_none(connection: Session) -> None:
    """The walk stays where it is, and an empty table is all that is looked at."""
    connection.execute("select setval('pgq.job_note_walk', 5)")
    assert connection.cleanup() == []
    assert row(connection, "select last_value from pgq.job_note_walk") == (5,)
