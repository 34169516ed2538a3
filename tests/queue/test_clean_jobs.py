"""cleanup and jobs: expired ones go, those that lost their last worker die, the dead go in time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, row

RAN_OUT = "the lease of the last attempt ran out"


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """In place of the one that the tests of this folder share."""
    return emptied_dsn


@pytest.fixture
def clock(emptied_clock: Clock) -> Clock:
    """The clock of that database."""
    return emptied_clock


def archived(connection: Session, queue: str) -> list[tuple[Any, ...]]:
    return connection.execute(
        "select payload, outcome, attempt from pgq.archived_jobs where queue = %s order by job_id",
        [queue],
    ).fetchall()


@pytest.mark.parametrize("archive", [True, False])
def test_expired_jobs(connection: Session, clock: Clock, archive: bool) -> None:
    """They go, and are noted where the queue archives; a worker that still has one may end it."""
    queue = new_queue(connection, job_ttl="1 hour", archive=archive)
    other = new_queue(connection, job_ttl="1 day")
    enqueue_many(connection, queue, 4)
    enqueue(connection, other)
    ended, held = claim(connection, queue, 2, lease="2 hours")
    claim_one(connection, queue, lease="64 minutes")
    clock.advance("61 minutes")
    assert ("jobs expired", queue, 1) in connection.cleanup()
    assert stats(connection, queue) == {"leased": 3}
    clock.advance("4 minutes")
    assert ("jobs expired", queue, 1) in connection.cleanup()
    assert connection.cleanup() == []
    assert connection.ack(job_id=ended.job_id, lease_token=ended.lease_token)
    assert archived(connection, queue) == (
        [(0, "acked", 1), (2, "expired", 1), (3, "expired", 0)] if archive else []
    )
    clock.advance("1 hour")
    assert ("jobs expired", queue, 1) in connection.cleanup()
    assert stats(connection, queue) == {}
    assert not connection.ack(job_id=held.job_id, lease_token=held.lease_token)
    assert stats(connection, other) == {"ready": 1}


def test_those_that_are_due_longest_expire_first(connection: Session, clock: Clock) -> None:
    """Where a call ends no more than some of them, whatever order they are stored in."""
    enqueue_many(connection, new_queue(connection), 3000)
    queue = new_queue(connection, job_ttl="1 hour")
    made = [
        enqueue_many(connection, queue, 40, delay=f"{10 - number} minutes") for number in range(10)
    ]
    connection.execute("vacuum analyze pgq.job")
    clock.advance("2 hours")
    # as cleanup has it, but for so few of them
    connection.execute("set enable_seqscan = off")
    (found,) = row(connection, "select pgq._expired_jobs('{(,)}', pgq._clock(), 320)")
    assert sorted(found) == sorted(job_id for ids in made[2:] for job_id in ids)


def test_all_expire_behind_many_that_have(connection: Session, clock: Clock) -> None:
    """Those that wait for their time, too, and none that a worker holds."""
    queue = new_queue(connection, job_ttl="1 hour")
    enqueue_many(connection, queue, 20)
    held = claim(connection, queue, 20, lease="1 day")
    enqueue_many(connection, queue, 30)
    for job in claim(connection, queue, 30):
        connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="2 days")
    enqueue_many(connection, queue, 150)
    clock.advance("2 hours")
    assert ("jobs expired", queue, 180) in connection.cleanup()
    assert stats(connection, queue) == {"leased": 20}
    for job in held:
        assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)


def test_jobs_whose_last_worker_was_lost(connection: Session, clock: Clock) -> None:
    """They become dead letters also when nobody claims any more."""
    queue = new_queue(connection, max_attempts=2)
    enqueue_many(connection, queue, 3)
    claim(connection, queue, 3)
    clock.advance("31 seconds")
    claim(connection, queue, 2)
    assert connection.cleanup() == []
    clock.advance("31 seconds")
    assert connection.cleanup() == [("jobs died", queue, 2)]
    assert connection.cleanup() == []
    assert stats(connection, queue) == {"ready": 1, "dead": 2}
    assert (
        connection.execute(
            "select attempt, last_error from pgq.dead_letters order by job_id"
        ).fetchall()
        == [(2, RAN_OUT)] * 2
    )


def test_their_last_error_is_kept(connection: Session, clock: Clock) -> None:
    """With what the workers said: the last nack if there was one, and then how it ended."""
    queue = new_queue(connection, max_attempts=3)
    enqueue_many(connection, queue, 3)
    for errors in ((None, "an old one", None), (None, "the newest one", None)):
        for job, error in zip(claim(connection, queue, 3), errors, strict=True):
            arguments = {"job_id": job.job_id, "lease_token": job.lease_token, "delay": "0"}
            assert connection.nack(**arguments, error=error)
    assert len(claim(connection, queue, 3)) == 3
    clock.advance("31 seconds")
    assert connection.cleanup() == [("jobs died", queue, 3)]
    letters = connection.execute(
        "select payload, attempt, last_error from pgq.dead_letters order by job_id"
    ).fetchall()
    assert letters[0] == (0, 3, RAN_OUT)
    assert letters[2] == (2, 3, RAN_OUT)
    payload, attempt, error = letters[1]
    assert (payload, attempt) == (1, 3)
    assert error.startswith("the newest one")
    assert RAN_OUT in error


def test_old_dead_letters(connection: Session, clock: Clock) -> None:
    """They are kept as long as the queue says from the day they died, or for ever."""
    settings: list[dict[str, Any]] = [
        {"retention": "10 days"},
        {"retention": "20 days"},
        {"no_limit": ["retention"]},
    ]
    queues = [new_queue(connection, max_attempts=1, **each) for each in settings]
    for queue in queues:
        enqueue(connection, queue, queue)
    clock.advance("5 days")
    for queue in queues:
        job = claim_one(connection, queue)
        connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    clock.advance(timedelta(days=10, seconds=-1))
    for _ in range(4):
        connection.cleanup()
    assert [stats(connection, queue) for queue in queues] == [{"dead": 1}] * 3
    assert {
        payload for (payload,) in connection.execute("select payload from pgq.dead_letters")
    } == {*queues}
    clock.advance("1 second")
    assert ("dead letters removed", queues[0], 1) in connection.cleanup()
    assert [stats(connection, queue) for queue in queues] == [{}, {"dead": 1}, {"dead": 1}]
    clock.advance("3000 days")
    assert ("dead letters removed", queues[1], 1) in connection.cleanup()
    assert connection.redrive(queue=queues[2], all_jobs=True).taken == 1
    assert claim_one(connection, queues[2]).payload == queues[2]


def test_a_job_that_came_for_a_dropped_queue(connect: Connect, connection: Session) -> None:
    queue = new_queue(connection)
    session = connect()
    enqueue(session, queue)
    connection.execute("select pgq.drop_queue(%s)", [queue])
    session.commit()
    assert row(connection, "select count(*) from pgq.job") == (1,)
    connection.cleanup()
    assert row(connection, "select count(*) from pgq.job") == (0,)


@pytest.mark.parametrize("beside", [False, True])
def test_jobs_below_the_floor(connection: Session, clock: Clock, beside: bool) -> None:
    """A clock that went back and came again may have left some there: cleanup finds them.

    Also beside another queue, whose floor is low and was raised oftener.
    """
    other, queue = new_queue(connection), new_queue(connection)
    if beside:
        enqueue(connection, other, label="waits")
        for _ in range(20):
            enqueue(connection, other, label="x")
            job = claim_one(connection, other, label="x")
            connection.ack(job_id=job.job_id, lease_token=job.lease_token)
            clock.advance("1 second")
            connection.cleanup()
    for _ in range(4):
        enqueue(connection, queue)
        job = claim_one(connection, queue)
        connection.ack(job_id=job.job_id, lease_token=job.lease_token)
        clock.advance("1 minute")
    clock.advance("-150 seconds")
    enqueue(connection, queue, "stranded", priority=0)
    clock.advance("10 minutes")
    assert connection.cleanup() == [("floor lowered", queue, 1)]
    assert connection.cleanup() == []
    assert claim_one(connection, queue).payload == "stranded"


@pytest.mark.parametrize("others", ["waiting", "claimed"])
def test_labelled_jobs_below_the_floor(connection: Session, clock: Clock, others: str) -> None:
    """Below that of their label, or that of all claims: one cleanup finds them as well."""
    queue = new_queue(connection)
    if others == "waiting":
        enqueue(connection, queue, "other", label="other")
    for _ in range(4):
        for label in ["x", "x" if others == "waiting" else None]:
            enqueue(connection, queue, label="x")
            job = claim_one(connection, queue, label=label)
            connection.ack(job_id=job.job_id, lease_token=job.lease_token)
        clock.advance("1 minute")
    clock.advance("-150 seconds")
    enqueue(connection, queue, "stranded", label="x")
    clock.advance("10 minutes")
    lowered = [] if others == "waiting" else [("floor lowered", queue, 1)]
    assert connection.cleanup() == lowered
    assert claim_one(connection, queue, label="x").payload == "stranded"


def begins(connection: Session) -> list[Any]:
    """Where the claims of a queue and of its labels begin."""
    return connection.execute(
        "select f.label, f.epoch, f.floor_times[1] from pgq.queue_floor as f"
        " where not exists (select from pgq.queue_floor as n where n.queue_id = f.queue_id"
        " and n.label = f.label and n.seq > f.seq) order by f.label"
    ).fetchall()


@pytest.mark.parametrize("label", [None, "x"])
def test_expired_jobs_below_the_floor(
    connect: Connect, connection: Session, clock: Clock, label: str | None
) -> None:
    """Floors rise above jobs that have expired and are not removed yet, and stay there."""
    queue = new_queue(connection)
    if label:
        enqueue(connection, queue, label="other")
    connection.alter_queue(queue=queue, job_ttl="1 hour")
    expired = enqueue(connection, queue, label=label)
    for _ in range(4):
        clock.advance("2 hours")
        enqueue(connection, queue, label=label)
        claim_one(connection, queue, label=label)
    session = connect()
    session.execute("select from pgq.job where job_id = %s for update", [expired])
    before = begins(connection)
    assert len(before) == (2 if label else 1)
    assert all(action != "floor lowered" for action, _, _ in connection.cleanup())
    for (name, epoch, old), (_, later_epoch, new) in zip(before, begins(connection), strict=True):
        assert new >= old, name
        assert later_epoch == epoch
    session.rollback()


def test_it_passes_by_jobs_that_others_hold(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """It does not wait for them, and comes back."""
    queue = new_queue(connection, job_ttl="1 hour", lease="1 day")
    enqueue_many(connection, queue, 3)
    job = claim_one(connection, queue)
    session = connect()
    assert session.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")
    clock.advance("2 hours")
    assert ("jobs expired", queue, 2) in connection.cleanup()
    session.commit()
    assert ("jobs expired", queue, 1) in connection.cleanup()


def test_it_passes_by_letters_that_others_redrive(
    connect: Connect, connection: Session, clock: Clock
) -> None:
    """All else of it is done meanwhile."""
    queue = new_queue(connection, max_attempts=1, retention="1 day", no_limit=["job_ttl"])
    other = new_queue(connection, job_ttl="1 hour")
    enqueue_many(connection, queue, 3)
    enqueue(connection, other)
    jobs = claim(connection, queue, 3)
    for job in jobs:
        assert connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    clock.advance("2 days")
    owner = connect()
    assert owner.redrive(queue=queue, job_id=jobs[0].job_id).taken == 1
    done = connection.cleanup()
    assert ("jobs expired", other, 1) in done
    assert ("dead letters removed", queue, 2) in done
    owner.commit()
    assert stats(connection, queue) == {"ready": 1}


def test_keys_whose_jobs_are_leased_when_the_clock_is_set_back(
    connection: Session, clock: Clock
) -> None:
    """They stay as full as they are."""
    queue = new_queue(connection, max_leased_per_key=1, lease="10 minutes")
    connection.enqueue(queue=queue, payload=1, key="k")
    first = claim_one(connection, queue)
    clock.advance("-1 hour")
    connection.enqueue(queue=queue, payload=2, key="k")
    clock.advance("1 minute")
    connection.cleanup()
    assert claim(connection, queue) == []
    connection.ack(job_id=first.job_id, lease_token=first.lease_token)
    assert claim_one(connection, queue).payload == 2
