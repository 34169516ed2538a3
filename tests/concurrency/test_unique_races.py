"""Two sessions and one unique key: one of them has it, and the other one learns who."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.clock import Clock
from support.queue import ack, claim, claim_one, new_queue, stats
from support.session import Connect, Session
from support.snapshots import LEVELS, TRY_AGAIN, answer_of
from support.unique import MODES, add, add_many, keys_of, loose_keys
from support.waiting import blocked

READ_COMMITTED = "read committed"
ALL_LEVELS = [READ_COMMITTED, *LEVELS]
END = pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


@pytest.fixture
def connect(shared_connect: Connect) -> Connect:
    return shared_connect


def end(session: Session, commits: bool) -> None:
    session.commit() if commits else session.rollback()


def waits_for(
    connection: Session, first: Session, second: Session, commits: bool, work: Callable[[], Any]
) -> Any:
    """What the work of the second comes to, which waits for the end of the first's transaction."""
    future = blocked(connection, second, lambda: answer_of(second, work))
    end(first, commits)
    answer = future.result(30)
    if answer == TRY_AGAIN:
        answer = answer_of(second, work)
    return answer


# ---------------------------------------------------------------------------- two enqueues


@END
@pytest.mark.parametrize("level", ALL_LEVELS)
@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
@pytest.mark.parametrize("mode", MODES)
def test_two_enqueues(
    connect: Connect, connection: Session, mode: str, batch: bool, level: str, commits: bool
) -> None:
    """The second waits; it gets the id of the first, or adds its own when that is rolled back."""
    queue = new_queue(connection, unique_until=mode)
    one, other = connect(), connect(isolation_level=level)
    first, _ = add(one, queue)

    def second() -> Any:
        return add_many(other, queue, ["a", "k", None])[1] if batch else add(other, queue)

    number, duplicate = waits_for(connection, one, other, commits, second)
    assert duplicate is commits
    assert (number == first) is commits
    assert keys_of(connection, queue)["k"] == number
    assert sum(stats(connection, queue).values()) == (3 if batch else 1)
    assert loose_keys(connection) == 0


@pytest.mark.parametrize("level", LEVELS)
def test_an_enqueue_since_the_snapshot(connect: Connect, connection: Session, level: str) -> None:
    queue = new_queue(connection)
    session = connect(isolation_level=level)
    session.execute("select 1")
    number, _ = add(connection, queue)
    assert answer_of(session, lambda: add(session, queue)) == TRY_AGAIN
    assert answer_of(session, lambda: add(session, queue)) == (number, True)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("again", [False, True])
def test_a_job_that_was_finished_since_the_snapshot(
    connect: Connect, connection: Session, level: str, again: bool
) -> None:
    """The snapshot still shows it; it is no duplicate of that one."""
    queue = new_queue(connection)
    number, _ = add(connection, queue)
    session = connect(isolation_level=level)
    session.execute("select 1")
    assert ack(connection, claim_one(connection, queue))
    second = add(connection, queue)[0] if again else None
    answer = answer_of(session, lambda: add(session, queue))
    if answer == TRY_AGAIN:
        answer = answer_of(session, lambda: add(session, queue))
    if again:
        assert answer == (second, True)
    else:
        assert answer[0] > number
        assert answer[1] is False


@pytest.mark.parametrize("level", LEVELS)
def test_twice_after_a_job_that_was_finished_since_the_snapshot(
    connect: Connect, connection: Session, level: str
) -> None:
    """The snapshot shows that one and the transaction's own, which the second enqueue is told."""
    queue = new_queue(connection)
    add(connection, queue)
    session = connect(isolation_level=level)
    session.execute("select 1")
    assert ack(connection, claim_one(connection, queue))

    def twice() -> Any:
        return add(session, queue), add(session, queue)

    answer = answer_of(session, twice)
    if answer == TRY_AGAIN:
        answer = answer_of(session, twice)
    first, second = answer
    assert first[1] is False
    assert second == (first[0], True)


# ---------------------------------------------------------------------------- what ends the job

ENDS: dict[str, Callable[[Session, Any, str], Any]] = {
    "ack": lambda session, job, queue: ack(session, job),
    "ack_batch": lambda session, job, queue: session.ack_batch(
        job_ids=[job.job_id], lease_token=job.lease_token
    ),
    "finish_and_claim": lambda session, job, queue: [
        session.finish_and_claim(queue=queue, job_ids=[job.job_id], lease_token=job.lease_token)
    ],
    "reject_job": lambda session, job, queue: session.reject_job(
        job_id=job.job_id, lease_token=job.lease_token
    ),
    "cancel_job": lambda session, job, queue: session.cancel_job(job_id=job.job_id),
    "purge_queue": lambda session, job, queue: (
        session.purge_queue(queue=queue, all_jobs=True).taken
    ),
}


