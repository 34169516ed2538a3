"""cancel_job, release_job and reject_job beside others: one wins, and the other one says no."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import Job, ack, claim, claim_one, enqueue, new_queue, stats
from support.session import Connect, Session, row
from support.snapshots import LEVELS, answer_of, old_session, second_answer_of
from support.waiting import blocked

END = pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
ENDS = ["ack", "nack", "archive_job", "release_job", "reject_job"]
LEFT: dict[str, dict[str, int]] = {
    "nack": {"delayed": 1},
    "release_job": {"ready": 1},
    "reject_job": {"dead": 1},
}
"""What is left of a job by its end; nothing by the others."""


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


def finish(session: Session, end: str, job: Job) -> Any:
    """Whether the job was the caller's."""
    if end == "cancel_job":
        return session.cancel_job(job_id=job.job_id)
    return session.call(end, job_id=job.job_id, lease_token=job.lease_token)


def outcomes(connection: Session, queue: str) -> list[str]:
    rows = connection.execute(
        "select outcome from pgq.archived_jobs where queue = %s", [queue]
    ).fetchall()
    return [outcome for (outcome,) in rows]


# ---------------------------------------------------------------------------- cancel_job


@END
@pytest.mark.parametrize("most", [1, 2])
def test_a_cancel_beside_a_claim(
    shared_connect: Connect, connection: Session, most: int, commits: bool
) -> None:
    """It waits for that one transaction, and takes the job from the worker, if it got it."""
    queue = new_queue(connection)
    number = enqueue(connection, queue)
    one, other = shared_connect(), shared_connect(autocommit=True)
    [job] = claim(one, queue, most)
    answer = blocked(connection, other, lambda: other.cancel_job(job_id=number))
    one.commit() if commits else one.rollback()
    assert answer.result(30) is True
    assert ack(connection, job) is False
    assert claim(connection, queue) == []
    assert outcomes(connection, queue) == ["cancelled"]


@END
def test_claims_pass_by_a_job_that_is_being_cancelled(
    shared_connect: Connect, connection: Session, commits: bool
) -> None:
    queue = new_queue(connection)
    number = enqueue(connection, queue)
    one = shared_connect()
    assert one.cancel_job(job_id=number)
    connection.execute("set lock_timeout = '1s'")
    assert claim(connection, queue) == claim(connection, queue, 2) == []
    one.commit() if commits else one.rollback()
    assert len(claim(connection, queue)) == (0 if commits else 1)


@END
@pytest.mark.parametrize("end", [*ENDS, "extend_lease"])
def test_a_cancel_beside_an_end(
    shared_connect: Connect, connection: Session, end: str, commits: bool
) -> None:
    """False when the job is finished by then, or dead; else it is cancelled."""
    queue = new_queue(connection)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    one, other = shared_connect(), shared_connect(autocommit=True)
    assert finish(one, end, job) is True
    answer = blocked(connection, other, lambda: other.cancel_job(job_id=job.job_id))
    one.commit() if commits else one.rollback()
    gone = commits and end in ("ack", "archive_job", "reject_job")
    assert answer.result(30) is not gone
    assert stats(connection, queue) == (LEFT.get(end, {}) if gone else {})


@END
@pytest.mark.parametrize("end", ENDS)
def test_an_end_beside_a_cancel(
    shared_connect: Connect, connection: Session, end: str, commits: bool
) -> None:
    queue = new_queue(connection)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    one, other = shared_connect(), shared_connect(autocommit=True)
    assert one.cancel_job(job_id=job.job_id)
    answer = blocked(connection, other, lambda: finish(other, end, job))
    one.commit() if commits else one.rollback()
    assert answer.result(30) is not commits
    assert stats(connection, queue) == ({} if commits else LEFT.get(end, {}))
    if commits:
        assert outcomes(connection, queue) == ["cancelled"]


@END
def test_two_cancels(shared_connect: Connect, connection: Session, commits: bool) -> None:
    queue = new_queue(connection)
    number = enqueue(connection, queue)
    one, other = shared_connect(), shared_connect(autocommit=True)
    assert one.cancel_job(job_id=number)
    answer = blocked(connection, other, lambda: other.cancel_job(job_id=number))
    one.commit() if commits else one.rollback()
    assert answer.result(30) is not commits
    assert outcomes(connection, queue) == ["cancelled"]


def test_a_job_that_nobody_sees_yet(shared_connect: Connect, connection: Session) -> None:
    """It is not there, and nobody waits for it."""
    queue = new_queue(connection)
    one = shared_connect()
    number = enqueue(one, queue)
    connection.execute("set lock_timeout = '1s'")
    assert connection.cancel_job(job_id=number) is False
    one.commit()
    assert connection.cancel_job(job_id=number) is True


def test_a_job_that_is_replaced_again_and_again(
    shared_connect: Connect, connection: Session
) -> None:
    """What the cancel waits for is another row by then; it is found all the same."""
    queue = new_queue(connection)
    number = enqueue(connection, queue)
    one, other = shared_connect(), shared_connect(autocommit=True)
    for _ in range(3):
        assert finish(one, "release_job", claim_one(one, queue))
    answer = blocked(connection, other, lambda: other.cancel_job(job_id=number))
    one.commit()
    assert answer.result(30) is True
    assert stats(connection, queue) == {}


