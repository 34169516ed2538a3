"""max_leased_per_key: no more jobs of one key are leased at one time."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.ordered import add, add_many, held
from support.queue import ack, claim, claim_one, enqueue_many, new_queue, settings, stats
from support.session import Connect, Session, refused, row


@pytest.fixture
def queue(connection: Session) -> str:
    """At most one job of a key; retries are due at once."""
    return new_queue(connection, max_leased_per_key=1, backoff="0")


def ids(session: Session, queue: str, max_jobs: int = 9, **options: Any) -> list[int]:
    return [job.job_id for job in claim(session, queue, max_jobs, **options)]


def test_no_more_than_so_many_of_a_key(connection: Session) -> None:
    queue = new_queue(connection, max_leased_per_key=2)
    made = add_many(connection, queue, ["a", "a", "a", "b", None, "a", None, "b", "b"])
    first = claim_one(connection, queue)
    assert first.job_id == made[0]
    assert first.key == "a"
    assert ids(connection, queue) == [made[1], made[3], made[4], made[6], made[7]]
    assert ids(connection, queue) == []
    assert stats(connection, queue) == {"leased": 6, "waiting": 3}
    assert ack(connection, first)
    assert ids(connection, queue) == [made[2]]
    assert ids(connection, queue) == []


def test_one_after_the_other(connection: Session, queue: str) -> None:
    made = add_many(connection, queue, ["a"] * 5)
    for job_id in made:
        job = claim_one(connection, queue)
        assert job.job_id == job_id
        assert claim(connection, queue) == []
        assert ack(connection, job)
    assert claim(connection, queue) == []
    assert stats(connection, queue) == {}


def test_in_one_transaction(connection: Session, queue: str) -> None:
    made = add_many(connection, queue, ["a", "a", "b"])
    with connection.transaction():
        first = claim_one(connection, queue)
        assert ids(connection, queue) == [made[2]]
        assert ids(connection, queue) == []
        assert ack(connection, first)
        assert ids(connection, queue) == [made[1]]
        assert ids(connection, queue) == []


def test_the_usual_order(connection: Session, queue: str, clock: Clock) -> None:
    """Priority, then when they were due, then the id."""
    late = add(connection, queue, delay="2 seconds")
    early = add(connection, queue, delay="1 second")
    low = add(connection, queue, priority=5)
    high = add(connection, queue, priority=0)
    clock.advance("1 minute")
    order = []
    first = claim_one(connection, queue)
    while True:
        order.append(first.job_id)
        urgent = add(connection, queue, key=None)
        assert ids(connection, queue) == [urgent]
        assert ack(connection, first)
        found = claim(connection, queue)
        if not found:
            break
        [first] = found
    assert order == [high, early, late, low]


def test_a_job_that_comes_up_goes_before_what_no_claim_has_met(
    connection: Session, queue: str
) -> None:
    made = add_many(connection, queue, ["a", "a", "b", "a", "c"])
    first, other = claim(connection, queue), claim(connection, queue)
    assert [job.job_id for job in first + other] == [made[0], made[2]]
    assert ack(connection, first[0])
    assert ids(connection, queue) == [made[4], made[1]]


@pytest.mark.parametrize(
    "end",
    [
        "ack",
        "nack",
        "release_job",
        "archive_job",
        "reject_job",
        "cancel",
        "purge",
        "expire",
        "late",
    ],
)
def test_whatever_ends_a_lease_makes_room(connection: Session, clock: Clock, end: str) -> None:
    queue = new_queue(
        connection, max_leased_per_key=1, backoff="1 hour", job_ttl="1 day", max_attempts=2
    )
    made = add_many(connection, queue, ["a", "a", "a"])
    job = claim_one(connection, queue)
    assert claim(connection, queue) == []
    if end == "cancel":
        assert connection.cancel_job(job_id=job.job_id)
    elif end == "purge":
        assert connection.purge_queue(queue=queue, all_jobs=True).taken == 3
        made[1:] = add_many(connection, queue, ["a", "a"])
    elif end == "archive_job":
        assert connection.archive_job(**held(job), outcome="done")
    elif end == "reject_job":
        assert connection.reject_job(**held(job), error="no")
    elif end == "expire":
        clock.advance("2 days")
        assert claim(connection, queue) == []
        connection.cleanup()
        made[1:] = add_many(connection, queue, ["a", "a"])
    elif end == "late":
        clock.advance("1 hour")
        again = claim_one(connection, queue)
        assert (again.job_id, again.attempt) == (made[0], 2)
        assert claim(connection, queue) == []
        assert not ack(connection, job)
        assert ack(connection, again)
    else:
        assert getattr(connection, end)(**held(job))
    if end == "release_job":
        # It is due now, and so comes behind those that have been waiting.
        assert ids(connection, queue) == [made[1]]
        return
    assert ids(connection, queue) == [made[1]]
    assert ids(connection, queue) == []


def test_a_lease_that_has_run_out_keeps_its_place(
    connection: Session, clock: Clock, queue: str
) -> None:
    made = add_many(connection, queue, ["a", "a", "b"])
    lost = claim_one(connection, queue)
    assert ids(connection, queue) == [made[2]]
    clock.advance("1 hour")
    again = claim(connection, queue, 9)
    assert sorted(job.job_id for job in again) == [made[0], made[2]]
    assert not ack(connection, lost)


def test_finish_and_claim(connection: Session, queue: str) -> None:
    made = add_many(connection, queue, ["a", "a", "a"])
    job = claim_one(connection, queue)
    for job_id in made[1:]:
        [job] = connection.finish_and_claim(
            queue=queue, job_ids=[job.job_id], lease_token=job.lease_token
        )
        assert job.job_id == job_id
    assert (
        connection.finish_and_claim(queue=queue, job_ids=[job.job_id], lease_token=job.lease_token)
        == []
    )


def test_batches(connection: Session) -> None:
    queue = new_queue(connection, max_leased_per_key=3)
    made = add_many(connection, queue, ["a"] * 8 + ["b"] * 8)
    done: list[int] = []
    while True:
        jobs = claim(connection, queue, 16)
        if not jobs:
            break
        assert len(jobs) <= 6
        done += [job.job_id for job in jobs]
        connection.ack_batch(job_ids=[job.job_id for job in jobs], lease_token=jobs[0].lease_token)
    assert sorted(done) == made
    assert [job_id for job_id in done if job_id <= made[7]] == made[:8]


def test_raised_and_lowered_and_lifted(connection: Session, queue: str) -> None:
    made = add_many(connection, queue, ["a"] * 9)
    assert ids(connection, queue) == made[:1]
    connection.alter_queue(queue=queue, max_leased_per_key=3)
    assert ids(connection, queue) == made[1:3]
    connection.alter_queue(queue=queue, max_leased_per_key=1)
    token = row(connection, "select lease_token from pgq.job where job_id = %s", [made[1]])[0]
    assert connection.ack(job_id=made[1], lease_token=token)
    assert ids(connection, queue) == []
    connection.alter_queue(queue=queue, no_limit=["max_leased_per_key"])
    assert ids(connection, queue) == made[3:]
    assert settings(connection, queue)["max_leased_per_key"] is None


def test_switched_on(connection: Session) -> None:
    """What is leased then counts, and what ends it makes room."""
    queue = new_queue(connection)
    made = add_many(connection, queue, ["a", "a", "a", "b", "b"])
    jobs = claim(connection, queue, 2)
    connection.alter_queue(queue=queue, max_leased_per_key=1)
    assert ids(connection, queue) == [made[3]]
    for job in jobs:
        assert ids(connection, queue) == []
        assert ack(connection, job)
    assert ids(connection, queue) == [made[2]]


def test_switched_on_behind_a_lost_worker(connection: Session, clock: Clock) -> None:
    """A lease that had run out by then holds no place: what is due first of the key comes first."""
    queue = new_queue(connection)
    lost = add(connection, queue, "a")
    assert ids(connection, queue, lease="1 minute") == [lost]
    due = add(connection, queue, "a")
    clock.advance("2 minutes")
    connection.alter_queue(queue=queue, max_leased_per_key=1)
    assert ids(connection, queue) == [due]
    assert ids(connection, queue) == []


def notes(connection: Session, queues: list[str]) -> int:
    """What is noted of jobs of these queues that wait for another one of their key."""
    query = (
        "select count(*) from pgq.key_wakeup as n inner join pgq.queue as q using (queue_id)"
        " where q.queue = any(%s)"
    )
    return int(row(connection, query, [queues])[0])


def test_cleanup_finds_what_waits_in_every_queue(connection: Session, connect: Connect) -> None:
    """Somebody had the waiting jobs locked when the limits of several queues were lifted."""
    queues = [new_queue(connection, max_leased_per_key=1) for _ in range(4)]
    waiting = {}
    for queue in queues:
        made = add_many(connection, queue, ["a", "a"])
        assert claim_one(connection, queue).job_id == made[0]
        assert claim(connection, queue) == []
        waiting[queue] = made[1:]
    other = connect()
    other.execute("select from pgq.job as j where j.due_at is not null for update")
    for queue in queues:
        connection.alter_queue(queue=queue, no_limit=["max_leased_per_key"])
        assert claim(connection, queue) == []
    other.rollback()
    assert notes(connection, queues) > 0
    connection.cleanup()
    assert notes(connection, queues) == 0
    assert {queue: ids(connection, queue) for queue in queues} == waiting


def test_labels_do_not_hold_each_other_up(connection: Session, clock: Clock, queue: str) -> None:
    first = add(connection, queue, label="x")
    others = add_many(connection, queue, ["k"] * 4, labels=["y"] * 4)
    mine = add(connection, queue, label="x")
    job = claim_one(connection, queue, label="x")
    assert job.job_id == first
    assert ids(connection, queue) == []
    assert ack(connection, job)
    found: list[int] = []
    for _ in range(10):
        found += ids(connection, queue, label="x")
        clock.advance("1 second")
    assert found == [mine]
    assert others


def test_other_limits_hold_as_well(connection: Session, clock: Clock) -> None:
    queue = new_queue(
        connection, max_leased_per_key=2, max_leased=3, rate_limit=2, rate_interval="1 minute"
    )
    made = add_many(connection, queue, ["a"] * 4 + ["b"] * 2)
    assert ids(connection, queue) == made[:2]
    assert ids(connection, queue) == []
    clock.advance("1 second")
    connection.alter_queue(queue=queue, rate_limit=100)
    clock.advance("5 seconds")
    assert ids(connection, queue) == made[4:5]
    assert row(connection, "select held_by from pgq.queue_stats where queue = %s", [queue]) == (
        "max_leased",
    )


def test_pause(connection: Session, queue: str) -> None:
    made = add_many(connection, queue, ["a", "a"])
    job = claim_one(connection, queue)
    connection.pause_queue(queue=queue)
    assert ack(connection, job)
    assert claim(connection, queue) == []
    connection.resume_queue(queue=queue)
    assert ids(connection, queue) == made[1:]


def test_a_parked_job_that_expires_or_is_cancelled(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, max_leased_per_key=1, job_ttl="1 hour", lease="1 day")
    made = add_many(connection, queue, ["a"] * 3)
    job = claim_one(connection, queue)
    assert claim(connection, queue) == []
    assert connection.cancel_job(job_id=made[1])
    clock.advance("2 hours")
    fresh = add_many(connection, queue, ["a"] * 2)
    assert claim(connection, queue) == []
    assert ack(connection, job)
    assert ids(connection, queue) == fresh[:1]
    assert ids(connection, queue) == []


def test_dead_letters(connection: Session) -> None:
    queue = new_queue(connection, max_leased_per_key=1, max_attempts=1, after_dead_letter="stop")
    made = add_many(connection, queue, ["a"] * 3)
    job = claim_one(connection, queue)
    assert claim(connection, queue) == []
    assert connection.nack(**held(job), error="no")
    second = claim_one(connection, queue)
    assert second.job_id == made[1]
    assert connection.redrive(queue=queue, all_jobs=True).taken == 1
    assert claim(connection, queue) == []
    assert ack(connection, second)
    third = claim_one(connection, queue)
    assert third.job_id == made[2]
    assert ack(connection, third)
    assert ids(connection, queue) == [made[0]]


def test_a_nack_with_a_delay(connection: Session, clock: Clock, queue: str) -> None:
    made = add_many(connection, queue, ["a"] * 2)
    job = claim_one(connection, queue)
    assert connection.nack(**held(job), delay="1 hour")
    second = claim_one(connection, queue)
    assert second.job_id == made[1]
    clock.advance("2 hours")
    assert connection.ack(**held(second))
    assert ids(connection, queue) == made[:1]


def test_long_keys_and_keys_that_begin_alike(connection: Session, queue: str) -> None:
    keys = ["x" * 300 + "1", "x" * 300 + "2", "a", "a\x01", "a\x01" + "0" * 18, "ü€", ""]
    made = add_many(connection, queue, [*keys, *keys])
    jobs = claim(connection, queue, 99)
    assert [job.job_id for job in jobs] == [made[0], *made[2:7]]
    connection.ack_batch(job_ids=[job.job_id for job in jobs], lease_token=jobs[0].lease_token)
    assert sorted(ids(connection, queue, 99)) == sorted([made[1], *made[9:]])


def test_settings(connection: Session) -> None:
    queue = new_queue(connection, max_leased_per_key=7)
    assert settings(connection, queue)["max_leased_per_key"] == 7
    connection.create_queue(queue=queue, max_leased_per_key=7)
    refused("MQ005", connection.create_queue, queue=queue, max_leased_per_key=8)
    refused("22023", connection.create_queue, queue="no", max_leased_per_key=0)
    refused("22023", connection.create_queue, queue="no", max_leased_per_key=10001)
    refused("22023", connection.create_queue, queue="no", max_leased_per_key=2, ordered=True)
    ordered = new_queue(connection, ordered=True)
    refused("22023", connection.alter_queue, queue=ordered, max_leased_per_key=2)


def test_many_of_a_key(connection: Session, queue: str) -> None:
    """Those behind a key at its limit are found, however many there are."""
    add_many(connection, queue, ["a"] * 3000)
    [last] = enqueue_many(connection, queue, 1, keys=["b"])
    assert len(claim(connection, queue)) == 1
    assert ids(connection, queue) == [last]
    assert stats(connection, queue) == {"leased": 2, "waiting": 2999}
