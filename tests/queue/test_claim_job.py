"""claim_job: which jobs, in which order, for how long, and what becomes of those that crash."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, refused, row, unchanged


def test_priority_then_due_time_then_id(connection: Session, queue: str) -> None:
    """A smaller priority number goes first, then what is due longest."""
    connection.execute("select pgq.pause_queue(%s)", [queue])
    expected = []
    for priority in (9, 0, 5):
        ids = enqueue_many(connection, queue, 3, priority=priority)
        expected.append((priority, ids))
    connection.execute("select pgq.resume_queue(%s)", [queue])
    order = [job_id for _, ids in sorted(expected) for job_id in ids]
    first = claim(connection, queue, 4)
    assert [job.job_id for job in first] == order[:4]
    assert [job.priority for job in first] == [0, 0, 0, 5]
    assert [job.job_id for job in claim(connection, queue, 10)] == order[4:]


def test_what_is_due_longer_goes_first(connection: Session, queue: str, clock: Clock) -> None:
    """Not the smaller id: a job that was delayed stands behind those that came in meanwhile."""
    enqueue(connection, queue, "third", delay="30 seconds")
    enqueue(connection, queue, "second", delay="20 seconds")
    clock.advance("10 seconds")
    enqueue(connection, queue, "first")
    clock.advance("1 minute")
    assert [job.payload for job in claim(connection, queue, 10)] == ["first", "second", "third"]


def test_one_by_one(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 5)
    assert [claim_one(connection, queue).job_id for _ in ids] == ids
    assert claim(connection, queue) == []


def test_labels(connection: Session, queue: str) -> None:
    """A label asked for must match exactly; without one every job will do."""
    for label in ("a", "b", "a", None, "A", "ab"):
        enqueue(connection, queue, label, label=label)
    enqueue(connection, queue, "first", label="a", priority=0)
    enqueue(connection, queue, "last", label="a", priority=9)
    found = claim(connection, queue, 10, label="a")
    assert [job.payload for job in found] == ["a", "a", "first", "last"]
    assert {job.label for job in found} == {"a"}
    assert claim(connection, queue, 10, label="a") == []
    assert claim(connection, queue, 10, label="%") == []
    assert claim(connection, queue, 10, label="") == []
    assert [job.payload for job in claim(connection, queue, 1, label="ab")] == ["ab"]
    assert [job.payload for job in claim(connection, queue, 10)] == ["b", None, "A"]


def test_labels_wait_and_retry_like_others(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, max_attempts=2)
    enqueue(connection, queue, "now", label="x")
    enqueue(connection, queue, "later", label="x", delay="10 seconds")
    assert [job.payload for job in claim(connection, queue, 10, label="x")] == ["now"]
    clock.advance("31 seconds")
    assert [job.payload for job in claim(connection, queue, 10, label="x")] == ["later", "now"]
    clock.advance("31 seconds")
    assert [job.payload for job in claim(connection, queue, 10, label="x")] == ["later"]
    assert stats(connection, queue) == {"leased": 1, "dead": 1}


@pytest.mark.parametrize("number", [1, 2, 7])
def test_never_more_than_asked(connection: Session, queue: str, number: int) -> None:
    """Not with several priorities either, and what was not given out stays as it was."""
    for priority in range(3):
        enqueue_many(connection, queue, 3, priority=priority)
    assert len(claim(connection, queue, number)) == number
    assert stats(connection, queue).get("ready", 0) == 9 - number
    assert row(
        connection,
        "select count(*) from pgq.job as j inner join pgq.queue as q using (queue_id)"
        " where q.queue = %s and j.attempt > 0",
        [queue],
    ) == (number,)


def test_token(connection: Session, queue: str) -> None:
    """One for all jobs of a claim, another one for each claim."""
    enqueue_many(connection, queue, 6)
    tokens = [{job.lease_token for job in claim(connection, queue, 2)} for _ in range(3)]
    assert [len(each) for each in tokens] == [1, 1, 1]
    assert len(set.union(*tokens)) == 3


def test_lease(connection: Session, clock: Clock) -> None:
    """By default what the queue says; the claim may ask for another length."""
    queue = new_queue(connection, lease="1 minute")
    enqueue_many(connection, queue, 2)
    for lease, seconds in ((None, 60), ("2 hours", 7200)):
        [before] = row(connection, "select pgq._clock()")
        job = claim_one(connection, queue, lease=lease)
        [after] = row(connection, "select pgq._clock()")
        length = timedelta(seconds=seconds)
        assert before + length <= job.leased_until <= after + length
    assert stats(connection, queue) == {"leased": 2}
    assert claim(connection, queue, 10) == []
    clock.advance("61 seconds")
    [again] = claim(connection, queue, 10)
    assert again.attempt == 2


def test_lease_in_a_long_transaction(connect: Connect, queue: str) -> None:
    """It counts by the clock, not from the begin of the transaction: it is not born expired."""
    session = connect()
    enqueue(session, queue)
    session.commit()
    [begun] = row(session, "select now()")
    session.execute("select pg_sleep(0.2)")
    job = claim_one(session, queue, lease="100 milliseconds")
    [now] = row(session, "select clock_timestamp()")
    assert job.leased_until > begun + timedelta(milliseconds=290)
    assert now < job.leased_until + timedelta(seconds=1)


def test_not_acked_in_time(connection: Session, queue: str, clock: Clock) -> None:
    """The next claim gets the job, as attempt 2, with another token."""
    job_id = enqueue(connection, queue, "x")
    first = claim_one(connection, queue)
    clock.advance("29 seconds")
    assert claim(connection, queue) == []
    clock.advance("2 seconds")
    assert stats(connection, queue) == {"ready": 1}
    second = claim_one(connection, queue)
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.job_id == job_id
    assert second.payload == "x"
    assert second.enqueued_at == first.enqueued_at
    assert second.lease_token != first.lease_token


def test_crashes_count_as_attempts(connection: Session, clock: Clock) -> None:
    """After max_attempts deliveries that nobody ended, the claim itself buries the job."""
    queue = new_queue(connection, max_attempts=3)
    poison = enqueue(connection, queue, "poison", label="l", key="k", headers={"h": "1"})
    for attempt in (1, 2, 3):
        assert claim_one(connection, queue).attempt == attempt
        assert stats(connection, queue) == {"leased": 1}
        clock.advance("31 seconds")
    good = enqueue(connection, queue, "good")
    assert [job.job_id for job in claim(connection, queue)] == [good]
    assert row(
        connection,
        "select job_id, attempt, last_error, priority, label, key, headers, payload, body"
        " from pgq.dead_letters where queue = %s",
        [queue],
    ) == (
        poison,
        3,
        "the lease of the last attempt ran out",
        0,
        "l",
        "k",
        {"h": "1"},
        "poison",
        None,
    )
    assert stats(connection, queue) == {"leased": 1, "dead": 1}


def test_many_that_crashed_hide_none_behind_them(connection: Session, clock: Clock) -> None:
    """A claim goes on until it has a living job."""
    queue = new_queue(connection, max_attempts=1)
    enqueue_many(connection, queue, 20)
    assert len(claim(connection, queue, 20)) == 20
    clock.advance("31 seconds")
    living = enqueue(connection, queue)
    assert claim_one(connection, queue).job_id == living
    assert stats(connection, queue) == {"leased": 1, "dead": 20}


def test_one_that_expired_hides_no_crashed_one(connection: Session, clock: Clock) -> None:
    """It waits for cleanup, but what stands behind it becomes a dead letter now."""
    queue = new_queue(connection, job_ttl="3 hours", no_limit=["max_attempts"])
    expired = enqueue(connection, queue)
    clock.advance("2 hours")
    crashed = enqueue(connection, queue, max_attempts=1)
    assert [job.job_id for job in claim(connection, queue, 2)] == [expired, crashed]
    clock.advance("90 minutes")
    assert claim(connection, queue, 2) == []
    dead = connection.fetch_dead_letters(queue=queue)
    assert [letter.job_id for letter in dead] == [crashed]


@pytest.mark.parametrize("own", [False, True])
def test_one_that_expired_and_crashed_is_a_dead_letter(
    connection: Session, clock: Clock, own: bool
) -> None:
    """By the limit of its queue as by its own."""
    queue = new_queue(connection, job_ttl="3 hours", max_attempts=9 if own else 1)
    job_id = enqueue(connection, queue, **({"max_attempts": 1} if own else {}))
    claim(connection, queue, 1)
    clock.advance("4 hours")
    assert claim(connection, queue, 1) == []
    assert [letter.job_id for letter in connection.fetch_dead_letters(queue=queue)] == [job_id]


def test_all_crashed(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, max_attempts=1)
    enqueue_many(connection, queue, 3)
    claim(connection, queue, 3)
    clock.advance("31 seconds")
    assert claim(connection, queue, 10) == []
    assert stats(connection, queue) == {"dead": 3}


def test_without_a_limit_it_goes_on(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, no_limit=["max_attempts"])
    enqueue(connection, queue)
    for attempt in range(1, 12):
        assert claim_one(connection, queue).attempt == attempt
        clock.advance("31 seconds")
    assert stats(connection, queue) == {"ready": 1}


def test_null_is_the_default(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 3)
    [job] = connection.claim_job(queue=queue, max_jobs=None, lease=None, label=None)
    assert job[0] == ids[0]
    # with a label, and a priority that is not the first, too
    last = enqueue_many(connection, queue, 2, priority=9, labels=["l", "l"])
    [job] = connection.claim_job(queue=queue, max_jobs=None, label="l")
    assert job[0] == last[0]
    assert stats(connection, queue) == {"ready": 3, "leased": 2}


def test_nothing_to_do(connection: Session, queue: str) -> None:
    assert claim(connection, queue) == []
    assert claim(connection, queue, 100, label="x") == []


@pytest.mark.parametrize(
    ("sqlstate", "bad"),
    [
        ("MQ002", {"queue": "no-such-queue"}),
        ("MQ002", {"queue": 'quo"te'}),
        ("22004", {"queue": None}),
        ("22023", {"max_jobs": 0}),
        ("22023", {"max_jobs": -1}),
        ("22023", {"max_jobs": -2147483648}),
        ("22023", {"max_jobs": 100_001}),
        ("22023", {"label": "x" * 256}),
        ("22023", {"label": "x" * 9000}),
        ("22023", {"lease": "0"}),
        ("22023", {"lease": "-1 second"}),
        ("22023", {"lease": "36501 days"}),
    ],
)
def test_refusals(connection: Session, queue: str, sqlstate: str, bad: dict[str, Any]) -> None:
    enqueue(connection, queue)
    with unchanged(connection):
        refused(sqlstate, connection.claim_job, **{"queue": queue, **bad})
    assert stats(connection, queue) == {"ready": 1}


def test_twice_in_one_transaction(connect: Connect, connection: Session, queue: str) -> None:
    """Two different jobs, with different tokens; after a rollback both are free at once."""
    ids = enqueue_many(connection, queue, 2)
    session = connect()
    first, second = claim_one(session, queue), claim_one(session, queue)
    assert [first.job_id, second.job_id] == ids
    assert first.lease_token != second.lease_token
    assert claim(session, queue) == []
    session.rollback()
    assert [(job.job_id, job.attempt) for job in claim(connection, queue, 10)] == [
        (job_id, 1) for job_id in ids
    ]


def test_other_queues_are_left_alone(connection: Session, queue: str) -> None:
    other = new_queue(connection)
    enqueue(connection, other)
    assert claim(connection, queue, 10) == []
    mine = enqueue(connection, queue)
    assert [job.job_id for job in claim(connection, queue, 10)] == [mine]
    assert stats(connection, other) == {"ready": 1}


def test_a_job_nacked_goes_behind_those_that_wait(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 3)
    job = claim_one(connection, queue)
    connection.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")
    assert [j.job_id for j in claim(connection, queue, 10)] == [ids[1], ids[2], ids[0]]
