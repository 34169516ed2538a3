"""Every call that makes a job due earlier than next_due said notifies, in a queue with notify."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.clock import Clock
from support.ordered import ordered_queue
from support.queue import ack, claim_one, enqueue, new_queue
from support.session import Connect, Session, new_name


def held(session: Session, queue: str) -> dict[str, Any]:
    """A job of the queue that is leased, as calls name it."""
    job = claim_one(session, queue)
    return {"job_id": job.job_id, "lease_token": job.lease_token}


def dead(session: Session, queue: str) -> int:
    """A dead letter of the queue."""
    enqueue(session, queue)
    job = held(session, queue)
    session.reject_job(**job)
    return int(job["job_id"])


def leased(session: Session, queue: str) -> dict[str, Any]:
    """A job that was enqueued and claimed."""
    enqueue(session, queue)
    return held(session, queue)


def delayed(session: Session, queue: str) -> int:
    """A job that waits for its time."""
    return enqueue(session, queue, delay="1 hour")


Prepare = Callable[[Session, str], Any]
Act = Callable[[Session, str, Any], Any]

CALLS: dict[str, tuple[Prepare, Act]] = {
    "enqueue": (lambda s, q: None, lambda s, q, _: enqueue(s, q)),
    "nack": (leased, lambda s, q, job: s.nack(**job)),
    "nack_batch": (
        leased,
        lambda s, q, job: s.nack_batch(job_ids=[job["job_id"]], lease_token=job["lease_token"]),
    ),
    "release_job": (leased, lambda s, q, job: s.release_job(**job)),
    "snooze": (leased, lambda s, q, job: s.release_job(**job, delay="1 second")),
    "retry_job": (delayed, lambda s, q, job_id: s.retry_job(job_id=job_id)),
    "redrive": (dead, lambda s, q, _: s.redrive(queue=q, all_jobs=True)),
    "resume_queue": (
        lambda s, q: s.pause_queue(queue=q),
        lambda s, q, _: s.resume_queue(queue=q),
    ),
    "alter_queue": (lambda s, q: None, lambda s, q, _: s.alter_queue(queue=q, max_attempts=3)),
}

ENDS: dict[str, Act] = {
    "ack": lambda s, q, job: s.ack(**job),
    "ack_batch": lambda s, q, job: s.ack_batch(
        job_ids=[job["job_id"]], lease_token=job["lease_token"]
    ),
    "archive_job": lambda s, q, job: s.archive_job(**job),
    "reject_job": lambda s, q, job: s.reject_job(**job),
    "cancel_job": lambda s, q, job: s.cancel_job(job_id=job["job_id"]),
}
"""Calls that end the first job of a key."""


def heard(listener: Session) -> list[str]:
    """What has been notified by now: a notification of its own comes behind all others."""
    mark = new_name("mark")
    listener.execute(f"notify pgq_queue, '{mark}'")
    found: list[str] = []
    for notice in listener.notifies(timeout=10):
        if notice.payload == mark:
            break
        found.append(notice.payload)
    return found


@pytest.fixture
def listener(connect: Connect) -> Session:
    """A session that listens to pgq_queue."""
    session = connect(autocommit=True)
    session.execute("listen pgq_queue")
    return session


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("settings", [{"notify": True}, {"notify": False}], ids=["loud", "quiet"])
def test_what_makes_a_job_due(
    connection: Session, listener: Session, call: str, settings: dict[str, bool]
) -> None:
    queue = new_queue(connection, backoff="0", **settings)
    prepare, act = CALLS[call]
    known = prepare(connection, queue)
    heard(listener)
    act(connection, queue, known)
    assert heard(listener) == ([queue] if settings["notify"] else [])


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("settings", [{"notify": True}, {"notify": False}], ids=["loud", "quiet"])
def test_the_end_of_the_first_job_of_a_key(
    connection: Session, listener: Session, end: str, settings: dict[str, bool]
) -> None:
    """The next one is due then, in an ordered queue and in one with a limit per key."""
    for queue in (
        ordered_queue(connection, **settings),
        new_queue(connection, max_leased_per_key=1, **settings),
    ):
        enqueue(connection, queue, key="k")
        enqueue(connection, queue, key="k")
        job = held(connection, queue)
        connection.claim_job(queue=queue)
        heard(listener)
        ENDS[end](connection, queue, job)
        assert heard(listener) == ([queue] if settings["notify"] else [])


def test_the_expiry_of_the_first_job_of_a_key(
    connection: Session, listener: Session, clock: Clock
) -> None:
    queue = ordered_queue(connection, notify=True, job_ttl="1 hour")
    enqueue(connection, queue, key="k", delay="50 minutes")
    clock.advance("30 minutes")
    second = enqueue(connection, queue, key="k")
    clock.advance("40 minutes")
    heard(listener)
    connection.cleanup()
    assert queue in heard(listener)
    clock.advance("1 second")
    assert claim_one(connection, queue).job_id == second


def test_a_wake_up_record(connect: Connect, connection: Session, listener: Session) -> None:
    """The end of a job whose next one is not known yet: another worker has to look."""
    queue = ordered_queue(connection, notify=True)
    enqueue(connection, queue, key="k")
    job = claim_one(connection, queue)
    writer = connect()
    enqueue(writer, queue, key="k")
    heard(listener)
    assert ack(connection, job)
    assert heard(listener) == [queue]
    writer.rollback()


@pytest.mark.parametrize("call", CALLS)
def test_a_restricted_queue(connection: Session, listener: Session, call: str) -> None:
    """Its name is nobody's business: the notification has none."""
    queue = new_queue(connection, backoff="0", notify=True, restricted=True)
    prepare, act = CALLS[call]
    known = prepare(connection, queue)
    heard(listener)
    act(connection, queue, known)
    assert heard(listener) == [""]


@pytest.mark.parametrize("notify", [True, False], ids=["loud", "quiet"])
def test_a_group(connection: Session, listener: Session, notify: bool) -> None:
    """release_poll, nack_offsets and seek make messages available to other members."""
    topic = new_name("topic")
    connection.create_topic(topic=topic, partitions=1, notify=notify)
    group = {"topic": topic, "consumer_group": "g"}
    connection.create_group(**group)
    connection.publish(topic=topic, payload=1)
    listener.execute("listen pgq_topic")
    expected = [topic] if notify else []

    def lent() -> dict[str, Any]:
        [got] = connection.poll(**group)
        heard(listener)
        return {**group, "partition": 0, "lease_token": got.lease_token}

    assert connection.release_poll(**lent())
    assert heard(listener) == expected
    assert connection.nack_offsets(**lent())
    assert heard(listener) == expected
    connection.seek(**group, start="earliest")
    assert heard(listener) == expected


@pytest.mark.parametrize("notify", [True, False], ids=["loud", "quiet"])
def test_repair_clock(connection: Session, listener: Session, clock: Clock, notify: bool) -> None:
    """What was written by a clock that was ahead is due earlier than an idle worker knows."""
    queue, topic = new_queue(connection, notify=notify), new_name("topic")
    connection.create_topic(topic=topic, partitions=1, notify=notify)
    listener.execute("listen pgq_topic")
    clock.advance("1 day")
    enqueue(connection, queue)
    clock.advance("-1 day")
    heard(listener)
    connection.repair_clock()
    assert {queue, topic} & {*heard(listener)} == ({queue, topic} if notify else set())
    assert claim_one(connection, queue)
