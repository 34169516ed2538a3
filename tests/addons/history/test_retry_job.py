"""retry_job: a job that waits for its time is due now."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.clock import Clock
from support.notes import noted, set_progress, snooze
from support.ordered import add, add_many, broken, ordered_queue
from support.queue import ack, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, refused, row, unchanged
from support.unique import add as add_unique
from support.unique import keys_of


def nack(session: Session, queue: str, delay: str | None) -> int:
    job = claim_one(session, queue)
    held = {"job_id": job.job_id, "lease_token": job.lease_token}
    assert session.nack(**held, delay=delay, error="no answer")
    return job.job_id


WAYS: dict[str, tuple[Callable[[Session, str], object], int, str | None]] = {
    "delay": (lambda s, q: enqueue(s, q, delay="1 hour"), 0, None),
    "delay of the queue": (lambda s, q: enqueue(s, q), 0, None),
    "run_at": (lambda s, q: enqueue(s, q, run_at="2099-01-01 00:00+00"), 0, None),
    "batch": (lambda s, q: enqueue_many(s, q, 1, delay="1 day"), 0, None),
    "backoff": (lambda s, q: (enqueue(s, q, delay="0"), nack(s, q, None)), 1, "no answer"),
    "nack": (lambda s, q: (enqueue(s, q, delay="0"), nack(s, q, "1 day")), 1, "no answer"),
    "snooze": (lambda s, q: (enqueue(s, q, delay="0"), snooze(s, claim_one(s, q))), 0, None),
    "snooze after a nack": (
        lambda s, q: (enqueue(s, q, delay="0"), nack(s, q, "0"), snooze(s, claim_one(s, q))),
        *(1, "no answer"),
    ),
}
"""How a job comes to wait, the attempts that it has had then, and its last error."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("priority", [0, 5])
def test_a_job_that_waits(connection: Session, way: str, priority: int) -> None:
    """It is due now, and all else stays as it was."""
    make, attempts, error = WAYS[way]
    queue = new_queue(connection, delay="1 hour", backoff="1 hour", no_limit=["job_ttl"])
    number = enqueue(connection, queue, "other", priority=priority, delay="2 hours")
    make(connection, queue)
    [[job_id]] = connection.execute(
        "select j.job_id from pgq.job as j inner join pgq.queue as q using (queue_id)"
        " where q.queue = %s and j.job_id <> %s",
        [queue, number],
    ).fetchall()
    before = connection.get_job(job_id=job_id)
    assert before.state == "delayed"
    started = row(connection, "select pgq._clock()")[0]
    assert connection.retry_job(job_id=job_id) is True
    found = connection.get_job(job_id=job_id)
    assert started <= found.due_at <= row(connection, "select pgq._clock()")[0]
    assert found._replace(due_at=None, state="") == before._replace(due_at=None, state="")
    assert (found.state, found.attempt, found.last_error) == ("ready", attempts, error)
    with unchanged(connection):
        assert connection.retry_job(job_id=job_id) is False
    job = claim_one(connection, queue)
    assert (job.job_id, job.attempt) == (job_id, attempts + 1)
    assert stats(connection, queue) == {"leased": 1, "delayed": 1}


def test_what_it_has(connection: Session) -> None:
    """Content, label, keys and notes."""
    queue = new_queue(connection)
    options = {"label": "l", "priority": 7, "key": "k", "headers": {"h": 1}, "unique_key": "u"}
    number = enqueue(connection, queue, "mine", **options)
    job = claim_one(connection, queue)
    assert set_progress(connection, job, [1])
    assert snooze(connection, job)
    assert connection.retry_job(job_id=number) is True
    assert noted(connection, number) == (1, [1])
    assert add_unique(connection, queue, "u") == (number, True)
    assert keys_of(connection, queue) == {"u": number}
    job = claim_one(connection, queue, label="l")
    assert (job.payload, job.key, job.headers, job.priority) == ("mine", "k", {"h": 1}, 7)


def test_the_order_of_claims(connection: Session, queue: str, clock: Clock) -> None:
    """A lower priority number comes first; else it goes behind what is due by then."""
    low, late = (enqueue(connection, queue, priority=p, delay="1 hour") for p in (1, 2))
    due = [enqueue(connection, queue, priority=p) for p in (0, 1, 2)]
    for number in (late, low):
        clock.advance("1 second")
        assert connection.retry_job(job_id=number) is True
    clock.advance("1 second")
    after = enqueue(connection, queue, priority=1)
    order = [due[0], due[1], low, after, due[2], late]
    assert [job.job_id for job in claim(connection, queue, 9)] == order


# ---------------------------------------------------------------------------- false