@END
@pytest.mark.parametrize("level", ALL_LEVELS)
@pytest.mark.parametrize("how", ENDS)
def test_an_enqueue_beside_what_ends_the_job(
    connect: Connect, connection: Session, how: str, level: str, commits: bool
) -> None:
    """It waits, and is new when the job has ended; a duplicate when that is rolled back."""
    queue = new_queue(connection)
    number, _ = add(connection, queue)
    job = claim_one(connection, queue)
    one, other = connect(), connect(isolation_level=level)
    assert ENDS[how](one, job, queue)
    second, duplicate = waits_for(connection, one, other, commits, lambda: add(other, queue))
    assert duplicate is not commits
    assert (second == number) is not commits
    assert keys_of(connection, queue) == {"k": second}
    assert loose_keys(connection) == 0


@END
def test_cleanup_beside_an_enqueue(
    connect: Connect, connection: Session, shared_clock: Clock, commits: bool
) -> None:
    """A dead letter that goes takes its key along."""
    queue = new_queue(connection, unique_until="removed", retention="1 day")
    number, _ = add(connection, queue)
    job = claim_one(connection, queue)
    assert connection.reject_job(job_id=number, lease_token=job.lease_token)
    shared_clock.advance("25 hours")
    one, other = connect(), connect()
    one.cleanup()
    second, duplicate = waits_for(connection, one, other, commits, lambda: add(other, queue))
    assert duplicate is not commits
    assert (second == number) is not commits


@pytest.mark.parametrize("mode", ["finished", "removed"])
def test_an_ack_does_not_wait_for_a_duplicate(
    connect: Connect, connection: Session, mode: str
) -> None:
    """Transactions that were told of the job hold up nobody who works on it."""
    queue = new_queue(connection, unique_until=mode)
    number, _ = add(connection, queue)
    job = claim_one(connection, queue)
    for level in ALL_LEVELS:
        assert add(connect(isolation_level=level), queue) == (number, True)
    connection.execute("set lock_timeout = '1s'")
    assert connection.extend_lease(job_id=number, lease_token=job.lease_token)
    assert ack(connection, job)


# ---------------------------------------------------------------------------- claims


@END
@pytest.mark.parametrize("level", ALL_LEVELS)
@pytest.mark.parametrize("most", [1, 2])
def test_an_enqueue_beside_a_claim(
    connect: Connect, connection: Session, level: str, most: int, commits: bool
) -> None:
    """Where a claim gives the key back the enqueue waits for it, and is new then."""
    queue = new_queue(connection, unique_until="claimed")
    number, _ = add(connection, queue)
    one, other = connect(), connect(isolation_level=level)
    assert [job.job_id for job in claim(one, queue, most)] == [number]
    second, duplicate = waits_for(connection, one, other, commits, lambda: add(other, queue))
    assert duplicate is not commits
    assert (second == number) is not commits
    assert keys_of(connection, queue) == {"k": second}


@pytest.mark.parametrize("mode", ["finished", "removed"])
def test_an_enqueue_does_not_wait_for_a_claim(
    connect: Connect, connection: Session, mode: str
) -> None:
    """Nor for a heartbeat, where the key stays what it was."""
    queue = new_queue(connection, unique_until=mode)
    number, _ = add(connection, queue)
    one = connect()
    job = claim_one(one, queue)
    connection.execute("set lock_timeout = '1s'")
    assert add(connection, queue) == (number, True)
    one.commit()
    assert one.extend_lease(job_id=number, lease_token=job.lease_token)
    assert add(connection, queue) == (number, True)


def test_an_enqueue_does_not_wait_for_a_worker_that_is_late(
    connect: Connect, connection: Session, shared_clock: Clock
) -> None:
    """The job has expired, and its lease has run out, while it is being given a longer one."""
    queue = new_queue(connection, job_ttl="1 hour")
    number, _ = add(connection, queue)
    job = claim_one(connection, queue, lease="30 minutes")
    worker = connect()
    assert worker.extend_lease(job_id=number, lease_token=job.lease_token)
    shared_clock.advance("2 hours")
    connection.execute("set lock_timeout = '1s'")
    assert add(connection, queue) == (number, True)
    worker.rollback()
    assert add(connection, queue)[1] is False


@END
@pytest.mark.parametrize("level", ALL_LEVELS)
@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
def test_a_claim_passes_over_what_somebody_relies_on(
    connect: Connect, connection: Session, level: str, batch: bool, commits: bool
) -> None:
    """A worker of the job is to see what the transaction did that was told of a duplicate."""
    queue = new_queue(connection, unique_until="claimed")
    number, _ = add(connection, queue)
    other, _ = add(connection, queue, "other")
    session = connect(isolation_level=level)
    if batch:
        assert add_many(session, queue, [None, "k"])[1] == (number, True)
    else:
        assert add(session, queue) == (number, True)
    # a second one relies on it too
    assert add(connection, queue) == (number, True)
    assert [job.job_id for job in claim(connection, queue, 9)] == [other]
    assert claim(connection, queue) == []
    end(session, commits)
    assert claim_one(connection, queue).job_id == number


