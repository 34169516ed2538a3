"""retry_job, a release with a delay and set_progress beside others: the right answer, or 40001."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.clock import Clock
from support.notes import noted, set_progress, snooze
from support.queue import Job, ack, claim, claim_one, enqueue, new_queue, stats
from support.session import Connect, Session
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session, second_answer_of
from support.waiting import blocked

END = pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
ANY_LEVEL = pytest.mark.parametrize("level", ["read committed", *LEVELS])


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


def end(session: Session, commits: bool) -> None:
    session.commit() if commits else session.rollback()


def retry(session: Session, job_id: int) -> bool:
    answer = session.retry_job(job_id=job_id)
    assert isinstance(answer, bool)
    return answer


# ---------------------------------------------------------------------------- retry_job


def _claimed(session: Session, queue: str, job_id: int) -> None:
    assert retry(session, job_id)
    assert claim_one(session, queue).job_id == job_id


def _snoozed(session: Session, queue: str, job_id: int) -> None:
    _claimed(session, queue, job_id)
    token = session.execute("select lease_token from pgq.job where job_id = %s", [job_id])
    [(lease_token,)] = token.fetchall()
    assert session.release_job(job_id=job_id, lease_token=lease_token, delay="1 hour")


def _nacked(session: Session, queue: str, job_id: int) -> None:
    assert retry(session, job_id)
    job = claim_one(session, queue)
    assert session.nack(job_id=job_id, lease_token=job.lease_token, delay="1 hour")


def _acked(session: Session, queue: str, job_id: int) -> None:
    assert retry(session, job_id)
    assert ack(session, claim_one(session, queue))


FIRST: dict[str, tuple[Callable[[Session, str, int], object], bool, dict[str, int]]] = {
    "retry": (lambda session, queue, job_id: retry(session, job_id), False, {"ready": 1}),
    "claim": (_claimed, False, {"leased": 1}),
    "snooze": (_snoozed, True, {"ready": 1}),
    "nack": (_nacked, True, {"ready": 1}),
    "ack": (_acked, False, {}),
    "cancel": (lambda session, queue, job_id: session.cancel_job(job_id=job_id), False, {}),
    "purge": (
        lambda session, queue, job_id: session.purge_queue(queue=queue, all_jobs=True),
        *(False, {}),
    ),
    "drop": (lambda session, queue, job_id: session.drop_queue(queue=queue), False, {}),
}
"""What another one does to a job that waits, what a retry says after it, and what there is then."""


@END
@ANY_LEVEL
@pytest.mark.parametrize("first", FIRST)
def test_a_retry_beside_another_call(
    shared_connect: Connect, connection: Session, first: str, level: str, commits: bool
) -> None:
    """It waits for that one, and tells how that ended."""
    act, answer_after, left = FIRST[first]
    queue = new_queue(connection)
    number = enqueue(connection, queue, delay="1 hour")
    one, other = shared_connect(), shared_connect(isolation_level=level)
    act(one, queue, number)
    answer = blocked(connection, other, lambda: answer_of(other, lambda: retry(other, number)))
    end(one, commits)
    if commits and level != "read committed":
        assert answer.result(30) == TRY_AGAIN
        assert answer_of(other, lambda: retry(other, number)) is answer_after
    else:
        assert answer.result(30) is (answer_after or not commits)
    if first != "drop" or not commits:
        assert stats(connection, queue) == (left if commits else {"ready": 1})


@END
@ANY_LEVEL
@pytest.mark.parametrize("second", ["cancel_job", "purge_queue"])
def test_another_call_beside_a_retry(
    shared_connect: Connect, connection: Session, second: str, level: str, commits: bool
) -> None:
    """The job goes, wherever it stands by then."""
    queue = new_queue(connection)
    number = enqueue(connection, queue, delay="1 hour")
    one = shared_connect()
    other = shared_connect(isolation_level=level if second == "cancel_job" else "read committed")
    assert retry(one, number)

    def take() -> Any:
        if second == "cancel_job":
            return other.cancel_job(job_id=number)
        return other.purge_queue(queue=queue, all_jobs=True).taken

    answer = blocked(connection, other, lambda: answer_of(other, take))
    end(one, commits)
    answers = [answer.result(30)]
    if answers == [TRY_AGAIN]:
        assert commits
        assert level != "read committed"
        answers.append(answer_of(other, take))
    assert answers[-1] == 1
    assert stats(connection, queue) == {}


@END
@pytest.mark.parametrize("most", [1, 2])
def test_claims_pass_by_a_job_that_is_being_retried(
    shared_connect: Connect, connection: Session, most: int, commits: bool
) -> None:
    """They wait for nobody, and find it once the retry is committed."""
    queue = new_queue(connection)
    number = enqueue(connection, queue, delay="1 hour")
    one = shared_connect()
    assert retry(one, number)
    connection.execute("set lock_timeout = '1s'")
    assert claim(connection, queue, most) == []
    end(one, commits)
    assert [job.job_id for job in claim(connection, queue, most)] == [number] * commits


@END
@ANY_LEVEL
def test_a_job_that_a_worker_gives_back(
    shared_connect: Connect, connection: Session, level: str, commits: bool
) -> None:
    """As long as that is not committed it is leased: false, and nobody waits."""
    queue = new_queue(connection)
    number = enqueue(connection, queue)
    job = claim_one(connection, queue)
    one, other = shared_connect(), shared_connect(isolation_level=level)
    other.execute("set lock_timeout = '5s'")
    other.commit()
    if level == "read committed":
        assert snooze(one, job)
        assert retry(other, number) is False
        other.commit()
        end(one, commits)
    else:
        other.execute("select 1")
        assert snooze(one, job)
        end(one, commits)
        assert answer_of(other, lambda: retry(other, number)) in (TRY_AGAIN, False)
    assert answer_of(other, lambda: retry(other, number)) is commits
    assert stats(connection, queue) == ({"ready": 1} if commits else {"leased": 1})


def test_a_claim_that_the_clock_has_overtaken(
    shared_connect: Connect, connection: Session, shared_clock: Clock
) -> None:
    """A claim has the job, and by the clock, which was set back since, it is not due."""
    queue = new_queue(connection)
    number = enqueue(connection, queue, delay="1 hour")
    one, other = shared_connect(), shared_connect(autocommit=True)
    shared_clock.advance("2 hours")
    job = claim_one(one, queue)
    shared_clock.advance("-2 hours")
    answer = blocked(connection, other, lambda: retry(other, number))
    one.commit()
    assert answer.result(30) is False
    assert ack(connection, job)


SINCE: dict[str, tuple[bool, dict[str, int]]] = {
    "enqueued": (True, {"ready": 1}),
    "retried": (False, {"ready": 1}),
    "claimed": (False, {"leased": 1}),
    "snoozed": (True, {"ready": 1}),
    "acked": (False, {}),
    "dead": (False, {"dead": 1}),
    "cancelled": (False, {}),
}
"""What has become of a job since the snapshot, what a retry says, and what there is then."""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("since", SINCE)
def test_a_retry_by_an_old_snapshot(
    shared_connect: Connect, connection: Session, since: str, level: str
) -> None:
    """At the second try at the latest; it never says what is not so."""
    expected, left = SINCE[since]
    queue = new_queue(connection)
    number = None if since == "enqueued" else enqueue(connection, queue, delay="1 hour")
    if number is not None and since in ("snoozed", "acked", "dead"):
        assert retry(connection, number)
        job = claim_one(connection, queue)
    session = old_session(shared_connect, level)
    if number is None:
        number = enqueue(connection, queue, delay="1 hour")
    elif since in ("retried", "claimed"):
        assert retry(connection, number)
        assert since == "retried" or claim_one(connection, queue)
    elif since == "snoozed":
        assert snooze(connection, job)
    elif since == "acked":
        assert ack(connection, job)
    elif since == "dead":
        assert connection.reject_job(job_id=number, lease_token=job.lease_token)
    else:
        assert connection.cancel_job(job_id=number)
    assert second_answer_of(session, lambda: retry(session, number)) is expected
    assert stats(connection, queue) == left


# ---------------------------------------------------------------------------- after the lease


CALLS: dict[str, Callable[[Session, Job], bool]] = {
    "release_job": lambda session, job: snooze(session, job),
    "set_progress": lambda session, job: set_progress(session, job, "late"),
}
NOTED = {"release_job": (1, None), "set_progress": (0, "late")}


@END
@ANY_LEVEL
@pytest.mark.parametrize("call", CALLS)
def test_a_late_call_beside_the_next_claim(
    shared_connect: Connect,
    connection: Session,
    shared_clock: Clock,
    call: str,
    level: str,
    commits: bool,
) -> None:
    """Only if that claim is rolled back is the job still the first worker's."""
    queue = new_queue(connection)
    number = enqueue(connection, queue)
    slow = claim_one(connection, queue)
    shared_clock.advance("31 seconds")
    claimer, other = shared_connect(), shared_connect(isolation_level=level)
    quick = claim_one(claimer, queue)

    def work() -> Any:
        return answer_of(other, lambda: CALLS[call](other, slow))

    answer = blocked(connection, other, work)
    end(claimer, commits)
    if commits:
        assert answer.result(30) == (False if level == "read committed" else TRY_AGAIN)
        assert work() is False
        assert noted(connection, number) == (0, None)
        assert ack(connection, quick)
    else:
        assert answer.result(30) is True
        assert noted(connection, number) == NOTED[call]


