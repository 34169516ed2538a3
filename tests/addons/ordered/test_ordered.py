"""ordered: jobs of one key are handed out one at a time, in the order of their commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from support.clock import Clock
from support.ordered import add, add_many, broken, held, ordered_queue, taken_keys
from support.queue import Job, ack, claim, claim_one, enqueue_many, new_queue, settings, stats
from support.session import Session, refused, row
from support.unique import keys_of

Way = Callable[[Session, Job], Any]


def by_finish_and_claim(connection: Session, job: Job) -> None:
    [queue] = row(
        connection,
        "select q.queue from pgq.queue as q inner join pgq.job as j using (queue_id)"
        " where j.job_id = %s",
        [job.job_id],
    )
    connection.finish_and_claim(
        queue=queue, job_ids=[job.job_id], lease_token=job.lease_token, max_jobs=0
    )


def in_batch(call: str, **options: Any) -> Way:
    def way(connection: Session, job: Job) -> None:
        given = {"job_ids": [job.job_id], "lease_token": job.lease_token, **options}
        assert len(connection.call(call, **given)) == 1

    return way


ENDS: dict[str, Way] = {
    "ack": lambda connection, job: ack(connection, job),
    "ack_batch": in_batch("ack_batch"),
    "archive_job": lambda connection, job: connection.archive_job(**held(job)),
    "archive_job_batch": in_batch("archive_job_batch"),
    "finish_and_claim": by_finish_and_claim,
    "cancel_job": lambda connection, job: connection.cancel_job(job_id=job.job_id),
    "reject_job": lambda connection, job: connection.reject_job(**held(job)),
    "nack": lambda connection, job: connection.nack(**held(job)),
    "nack_batch": in_batch("nack_batch"),
}
RETURNS: dict[str, Way] = {
    "nack": lambda connection, job: connection.nack(**held(job)),
    "nack_batch": in_batch("nack_batch"),
    "release_job": lambda connection, job: connection.release_job(**held(job)),
    "release_job_batch": in_batch("release_job_batch"),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_next_comes_when_the_first_has_ended(connection: Session, end: str) -> None:
    """However it ends: a nack is the last attempt here."""
    queue = ordered_queue(connection, max_attempts=1)
    ids = [add(connection, queue) for _ in range(3)]
    other = add(connection, queue, "other")
    loose = [add(connection, queue, None) for _ in range(2)]
    first = claim(connection, queue, 9)
    assert [job.job_id for job in first] == [ids[0], other, *loose]
    assert claim(connection, queue, 9) == []
    for number in ids[1:]:
        ENDS[end](connection, next(job for job in first if job.key == "k"))
        assert broken(connection) == []
        first = claim(connection, queue, 9)
        assert [job.job_id for job in first] == [number]
    ENDS[end](connection, first[0])
    assert claim(connection, queue, 9) == []
    assert broken(connection) == []


@pytest.mark.parametrize("way", RETURNS)
def test_a_retry_comes_before_the_next(connection: Session, way: str) -> None:
    queue = ordered_queue(connection)
    first, second = add(connection, queue), add(connection, queue)
    for _ in range(3):
        job = claim_one(connection, queue)
        assert job.job_id == first
        RETURNS[way](connection, job)
    job = claim_one(connection, queue)
    assert ack(connection, job) is True
    assert claim_one(connection, queue).job_id == second


def test_a_lease_that_runs_out(connection: Session, clock: Clock) -> None:
    queue = ordered_queue(connection, max_attempts=2)
    first, second = add(connection, queue), add(connection, queue)
    for attempt in (1, 2):
        job = claim_one(connection, queue)
        assert (job.job_id, job.attempt) == (first, attempt)
        connection.extend_lease(**held(job), lease="2 minutes")
        assert claim(connection, queue, 9) == []
        clock.advance("3 minutes")
    # it has had its attempts: a claim makes it a dead letter, and then the next one comes
    wait_for(connection, queue, second)
    assert stats(connection, queue) == {"leased": 1, "dead": 1}
    assert broken(connection) == []


def wait_for(connection: Session, queue: str, number: int) -> None:
    found = claim(connection, queue, 9) or claim(connection, queue, 9)
    assert [job.job_id for job in found] == [number]


def test_cleanup_buries_a_first_one(connection: Session, clock: Clock) -> None:
    queue = ordered_queue(connection, max_attempts=1)
    first, second = add(connection, queue), add(connection, queue)
    assert claim_one(connection, queue).job_id == first
    clock.advance("1 hour")
    connection.cleanup()
    assert stats(connection, queue) == {"ready": 1, "dead": 1}
    assert claim_one(connection, queue).job_id == second


@pytest.mark.parametrize("by_batch", [False, True], ids=["one", "batch"])
def test_priority_does_not_overtake_within_a_key(connection: Session, by_batch: bool) -> None:
    queue = ordered_queue(connection)

    def put(priority: int) -> int:
        if by_batch:
            return add_many(connection, queue, ["k"], priority=priority)[0]
        return add(connection, queue, priority=priority)

    late, early, middle = put(9), put(0), put(5)
    others = [add(connection, queue, "other", priority=3), add(connection, queue, "x", priority=1)]
    given = []
    for _ in range(5):
        [job] = claim(connection, queue)
        given.append(job.job_id)
        assert ack(connection, job)
    assert given == [others[1], others[0], late, early, middle]


@pytest.mark.parametrize("by_batch", [False, True], ids=["one", "batch"])
def test_a_delay_of_the_first_delays_its_key(
    connection: Session, clock: Clock, by_batch: bool
) -> None:
    queue = ordered_queue(connection)
    if by_batch:
        [first] = add_many(connection, queue, ["k"], delay="1 hour")
        [second, third] = add_many(connection, queue, ["k", "k"])
    else:
        first = add(connection, queue, delay="1 hour")
        second, third = add(connection, queue), add(connection, queue)
    assert claim(connection, queue, 9) == []
    assert stats(connection, queue) == {"delayed": 1, "waiting": 2}
    clock.advance("1 hour")
    for number in (first, second, third):
        job = claim_one(connection, queue)
        assert job.job_id == number
        assert ack(connection, job)


def test_a_delay_counts_from_the_enqueue(connection: Session, clock: Clock) -> None:
    """Of one that waits for another: the rest of it, if any, when it comes up."""
    queue = ordered_queue(connection)
    first = add(connection, queue)
    second = add(connection, queue, delay="1 hour")
    third = add(connection, queue, delay="10 minutes")
    info = connection.get_job(job_id=second)
    assert info.state == "waiting"
    clock.advance("30 minutes")
    ack(connection, claim_one(connection, queue))
    assert connection.get_job(job_id=first) is None
    shown = connection.get_job(job_id=second)
    assert (shown.state, shown.due_at) == ("delayed", info.due_at)
    assert claim(connection, queue, 9) == []
    clock.advance("30 minutes")
    job = claim_one(connection, queue)
    assert job.job_id == second
    ack(connection, job)
    assert claim_one(connection, queue).job_id == third


def test_a_batch(connection: Session) -> None:
    """In the order of the array; those without a key never wait."""
    queue = ordered_queue(connection)
    keys = ["b", None, "a", "b", None, "a", "b"]
    ids = add_many(connection, queue, keys)
    assert ids == sorted(ids)
    assert stats(connection, queue) == {"ready": 4, "waiting": 3}
    given: list[tuple[str | None, int]] = []
    while jobs := claim(connection, queue, 9):
        assert len({job.key for job in jobs if job.key}) == len([j for j in jobs if j.key])
        for job in jobs:
            given.append((job.key, job.job_id))
            assert ack(connection, job)
    for key in ("a", "b"):
        assert [number for k, number in given if k == key] == [
            number for number, k in zip(ids, keys, strict=True) if k == key
        ]
    assert len(given) == len(keys)
    assert broken(connection) == []


def test_a_batch_without_keys(connection: Session) -> None:
    queue = ordered_queue(connection)
    ids = enqueue_many(connection, queue, 5)
    assert [job.job_id for job in claim(connection, queue, 9)] == ids
    assert enqueue_many(connection, queue, 0) == []
    assert taken_keys(connection, queue) == []


def test_all_in_one_transaction(connection: Session) -> None:
    queue = ordered_queue(connection)
    with connection.transaction():
        first, second = add(connection, queue), add(connection, queue)
        job = claim_one(connection, queue)
        assert job.job_id == first
        assert ack(connection, job)
        job = claim_one(connection, queue)
        assert job.job_id == second
        assert ack(connection, job)
        third = add(connection, queue)
        assert claim_one(connection, queue).job_id == third
    assert broken(connection) == []


def test_a_savepoint_that_is_undone(connection: Session) -> None:
    queue = ordered_queue(connection)
    with connection.transaction():
        with pytest.raises(ZeroDivisionError), connection.transaction():
            add(connection, queue)
            raise ZeroDivisionError
        kept = add(connection, queue)
    assert claim_one(connection, queue).job_id == kept
    assert broken(connection) == []


def test_finish_and_claim_gets_the_next(connection: Session) -> None:
    queue = ordered_queue(connection)
    ids = [add(connection, queue) for _ in range(3)]
    [job] = claim(connection, queue)
    given = [job.job_id]
    for _ in ids[1:]:
        [job] = connection.finish_and_claim(
            queue=queue, job_ids=[job.job_id], lease_token=job.lease_token
        )
        given.append(job.job_id)
    assert given == ids


def test_claims_by_label(connection: Session) -> None:
    """Of a key whose first job has another label there is none."""
    queue = ordered_queue(connection)
    add(connection, queue, label="a")
    second = add(connection, queue, label="b")
    assert claim(connection, queue, 9, label="b") == []
    ack(connection, claim_one(connection, queue, label="a"))
    assert claim_one(connection, queue, label="b").job_id == second


def test_many_at_once_of_one_claim(connection: Session) -> None:
    queue = ordered_queue(connection)
    ids = add_many(connection, queue, [f"{n % 10}" for n in range(100)])
    given: list[int] = []
    while jobs := claim(connection, queue, 100):
        assert len(jobs) == 10
        given += [job.job_id for job in jobs]
        token = jobs[0].lease_token
        assert len(connection.ack_batch(job_ids=given[-10:], lease_token=token)) == 10
    assert given == ids
    assert broken(connection) == []


# ---------------------------------------------------------------------------- with unique keys


def test_a_duplicate_takes_no_turn(connection: Session) -> None:
    queue = ordered_queue(connection)
    first = add(connection, queue, "a", unique_key="u")
    again = {"queue": queue, "payload": Jsonb(1), "key": "b", "unique_key": "u"}
    assert tuple(connection.enqueue(**again)) == (first, True)
    assert broken(connection) == []
    made = connection.enqueue_batch(
        queue=queue,
        payloads=[1, 2, 3, 4],
        keys=["c", "d", "c", "a"],
        unique_keys=["u", "v", "w", None],
    )
    assert [duplicate for _, duplicate in made] == [True, False, False, False]
    assert broken(connection) == []
    found = claim(connection, queue, 9)
    assert [job.job_id for job in found] == [first, made[1].job_id, made[2].job_id]
    for job in found:
        ack(connection, job)
    assert keys_of(connection, queue) == {}
    assert claim_one(connection, queue).job_id == made[3].job_id


# ---------------------------------------------------------------------------- settings


def test_settings(connection: Session) -> None:
    queue = ordered_queue(connection)
    shown = settings(connection, queue)
    assert (shown["ordered"], shown["after_dead_letter"]) == (True, "continue")
    assert connection.create_queue(queue=queue, ordered=True).ordered is True
    refused("MQ005", connection.create_queue, queue=queue, ordered=False)
    refused("MQ005", connection.create_queue, queue=queue, after_dead_letter="stop")
    assert connection.alter_queue(queue=queue, after_dead_letter="stop").ordered is True
    assert settings(connection, queue)["after_dead_letter"] == "stop"
    assert connection.alter_queue(queue=queue).after_dead_letter == "stop"
    plain = new_queue(connection)
    shown = settings(connection, plain)
    assert (shown["ordered"], shown["after_dead_letter"]) == (False, "continue")
    for wrong in ("", "STOP", "go on"):
        refused("22023", connection.alter_queue, queue=queue, after_dead_letter=wrong)
        refused("22023", connection.create_queue, queue="new", after_dead_letter=wrong)
    # without ordered it says nothing
    assert connection.alter_queue(queue=plain, after_dead_letter="stop").ordered is False


def test_a_long_key(connection: Session) -> None:
    queue = ordered_queue(connection)
    add(connection, queue, "x" * 255)
    long = "x" * 256
    refused("22023", connection.enqueue, queue=queue, payload=Jsonb(1), key=long)
    refused("22023", connection.enqueue_batch, queue=queue, payloads=[1], keys=[long])
    add(connection, queue, "")
    assert len(claim(connection, queue, 9)) == 2


def test_keys_of_two_queues(connection: Session) -> None:
    one, other = ordered_queue(connection), ordered_queue(connection)
    add(connection, one)
    add(connection, other)
    assert len(claim(connection, one, 9)) == len(claim(connection, other, 9)) == 1


def test_a_key_of_a_queue_that_is_dropped(connection: Session) -> None:
    """The same key of another queue keeps its order."""
    queue, other = ordered_queue(connection), ordered_queue(connection)
    add(connection, queue)
    add(connection, queue)
    add(connection, other)
    first = claim_one(connection, queue)
    connection.drop_queue(queue=other)
    assert claim(connection, queue, 9) == []
    assert ack(connection, first)
    assert len(claim(connection, queue, 9)) == 1