@END
@pytest.mark.parametrize("way", ["nack", "release_job"])
def test_a_job_given_back_beside_an_enqueue(
    connect: Connect, connection: Session, way: str, commits: bool
) -> None:
    """It waits, and goes on without the key when the other one has it."""
    queue = new_queue(connection, unique_until="claimed")
    number, _ = add(connection, queue)
    job = claim_one(connection, queue)
    one, other = connect(), connect()
    second, _ = add(one, queue)
    held = {"job_id": number, "lease_token": job.lease_token}
    assert waits_for(connection, one, other, commits, lambda: other.call(way, **held)) is True
    assert keys_of(connection, queue) == {"k": second if commits else number}
    assert connection.get_job(job_id=number).unique_key == (None if commits else "k")
    assert loose_keys(connection) == 0


@pytest.mark.parametrize("level", LEVELS)
def test_a_job_given_back_by_an_old_snapshot(
    connect: Connect, connection: Session, level: str
) -> None:
    queue = new_queue(connection, unique_until="claimed")
    number, _ = add(connection, queue)
    job = claim_one(connection, queue)
    session = connect(isolation_level=level)
    session.execute("select 1")
    second, _ = add(connection, queue)

    def release() -> Any:
        return session.release_job(job_id=number, lease_token=job.lease_token)

    assert answer_of(session, release) == TRY_AGAIN
    assert answer_of(session, release) is True
    assert keys_of(connection, queue) == {"k": second}


# ---------------------------------------------------------------------------- redrive


def dead_letter(connection: Session, queue: str) -> int:
    number, _ = add(connection, queue)
    job = claim_one(connection, queue)
    assert connection.reject_job(job_id=number, lease_token=job.lease_token)
    assert isinstance(number, int)
    return number


@END
@pytest.mark.parametrize("every", [True, False])
def test_a_redrive_beside_an_enqueue(
    connect: Connect, connection: Session, every: bool, commits: bool
) -> None:
    """It waits; the letter stays where it is when another job has its key then."""
    queue = new_queue(connection)
    number = dead_letter(connection, queue)
    one, other = connect(), connect()
    second, _ = add(one, queue)
    which = {"all_jobs": True} if every else {"job_id": number}

    def redrive() -> Any:
        return other.redrive(queue=queue, **which).taken

    assert waits_for(connection, one, other, commits, redrive) == (0 if commits else 1)
    expected = {"ready": 1, "dead": 1} if commits else {"ready": 1}
    assert stats(connection, queue) == expected
    assert keys_of(connection, queue) == {"k": second if commits else number}


@END
@pytest.mark.parametrize("level", ALL_LEVELS)
@pytest.mark.parametrize("every", [True, False])
def test_an_enqueue_beside_a_redrive(
    connect: Connect, connection: Session, level: str, every: bool, commits: bool
) -> None:
    queue = new_queue(connection)
    number = dead_letter(connection, queue)
    one, other = connect(), connect(isolation_level=level)
    assert (
        one.redrive(queue=queue, **({"all_jobs": True} if every else {"job_id": number})).taken == 1
    )
    second, duplicate = waits_for(connection, one, other, commits, lambda: add(other, queue))
    assert duplicate is commits
    assert (second == number) is commits
    assert loose_keys(connection) == 0


def test_two_redrives_of_one_letter(connect: Connect, connection: Session) -> None:
    """The second finds none, and leaves no key behind."""
    queue = new_queue(connection)
    number = dead_letter(connection, queue)
    one, other = connect(), connect()
    assert one.redrive(queue=queue, job_id=number).taken == 1
    answer = waits_for(
        connection, one, other, True, lambda: other.redrive(queue=queue, job_id=number).taken
    )
    assert answer == 0
    assert ack(connection, claim_one(connection, queue))
    assert keys_of(connection, queue) == {}


def test_a_redrive_of_all_beside_a_purge(connect: Connect, connection: Session) -> None:
    """It finds no letter any more, and leaves no key behind that keeps others out."""
    queue = new_queue(connection)
    number = dead_letter(connection, queue)
    one, other = connect(), connect()
    assert one.purge_queue(queue=queue, all_jobs=True).taken == 1
    answer = waits_for(
        connection, one, other, True, lambda: other.redrive(queue=queue, all_jobs=True).taken
    )
    assert answer == 0
    assert keys_of(connection, queue) == {}
    assert add(connection, queue)[0] > number