@END
@ANY_LEVEL
@pytest.mark.parametrize("call", CALLS)
def test_the_next_claim_beside_a_late_call(
    shared_connect: Connect,
    connection: Session,
    shared_clock: Clock,
    call: str,
    level: str,
    commits: bool,
) -> None:
    """It passes over the job, and waits for nobody."""
    queue = new_queue(connection)
    number = enqueue(connection, queue)
    slow = claim_one(connection, queue)
    shared_clock.advance("31 seconds")
    one = shared_connect(isolation_level=level)
    assert CALLS[call](one, slow) is True
    connection.execute("set lock_timeout = '1s'")
    assert claim(connection, queue) == claim(connection, queue, 2) == []
    end(one, commits)
    assert noted(connection, number) == (NOTED[call] if commits else (0, None))
    attempts = [job.attempt for job in claim(connection, queue)]
    assert attempts == ([] if commits and call == "release_job" else [2])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("enqueued_since", [True, False])
def test_a_call_by_an_old_snapshot(
    shared_connect: Connect, connection: Session, call: str, enqueued_since: bool, level: str
) -> None:
    """The snapshot does not know that the job is the caller's."""
    queue = new_queue(connection)
    if not enqueued_since:
        enqueue(connection, queue)
    session = old_session(shared_connect, level)
    if enqueued_since:
        enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert second_answer_of(session, lambda: CALLS[call](session, job)) is True
    assert noted(connection, job.job_id) == NOTED[call]