def test_a_job_that_is_due(connection: Session, queue: str, clock: Clock) -> None:
    """Ready, leased, or with a lease that has run out: its place in the order stays."""
    first, second = enqueue_many(connection, queue, 2)
    clock.advance("1 second")
    with unchanged(connection):
        assert connection.retry_job(job_id=first) is False
    job = claim_one(connection, queue)
    with unchanged(connection):
        assert connection.retry_job(job_id=first) is False
    clock.advance("31 seconds")
    with unchanged(connection):
        assert connection.retry_job(job_id=first) is False
    assert ack(connection, job)
    assert claim_one(connection, queue).job_id == second


def test_a_job_that_a_worker_has(connection: Session, queue: str) -> None:
    """Nobody gets it, however long its lease."""
    number = enqueue(connection, queue)
    job = claim_one(connection, queue, lease="1 day")
    assert connection.retry_job(job_id=number) is False
    assert claim(connection, queue) == []
    assert ack(connection, job) is True


def test_a_prefetched_job(connection: Session, queue: str) -> None:
    numbers = enqueue_many(connection, queue, 2)
    claim(connection, queue, 2, prefetch=True)
    with unchanged(connection):
        for number in numbers:
            assert connection.retry_job(job_id=number) is False


def test_an_ordered_queue(connection: Session, clock: Clock) -> None:
    """The first job of a key that waits for its time; not those that it blocks."""
    queue = ordered_queue(connection)
    first, second = add_many(connection, queue, ["k", "k"], delay="1 hour")
    third = add(connection, queue)
    with unchanged(connection):
        for number in (second, third):
            assert connection.retry_job(job_id=number) is False
    assert connection.retry_job(job_id=first) is True
    assert broken(connection) == []
    [job] = claim(connection, queue, 9)
    assert job.job_id == first
    assert snooze(connection, job)
    assert connection.retry_job(job_id=first) is True
    assert ack(connection, claim_one(connection, queue))
    # the second one still has its delay, and is the first of its key by now
    assert claim(connection, queue, 9) == []
    assert connection.retry_job(job_id=third) is False
    assert connection.retry_job(job_id=second) is True
    assert claim_one(connection, queue).job_id == second
    assert broken(connection) == []


def test_a_limit_of_a_key(connection: Session) -> None:
    """A job that is blocked there is due already; one that waits is blocked once it is due."""
    queue = new_queue(connection, max_leased_per_key=1)
    first, second = add_many(connection, queue, ["a", "a"])
    late = add(connection, queue, "a", delay="1 hour")
    job = claim_one(connection, queue)
    assert claim(connection, queue, 9) == []
    assert connection.get_job(job_id=second).state == "waiting"
    with unchanged(connection):
        assert connection.retry_job(job_id=second) is False
    assert connection.retry_job(job_id=late) is True
    assert claim(connection, queue, 9) == []
    assert stats(connection, queue) == {"leased": 1, "waiting": 2}
    for number in (first, second, late):
        assert job.job_id == number
        assert ack(connection, job)
        job = claim_one(connection, queue) if number != late else job


def test_an_expired_job(connection: Session, clock: Clock) -> None:
    """It waited for longer than it may live."""
    queue = new_queue(connection, job_ttl="1 hour")
    number = enqueue(connection, queue)
    job = claim_one(connection, queue)
    assert connection.nack(job_id=number, lease_token=job.lease_token, delay="2 hours")
    clock.advance("61 minutes")
    assert connection.get_job(job_id=number).state == "expired"
    with unchanged(connection):
        assert connection.retry_job(job_id=number) is False
    connection.cleanup()
    with unchanged(connection):
        assert connection.retry_job(job_id=number) is False


def test_a_job_that_has_ended(connection: Session) -> None:
    """Finished in any way, dead, or never there."""
    queue = new_queue(connection)
    ended = enqueue_many(connection, queue, 4)
    done, archived, dead, cancelled = claim(connection, queue, 4)
    assert ack(connection, done)
    assert connection.archive_job(job_id=archived.job_id, lease_token=archived.lease_token)
    assert connection.reject_job(job_id=dead.job_id, lease_token=dead.lease_token)
    assert connection.cancel_job(job_id=cancelled.job_id)
    other = new_queue(connection)
    ended.append(enqueue(connection, other, delay="1 hour"))
    assert connection.purge_queue(queue=other, all_jobs=True).taken == 1
    ended.append(enqueue(connection, other, delay="1 hour"))
    connection.drop_queue(queue=other)
    with unchanged(connection):
        for number in (*ended, 0, -1, 2**62, 2**63 - 1):
            assert connection.retry_job(job_id=number) is False
        refused("22004", connection.retry_job, job_id=None)
    assert stats(connection, queue) == {"dead": 1}