@END
def test_cleanup_beside_a_cancel(
    shared_connect: Connect, connection: Session, shared_clock: Clock, commits: bool
) -> None:
    """A job that expires is left to it."""
    queue = new_queue(connection, job_ttl="1 hour")
    number = enqueue(connection, queue)
    shared_clock.advance("2 hours")
    one = shared_connect()
    assert one.cancel_job(job_id=number)
    connection.cleanup()
    one.commit() if commits else one.rollback()
    connection.cleanup()
    assert outcomes(connection, queue) == ["cancelled" if commits else "expired"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("since", ["enqueued", "claimed", "given back", "claimed again"])
def test_a_cancel_by_an_old_snapshot(
    shared_connect: Connect, connection: Session, shared_clock: Clock, since: str, level: str
) -> None:
    """It cancels the job, at the second try at the latest; it never says that there is none."""
    queue = new_queue(connection)
    session = old_session(shared_connect, level)
    number = enqueue(connection, queue)
    if since != "enqueued":
        session.rollback()
        job = claim_one(connection, queue) if since != "claimed" else None
        session.execute("select 1")
        if job is None:
            claim_one(connection, queue)
        elif since == "given back":
            assert connection.release_job(job_id=number, lease_token=job.lease_token)
        else:
            shared_clock.advance("31 seconds")
            claim_one(connection, queue)
    assert second_answer_of(session, lambda: session.cancel_job(job_id=number)) is True
    assert outcomes(connection, queue) == ["cancelled"]
    assert stats(connection, queue) == {}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("end", ["ack", "reject_job", "cancel_job"])
def test_a_cancel_of_what_has_ended_since(
    shared_connect: Connect, connection: Session, end: str, level: str
) -> None:
    queue = new_queue(connection)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    session = old_session(shared_connect, level)
    assert finish(connection, end, job) is True
    assert second_answer_of(session, lambda: session.cancel_job(job_id=job.job_id)) is False
    assert len(outcomes(connection, queue)) == (0 if end == "reject_job" else 1)


@pytest.mark.parametrize("level", LEVELS)
def test_a_whole_life(shared_connect: Connect, connection: Session, level: str) -> None:
    """All of it in one transaction, twice, when nobody interferes."""
    session = shared_connect(isolation_level=level)
    queue = new_queue(session)
    for _ in range(2):
        number = enqueue(session, queue)
        job = claim_one(session, queue)
        assert finish(session, "release_job", job) is True
        assert finish(session, "release_job", job) is False
        assert session.cancel_job(job_id=number) is True
        assert session.cancel_job(job_id=number) is False
        enqueue(session, queue)
        job = claim_one(session, queue)
        assert finish(session, "reject_job", job) is True
        assert finish(session, "reject_job", job) is False
        assert session.cancel_job(job_id=job.job_id) is False
    session.commit()
    assert stats(connection, queue) == {"dead": 2}


# ---------------------------------------------------------------------------- the lease runs out


@END
@pytest.mark.parametrize("end", ["release_job", "reject_job"])
def test_a_late_end_beside_the_next_claim(
    shared_connect: Connect, connection: Session, shared_clock: Clock, end: str, commits: bool
) -> None:
    """Only if that claim is rolled back is the job still the first worker's."""
    queue = new_queue(connection)
    enqueue(connection, queue)
    slow = claim_one(connection, queue)
    shared_clock.advance("31 seconds")
    claimer, other = shared_connect(), shared_connect(autocommit=True)
    quick = claim_one(claimer, queue)
    answer = blocked(connection, other, lambda: finish(other, end, slow))
    claimer.commit() if commits else claimer.rollback()
    assert answer.result(30) is not commits
    assert stats(connection, queue) == ({"leased": 1} if commits else LEFT[end])
    if commits:
        assert quick.attempt == 2
        assert ack(connection, quick)


@END
@pytest.mark.parametrize("end", ["release_job", "reject_job"])
def test_the_next_claim_beside_a_late_end(
    shared_connect: Connect, connection: Session, shared_clock: Clock, end: str, commits: bool
) -> None:
    """It passes over the job; what was released does not count."""
    queue = new_queue(connection)
    enqueue(connection, queue)
    slow = claim_one(connection, queue)
    shared_clock.advance("31 seconds")
    one = shared_connect()
    assert finish(one, end, slow) is True
    connection.execute("set lock_timeout = '1s'")
    assert claim(connection, queue) == claim(connection, queue, 2) == []
    one.commit() if commits else one.rollback()
    found = claim(connection, queue)
    if commits and end == "reject_job":
        assert found == []
    else:
        assert [job.attempt for job in found] == [1 if commits else 2]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("end", ["release_job", "reject_job"])
@pytest.mark.parametrize("enqueued_since", [True, False])
def test_an_end_by_an_old_snapshot(
    shared_connect: Connect, connection: Session, end: str, enqueued_since: bool, level: str
) -> None:
    """The snapshot does not know that the job is the caller's."""
    queue = new_queue(connection)
    if not enqueued_since:
        enqueue(connection, queue)
    session = old_session(shared_connect, level)
    if enqueued_since:
        enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert second_answer_of(session, lambda: finish(session, end, job)) is True
    assert stats(connection, queue) == LEFT[end]
    assert answer_of(session, lambda: finish(session, end, job)) is False


def test_a_released_job_that_another_worker_got(
    shared_connect: Connect, connection: Session
) -> None:
    """It cannot be taken from that one by the first token."""
    queue = new_queue(connection)
    enqueue(connection, queue)
    first = claim_one(connection, queue)
    assert finish(connection, "release_job", first) is True
    second = claim_one(connection, queue)
    assert second.attempt == first.attempt == 1
    for end in (*ENDS, "extend_lease"):
        assert finish(connection, end, first) is False
    assert row(connection, "select attempt from pgq.job where job_id = %s", [first.job_id]) == (1,)
    assert ack(connection, second)