@END
@ANY_LEVEL
def test_two_notes_at_a_time(
    shared_connect: Connect, connection: Session, level: str, commits: bool
) -> None:
    """They come one after the other, and the last one stays."""
    queue = new_queue(connection)
    number = enqueue(connection, queue)
    job = claim_one(connection, queue)
    one, other = shared_connect(), shared_connect(isolation_level=level)
    assert set_progress(one, job, "first") is True

    def work() -> Any:
        return answer_of(other, lambda: set_progress(other, job, "second"))

    answer = blocked(connection, other, work)
    end(one, commits)
    if commits and level != "read committed":
        assert answer.result(30) == TRY_AGAIN
        assert noted(connection, number) == (0, "first")
        assert work() is True
    else:
        assert answer.result(30) is True
    assert noted(connection, number) == (0, "second")


@END
@ANY_LEVEL
def test_progress_beside_the_end_of_the_job(
    shared_connect: Connect, connection: Session, level: str, commits: bool
) -> None:
    """As of a worker that tells it in a thread of its own."""
    queue = new_queue(connection)
    number = enqueue(connection, queue)
    job = claim_one(connection, queue)
    one, other = shared_connect(), shared_connect(isolation_level=level)
    assert snooze(one, job) is True

    def work() -> Any:
        return answer_of(other, lambda: set_progress(other, job, 1))

    answer = blocked(connection, other, work)
    end(one, commits)
    if commits:
        assert answer.result(30) == (False if level == "read committed" else TRY_AGAIN)
        assert work() is False
    else:
        assert answer.result(30) is True
    assert noted(connection, number) == ((1, None) if commits else (0, 1))