# ---------------------------------------------------------------------------- who learns of it


def test_notification(connect: Connect, connection: Session, clock: Clock) -> None:
    """Where the queue asks for it, after the commit, and only of a job that is due by it."""
    quiet, loud = (new_queue(connection, notify=notify) for notify in (False, True))
    jobs = {queue: enqueue(connection, queue, delay="1 hour") for queue in (quiet, loud)}
    connection.execute("listen pgq_queue")
    assert list(connection.notifies(timeout=0.05)) == []
    session = connect()
    for number in jobs.values():
        assert session.retry_job(job_id=number) is True
    assert list(connection.notifies(timeout=0.05)) == []
    session.rollback()
    assert list(connection.notifies(timeout=0.05)) == []
    for _ in range(2):
        for number in jobs.values():
            session.retry_job(job_id=number)
            session.commit()
    found = list(connection.notifies(timeout=0.5))
    assert [(notice.channel, notice.payload) for notice in found] == [("pgq_queue", loud)]


def test_notification_of_a_restricted_queue(connection: Session) -> None:
    """Anybody may listen, so no name is told."""
    queue = new_queue(connection, notify=True, restricted=True)
    number = enqueue(connection, queue, delay="1 hour")
    connection.execute("listen pgq_queue")
    assert connection.retry_job(job_id=number) is True
    assert [notice.payload for notice in connection.notifies(timeout=0.5)] == [""]


@pytest.mark.parametrize("label", [None, "l"])
@pytest.mark.parametrize("priority", [0, 5])
@pytest.mark.parametrize("max_jobs", [1, 2])
def test_claims_find_it(
    connection: Session,
    queue: str,
    clock: Clock,
    label: str | None,
    priority: int,
    max_jobs: int,
) -> None:
    """Also above the low-water marks, which have been raised meanwhile."""
    options = {"label": label, "priority": priority}
    number = enqueue(connection, queue, delay="10 hours", **options)
    made = []
    for _ in range(8):
        made.append(enqueue(connection, queue, **options))
        clock.advance("20 minutes")
        for job in claim(connection, queue, max_jobs, label=label):
            assert ack(connection, job)
    raised = row(
        connection,
        "select max(f.floor_times[%s]) > pgq._clock() - interval '1 hour' from pgq.queue_floor as f"
        " inner join pgq.queue as q using (queue_id) where q.queue = %s",
        [priority + 1, queue],
    )
    assert raised == (True,)
    assert connection.retry_job(job_id=number) is True
    assert [job.job_id for job in claim(connection, queue, max_jobs, label=label)] == [number]


def test_a_paused_queue(connection: Session, queue: str) -> None:
    number = enqueue(connection, queue, delay="1 hour")
    connection.pause_queue(queue=queue)
    assert connection.retry_job(job_id=number) is True
    assert claim(connection, queue) == []
    connection.resume_queue(queue=queue)
    assert claim_one(connection, queue).job_id == number


def test_attempts_that_are_used_up(connection: Session) -> None:
    """Retried after max_attempts was lowered, it is a dead letter."""
    queue = new_queue(connection, backoff="1 hour")
    number = enqueue(connection, queue)
    nack(connection, queue, None)
    connection.alter_queue(queue=queue, max_attempts=1)
    assert connection.retry_job(job_id=number) is True
    assert claim(connection, queue) == []
    assert connection.get_job(job_id=number).state == "dead"


def test_a_payload_that_was_moved(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, retention="1 hour", job_ttl="30 days")
    number = enqueue(connection, queue, {"a": 1}, delay="10 days")
    for _ in range(8):
        clock.advance("1 hour")
        connection.cleanup()
    assert connection.retry_job(job_id=number) is True
    assert claim_one(connection, queue).payload == {"a": 1}


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_in_one_transaction(connect: Connect, connection: Session, queue: str, level: str) -> None:
    """Of what it has enqueued itself, too."""
    session = connect(isolation_level=level)
    number = enqueue(session, queue, delay="1 hour")
    session.execute("savepoint s")
    assert session.retry_job(job_id=number) is True
    assert session.retry_job(job_id=number) is False
    session.execute("rollback to savepoint s")
    assert session.retry_job(job_id=number) is True
    assert snooze(session, claim_one(session, queue)) is True
    assert session.retry_job(job_id=number) is True
    job = claim_one(session, queue)
    assert session.retry_job(job_id=number) is False
    assert ack(session, job)
    assert session.retry_job(job_id=number) is False
    session.commit()
    assert stats(connection, queue) == {}
