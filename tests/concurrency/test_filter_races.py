"""Calls about many jobs beside others: nothing is overlooked, or taken twice, or wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.clock import Clock
from support.filters import BY_FILTER, LETTERS, add_one, meant
from support.gate import Gate
from support.ordered import add, broken, ordered_queue
from support.queue import Job, ack, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, refused
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session, second_answer_of
from support.waiting import aside, blocked, results, settled

END = pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
LEASED = pytest.mark.parametrize("leased", [False, True])
EVERY = pytest.mark.parametrize("function", BY_FILTER)


def end(session: Session, commits: bool) -> None:
    session.commit() if commits else session.rollback()


def held(job: Job) -> dict[str, Any]:
    return {"job_id": job.job_id, "lease_token": job.lease_token}


def cancelled(session: Session, queue: str) -> list[int]:
    rows = session.execute(
        "select job_id from pgq.archived_jobs where queue = %s and outcome = 'cancelled'"
        " order by job_id",
        [queue],
    )
    return [job_id for (job_id,) in rows]


# ---------------------------------------------------------------------------- cancel_jobs


@END
@LEASED
def test_a_cancel_beside_a_claim(
    connect: Connect, connection: Session, leased: bool, commits: bool
) -> None:
    """It waits; a job that the worker has then is its own, unless leased ones are meant."""
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 2, labels=["x", "x"])
    one, other = connect(), connect(autocommit=True)
    job = claim_one(one, queue)
    assert job.job_id == ids[0]
    call = {"queue": queue, "label": "x", "leased": leased}
    answer = blocked(connection, other, lambda: other.cancel_jobs(**call))
    end(one, commits)
    kept = commits and not leased
    assert results(answer)[0].taken == (1 if kept else 2)
    assert cancelled(connection, queue) == ids[kept:]
    assert ack(connection, job) is kept


ENDS: dict[str, int] = {
    "nack": 1,
    "extend_lease": 1,
    "release_job": 1,
    "ack": 0,
    "archive_job": 0,
    "reject_job": 0,
}
"""How many are left that can be cancelled."""


@END
@pytest.mark.parametrize("how", ENDS)
def test_a_cancel_of_leased_jobs_beside_their_worker(
    connect: Connect, connection: Session, how: str, commits: bool
) -> None:
    """A job that goes back, or whose lease goes on, is not overlooked."""
    queue = new_queue(connection)
    job_id = enqueue(connection, queue, label="x")
    job = claim_one(connection, queue)
    one, other = connect(), connect(autocommit=True)
    assert one.call(how, **held(job))
    call = {"queue": queue, "label": "x", "leased": True}
    answer = blocked(connection, other, lambda: other.cancel_jobs(**call))
    end(one, commits)
    left = ENDS[how] if commits else 1
    assert results(answer)[0].taken == left
    assert cancelled(connection, queue) == [job_id][:left]
    assert ack(connection, job) is False
    assert meant(connection, "cancel_jobs", queue) == set()


@END
@pytest.mark.parametrize("ordered", [False, True])
def test_two_cancels(connect: Connect, connection: Session, ordered: bool, commits: bool) -> None:
    """Each job is cancelled once, and the keys go on."""
    queue = ordered_queue(connection) if ordered else new_queue(connection)
    ids = [add(connection, queue, f"k{n % 3}", label="x") for n in range(9)]
    left = add(connection, queue, "k0", label="y")
    one, other = connect(), connect(autocommit=True)
    assert one.cancel_jobs(queue=queue, label="x").taken == 9
    answer = blocked(connection, other, lambda: other.cancel_jobs(queue=queue, label="x"))
    end(one, commits)
    assert results(answer)[0].taken == (0 if commits else 9)
    assert cancelled(connection, queue) == ids
    assert broken(connection) == []
    assert claim_one(connection, queue).job_id == left


def test_two_cancels_from_other_ends(connect: Connect, connection: Session) -> None:
    """Each stops at the first job that it changes; they meet in the middle without a deadlock."""
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 6, labels=["x", "x", "xy", "xy", "y", "y"])
    connection.execute("update pgq.job set last_error = label")
    gate = Gate(connection)
    one, other = connect(autocommit=True), connect(autocommit=True)
    call = {"queue": queue, "error_contains": "x"}
    with gate.stopping(one, lambda: one.cancel_jobs(**call)) as first:
        second = aside(lambda: other.cancel_jobs(queue=queue, error_contains="y"))
        settled(connection, other, second)
    assert sum(result.taken for result in results(first, second)) == 6
    assert cancelled(connection, queue) == ids


@pytest.mark.parametrize("lower", [True, False])
def test_a_cancel_beside_a_job_that_wants_its_key_back(
    connect: Connect, connection: Session, clock: Clock, lower: bool
) -> None:
    """Two jobs of one unique key, which the leased one has given up: no deadlock over it.

    Whichever id is the lower one: the cancel frees no key before it has the rows of both.
    """
    queue = new_queue(connection, unique_until="claimed", lease="1 minute")
    if lower:
        waiting = enqueue(connection, queue, unique_key="u")
        connection.reject_job(**held(claim_one(connection, queue)))
    leased = enqueue(connection, queue, unique_key="u")
    job = claim_one(connection, queue)
    clock.advance("61 seconds")
    if lower:
        assert connection.redrive(queue=queue, job_id=waiting).taken == 1
    else:
        waiting = enqueue(connection, queue, unique_key="u")
    assert (waiting < leased) is lower
    gate = Gate(connection, event="after delete", each="statement")
    worker, other = connect(autocommit=True), connect(autocommit=True)
    with gate.stopping(worker, lambda: worker.nack(**held(job))) as nacked:
        answer = aside(lambda: other.cancel_jobs(queue=queue, all_jobs=True))
        settled(connection, other, answer)
    assert results(nacked, answer)[0] is True
    assert waiting in cancelled(connection, queue)


# ------------------------------------------------------- between the look and the lock


@pytest.fixture
def look(connection: Session) -> str:
    """Have each look for jobs end with a wait for a lock, where the session asks for it."""
    connection.execute(
        """
        do $$
        begin
            execute replace(
                pg_get_functiondef('pgq._find_jobs'::regproc), '_find_jobs', '_find_jobs_at_once'
            );
        end
        $$;
        create or replace function pgq._find_jobs(act text, queue_id bigint, filter pgq._job_filter)
        returns pgq._found_jobs language plpgsql
        as $$
        declare
            found_jobs pgq._found_jobs := pgq._find_jobs_at_once(act, queue_id, filter);
        begin
            if current_setting('pgq_test.look', true) = 'slow' then
                perform pg_advisory_xact_lock(30777);
            end if;
            return found_jobs;
        end
        $$
        """
    )
    return "select pg_advisory_lock(30777)"


def change_error(session: Session, function: str, queue: str, job_id: int) -> None:
    """A further attempt fails with another error."""
    if function in LETTERS:
        assert session.redrive(queue=queue, job_id=job_id).taken == 1
    elif function == "retry_jobs":
        assert session.retry_job(job_id=job_id)
    job = claim_one(session, queue)
    assert job.job_id == job_id
    if function in LETTERS:
        assert session.reject_job(**held(job), error="new")
    else:
        delay = "0" if function == "cancel_jobs" else "1 hour"
        assert session.nack(**held(job), error="new", delay=delay)


@EVERY
@pytest.mark.parametrize("changes", [True, False])
def test_a_job_that_fails_otherwise_since_it_was_found(
    connect: Connect, connection: Session, look: str, function: str, changes: bool
) -> None:
    """It does not match any more, so it stays."""
    queue = new_queue(connection)
    job_id = add_one(connection, function, queue, error="old")
    if function == "cancel_jobs":
        connection.execute("update pgq.job set visible_at = pgq._clock()")
    session = connect(autocommit=True)
    session.execute("set pgq_test.look = 'slow'")
    connection.execute(look)
    call = {"queue": queue, "error_contains": "old"}
    answer = blocked(connection, session, lambda: session.call(function, **call))
    if changes:
        change_error(connection, function, queue, job_id)
    connection.execute("select pg_advisory_unlock_all()")
    assert results(answer)[0] == (0 if changes else 1, 1, None)
    left = {job_id} if changes else set()
    assert meant(connection, function, queue) == left


@LEASED
def test_a_job_that_is_claimed_since_it_was_found(
    connect: Connect, connection: Session, look: str, leased: bool
) -> None:
    queue = new_queue(connection)
    enqueue(connection, queue, label="x")
    session = connect(autocommit=True)
    session.execute("set pgq_test.look = 'slow'")
    connection.execute(look)
    call = {"queue": queue, "label": "x", "leased": leased}
    answer = blocked(connection, session, lambda: session.cancel_jobs(**call))
    job = claim_one(connection, queue)
    connection.execute("select pg_advisory_unlock_all()")
    assert results(answer)[0].taken == leased
    assert ack(connection, job) is not leased


# ---------------------------------------------------------------------------- retry_jobs


@END
def test_claims_beside_a_retry(connect: Connect, connection: Session, commits: bool) -> None:
    """They do not wait, and get the jobs when it has committed."""
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 3, labels=["x"] * 3, delay="1 day")
    one = connect()
    assert one.retry_jobs(queue=queue, label="x").taken == 3
    connection.execute("set lock_timeout = '1s'")
    assert claim(connection, queue, 9) == []
    end(one, commits)
    assert [job.job_id for job in claim(connection, queue, 9)] == (ids if commits else [])


@END
@pytest.mark.parametrize("how", ["retry_job", "cancel_job", "retry_jobs"])
def test_a_retry_beside_others(
    connect: Connect, connection: Session, how: str, commits: bool
) -> None:
    """A job that they have taken is not made due once more; one that they give back is."""
    queue = new_queue(connection)
    job_id = enqueue(connection, queue, label="x", delay="1 day")
    one, other = connect(), connect(autocommit=True)
    if how == "retry_jobs":
        assert one.retry_jobs(queue=queue, all_jobs=True).taken == 1
    else:
        assert one.call(how, job_id=job_id)
    answer = blocked(connection, other, lambda: other.retry_jobs(queue=queue, label="x"))
    end(one, commits)
    assert results(answer)[0].taken == (0 if commits else 1)
    assert len(claim(connection, queue, 9)) == (0 if commits and how == "cancel_job" else 1)


def test_a_retry_waits_for_no_claim(connect: Connect, connection: Session) -> None:
    """What a claim has is due, so it is not meant."""
    queue = new_queue(connection)
    enqueue(connection, queue, label="x")
    enqueue(connection, queue, label="x", delay="1 day")
    one = connect()
    claim_one(one, queue)
    connection.execute("set lock_timeout = '1s'")
    assert connection.retry_jobs(queue=queue, label="x") == (1, 2, None)
    one.commit()


# ---------------------------------------------------------------------------- letters


@END
@pytest.mark.parametrize("first", LETTERS)
@pytest.mark.parametrize("second", LETTERS)
def test_letters_that_two_calls_want(
    connect: Connect, connection: Session, first: str, second: str, commits: bool
) -> None:
    """The second one waits, and takes what the first one has left."""
    queue = new_queue(connection)
    for number in range(4):
        add_one(connection, "redrive", queue, label="xy"[number % 2], error="no")
    one, other = connect(), connect(autocommit=True)
    assert one.call(first, queue=queue, label="x").taken == 2
    call = {"queue": queue, "error_contains": "no"}
    answer = blocked(connection, other, lambda: other.call(second, **call))
    end(one, commits)
    assert results(answer)[0] == (2 if commits else 4, 4, None)
    redriven = (2 if commits and first == "redrive" else 0) + (
        (2 if commits else 4) if second == "redrive" else 0
    )
    assert stats(connection, queue) == ({"ready": redriven} if redriven else {})


# ---------------------------------------------------------------- above READ COMMITTED

SINCE: dict[str, tuple[str, Callable[[Session, Job], Any], int]] = {
    "a nack": ("cancel_jobs", lambda session, job: session.nack(**held(job)), 1),
    "a heartbeat": ("cancel_jobs", lambda session, job: session.extend_lease(**held(job)), 1),
    "an ack": ("cancel_jobs", lambda session, job: session.ack(**held(job)), 0),
    "a letter": ("cancel_jobs", lambda session, job: session.reject_job(**held(job)), 0),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("what", SINCE)
def test_leased_jobs_of_an_old_snapshot(
    connect: Connect, connection: Session, what: str, level: str
) -> None:
    """Try again, and then right."""
    _, change, expected = SINCE[what]
    queue = new_queue(connection)
    job_id = enqueue(connection, queue, label="x")
    job = claim_one(connection, queue)
    session = old_session(connect, level)
    assert change(connection, job)

    def cancel() -> int:
        return int(session.cancel_jobs(queue=queue, label="x", leased=True).taken)

    assert answer_of(session, cancel) == TRY_AGAIN
    assert cancelled(connection, queue) == []
    assert answer_of(session, cancel) == expected
    assert cancelled(connection, queue) == [job_id][:expected]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("function", ["cancel_jobs", "retry_jobs"])
@pytest.mark.parametrize("what", ["claim", "retry_job", "cancel_job", "nothing"])
def test_jobs_of_an_old_snapshot(
    connect: Connect, connection: Session, what: str, function: str, level: str
) -> None:
    """What has changed is not taken by what it was; what has come since is not seen."""
    queue = new_queue(connection)
    delay = "1 day" if function == "retry_jobs" else "0"
    job_id = enqueue(connection, queue, label="x", delay=delay)
    session = old_session(connect, level)
    enqueue(connection, queue, label="x", delay="1 day", priority=9)
    expected: Any = 1
    if what == "claim":
        connection.retry_job(job_id=job_id)
        assert claim_one(connection, queue).job_id == job_id
    elif what == "retry_job":
        expected = 1 if function == "retry_jobs" else 2
        assert connection.retry_job(job_id=job_id) is (function == "retry_jobs")
    elif what == "cancel_job":
        assert connection.cancel_job(job_id=job_id)
    changed = what in ("claim", "cancel_job") or (what, function) == ("retry_job", "retry_jobs")

    def act() -> int:
        return int(session.call(function, queue=queue, label="x").taken)

    first = answer_of(session, act)
    assert first == (TRY_AGAIN if changed else 1)
    if changed:
        assert answer_of(session, act) == expected
    assert second_answer_of(session, act) == (0 if changed else 1)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("function", LETTERS)
def test_letters_need_read_committed(
    connect: Connect, connection: Session, function: str, level: str
) -> None:
    queue = new_queue(connection)
    add_one(connection, function, queue, label="x")
    session = connect(isolation_level=level)
    for dry_run in (True, False):
        refused("25001", session.call, function, queue=queue, label="x", dry_run=dry_run)
        session.rollback()
    assert stats(connection, queue) == {"dead": 1}
