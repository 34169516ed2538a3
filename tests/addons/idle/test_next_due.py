"""next_due: how long a worker that found nothing may sleep."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.clock import Clock
from support.ordered import ordered_queue
from support.queue import Job, ack, claim, claim_one, enqueue, enqueue_many, new_queue
from support.session import Connect, Session, new_name, refused, row, unchanged
from support.subscription import new_followed_topic, publish_many


def seconds(session: Session, queue: str, label: str | None = None) -> float | None:
    """Seconds until the next job is due."""
    due_at = session.next_due(queue=queue, label=label)
    if due_at is None:
        return None
    left: timedelta = due_at - row(session, "select pgq._clock()")[0]
    return left.total_seconds()


def around(expected: float) -> Any:
    """So many seconds, but for what the test itself takes."""
    return pytest.approx(expected, abs=5.0)


def held(job: Job) -> dict[str, Any]:
    """How a job is named by who has it."""
    return {"job_id": job.job_id, "lease_token": job.lease_token}


def raise_floors(session: Session, clock: Clock, queue: str, **options: Any) -> None:
    """Claims that find nothing until the low-water marks have risen."""
    for _ in range(3):
        clock.advance("6 seconds")
        assert claim(session, queue, **options) == []


def test_no_job(connection: Session, queue: str) -> None:
    assert connection.next_due(queue=queue) is None
    enqueue(connection, queue)
    assert ack(connection, claim_one(connection, queue))
    assert connection.next_due(queue=queue) is None
    assert connection.next_due(queue=queue, label="l") is None


@pytest.mark.parametrize("priority", range(10))
def test_each_priority(connection: Session, queue: str, priority: int) -> None:
    enqueue(connection, queue, priority=9, delay="3 hours")
    enqueue(connection, queue, priority=0, delay="2 hours")
    enqueue(connection, queue, priority=priority, delay="1 hour")
    assert seconds(connection, queue) == around(3600)


def test_a_job_that_is_due(connection: Session, queue: str) -> None:
    """Or was: a time in the past."""
    enqueue(connection, queue, delay="1 hour")
    enqueue(connection, queue)
    left = seconds(connection, queue)
    assert left is not None
    assert left <= 0


def test_a_lease(connection: Session, clock: Clock, queue: str) -> None:
    """At its end the job is due again, as the first claim then finds."""
    enqueue(connection, queue)
    job = claim_one(connection, queue, lease="40 seconds")
    assert seconds(connection, queue) == around(40)
    assert connection.next_due(queue=queue) == job.leased_until
    assert connection.extend_lease(**held(job), lease="90 seconds")
    assert seconds(connection, queue) == around(90)
    assert claim(connection, queue) == []
    clock.advance("91 seconds")
    assert claim_one(connection, queue).job_id == job.job_id


def test_another_queue_does_not_count(connection: Session, queue: str) -> None:
    other = new_queue(connection)
    enqueue(connection, other, label="l")
    assert connection.next_due(queue=queue) is None
    assert connection.next_due(queue=queue, label="l") is None


def test_labels(connection: Session, queue: str) -> None:
    """All jobs, or those with exactly this label."""
    enqueue(connection, queue, delay="1 hour")
    enqueue(connection, queue, delay="2 hours", label="a", priority=9)
    enqueue(connection, queue, delay="3 hours", label="b")
    enqueue(connection, queue, delay="4 hours", label="a")
    found = [seconds(connection, queue, label) for label in (None, "a", "b", "c")]
    assert found == [around(3600), around(7200), around(10800), None]


def test_the_time_is_that_of_a_claim(connection: Session, clock: Clock, queue: str) -> None:
    """Just before it nothing is found, then the job is."""
    enqueue(connection, queue, delay="1 hour", label="l")
    left = seconds(connection, queue)
    assert left is not None
    clock.advance(timedelta(seconds=left - 10))
    assert claim(connection, queue) == []
    assert seconds(connection, queue) == around(10)
    clock.advance("11 seconds")
    assert len(claim(connection, queue)) == 1


@pytest.mark.parametrize("label", [None, "l"])
def test_floors_that_rose(connection: Session, clock: Clock, queue: str, label: str | None) -> None:
    """Nothing is missed when claims that found nothing have raised the low-water marks."""
    enqueue(connection, queue, delay="10 minutes", label="l")
    job = enqueue(connection, queue, label="l")
    assert claim_one(connection, queue, lease="5 minutes", label=label).job_id == job
    raise_floors(connection, clock, queue, label=label)
    assert seconds(connection, queue, label) == around(300 - 18)
    enqueue(connection, queue, label="l", priority=3, delay="1 minute")
    assert seconds(connection, queue, label) == around(60)


def test_floors_of_a_label(connection: Session, clock: Clock, queue: str) -> None:
    """A job without the label holds the common ones down; those of the label rise."""
    enqueue(connection, queue)
    enqueue_many(connection, queue, 20, labels=["l"] * 20)
    for _ in range(20):
        assert ack(connection, claim_one(connection, queue, label="l"))
        clock.advance("1 second")
    raise_floors(connection, clock, queue, label="l")
    assert connection.next_due(queue=queue, label="l") is None
    enqueue(connection, queue, label="l", delay="1 hour")
    assert seconds(connection, queue, "l") == around(3600)
    left = seconds(connection, queue)
    assert left is not None
    assert left < 0


@pytest.mark.parametrize("label", [None, "l"])
def test_a_clock_set_back(connection: Session, clock: Clock, queue: str, label: str | None) -> None:
    """Jobs that are below the low-water marks now are not missed."""
    clock.advance("2 hours")
    enqueue(connection, queue, label="l")
    assert ack(connection, claim_one(connection, queue, label=label))
    raise_floors(connection, clock, queue, label=label)
    clock.advance("-2 hours")
    enqueue(connection, queue, label="l", delay="1 minute")
    assert seconds(connection, queue, label) == around(60)


@pytest.mark.parametrize("label", [None, "l"])
def test_expired_jobs(connection: Session, clock: Clock, label: str | None) -> None:
    """Those that expire before they are due do not wake anybody."""
    queue = new_queue(connection, job_ttl="1 minute")
    enqueue(connection, queue, label="l")
    clock.advance("30 seconds")
    enqueue(connection, queue, label="l")
    assert len(claim(connection, queue, 1, lease="10 minutes")) == 1
    left = seconds(connection, queue, label)
    assert left is not None
    assert left < 0, "the second one"
    clock.advance("2 minutes")
    assert connection.next_due(queue=queue, label=label) is None


def test_an_expired_first_job_of_a_key(connection: Session, clock: Clock) -> None:
    """The claim that meets it unblocks the next one: ask again at once."""
    queue = ordered_queue(connection, job_ttl="1 hour")
    first = enqueue(connection, queue, key="k")
    clock.advance("30 minutes")
    second = enqueue(connection, queue, key="k")
    clock.advance("40 minutes")
    left = seconds(connection, queue)
    assert left is not None
    assert left < 0
    claim(connection, queue)
    clock.advance("1 second")
    [job] = claim(connection, queue) or [claim_one(connection, queue)]
    assert (job.job_id, first) == (second, first)


def test_a_paused_queue(connection: Session, queue: str) -> None:
    enqueue(connection, queue)
    connection.pause_queue(queue=queue)
    assert connection.next_due(queue=queue) is None
    connection.resume_queue(queue=queue)
    assert connection.next_due(queue=queue) is not None


def test_blocked_jobs_of_an_ordered_key(connection: Session) -> None:
    """Only the first of a key is due; the end of its lease counts."""
    queue = ordered_queue(connection)
    for _ in range(3):
        enqueue(connection, queue, key="k")
    job = claim_one(connection, queue, lease="50 seconds")
    assert seconds(connection, queue) == around(50)
    assert ack(connection, job)
    left = seconds(connection, queue)
    assert left is not None
    assert left <= 0


def test_a_stopped_key(connection: Session) -> None:
    """Its jobs wait for nothing that has a time."""
    queue = ordered_queue(connection, after_dead_letter="stop")
    for _ in range(2):
        enqueue(connection, queue, key="k")
    assert connection.reject_job(**held(claim_one(connection, queue)))
    assert connection.next_due(queue=queue) is None


def test_a_wake_up_record(connect: Connect, connection: Session) -> None:
    """An open enqueue of the key keeps its next job unknown: the next claim has to look."""
    queue = ordered_queue(connection)
    enqueue(connection, queue, key="k")
    job = claim_one(connection, queue)
    writer = connect()
    enqueue(writer, queue, key="k")
    assert ack(connection, job)
    left = seconds(connection, queue)
    assert left is not None
    assert left <= 0
    writer.commit()
    assert len(claim(connection, queue)) == 1


def test_a_limited_key(connection: Session) -> None:
    """Blocked jobs are due by the end of a lease, or when a slot is free."""
    queue = new_queue(connection, max_leased_per_key=1)
    for _ in range(2):
        enqueue(connection, queue, key="k")
    job = claim_one(connection, queue, lease="50 seconds")
    assert claim(connection, queue) == []
    assert seconds(connection, queue) == around(50)
    assert ack(connection, job)
    left = seconds(connection, queue)
    assert left is not None
    assert left <= 0


@pytest.mark.parametrize("limits", [{"max_leased": 1}, {"rate_limit": 1}])
def test_a_limit(connection: Session, limits: dict[str, int]) -> None:
    """What it holds back is due: a time in the past."""
    queue = new_queue(connection, **limits)
    enqueue_many(connection, queue, 2)
    assert len(claim(connection, queue, 2)) == 1
    assert claim(connection, queue) == []
    left = seconds(connection, queue)
    assert left is not None
    assert left <= 0


def test_batches_of_a_subscription(connection: Session, clock: Clock) -> None:
    """Jobs that have no rows of their own yet; a claim by label does not get them."""
    topic, [queue] = new_followed_topic(connection)
    publish_many(connection, topic, 50)
    left = seconds(connection, queue)
    assert left is not None
    assert left <= 0
    assert connection.next_due(queue=queue, label="l") is None
    assert len(claim(connection, queue, 50, lease="40 seconds")) == 50
    assert seconds(connection, queue) == around(40)


def test_expired_batches(connection: Session, clock: Clock) -> None:
    topic, [queue] = new_followed_topic(connection)
    connection.alter_queue(queue=queue, job_ttl="1 minute")
    publish_many(connection, topic, 50)
    clock.advance("2 minutes")
    assert connection.next_due(queue=queue) is None


def test_an_open_claim(connect: Connect, connection: Session, queue: str) -> None:
    """It may roll back, or be killed: the job is due as before."""
    enqueue(connection, queue)
    other = connect()
    claim_one(other, queue)
    assert claim(connection, queue) == []
    left = seconds(connection, queue)
    assert left is not None
    assert left <= 0
    other.commit()
    assert seconds(connection, queue) == around(30)


def test_it_only_reads(connect: Connect, connection: Session, queue: str) -> None:
    enqueue(connection, queue, label="l")
    session = connect()
    session.execute("set transaction read only")
    with unchanged(connection):
        assert session.next_due(queue=queue) == session.next_due(queue=queue, label="l")


def test_refusals(connection: Session, queue: str) -> None:
    refused("22004", connection.next_due, queue=None)
    refused("MQ002", connection.next_due, queue=new_name("queue"))
    refused("22023", connection.next_due, queue=queue, label="l" * 256)
