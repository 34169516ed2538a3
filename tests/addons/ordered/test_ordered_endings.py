"""Ordered keys where a job dies, expires, is cancelled or purged, or its queue is dropped."""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.ordered import add, add_many, broken, held, ordered_queue, taken_keys
from support.queue import ack, claim, claim_one, stats
from support.session import Session, row
from support.storage import clean
from support.unique import loose_keys


def kill_first(connection: Session, queue: str) -> int:
    """Claim a job, make it a dead letter, and return its id."""
    job = claim_one(connection, queue)
    assert connection.reject_job(**held(job)) is True
    return job.job_id


def given(connection: Session, queue: str) -> list[int]:
    """Work off a queue one by one, and return the ids in their order."""
    ids: list[int] = []
    while jobs := claim(connection, queue):
        ids.append(jobs[0].job_id)
        assert ack(connection, jobs[0])
    assert broken(connection) == []
    return ids


# ---------------------------------------------------------------------------- dead letters


def test_continue(connection: Session) -> None:
    """The next comes; one that is redriven is the next after the current one."""
    queue = ordered_queue(connection)
    ids = [add(connection, queue) for _ in range(5)]
    assert [kill_first(connection, queue) for _ in range(2)] == ids[:2]
    current = claim_one(connection, queue)
    assert current.job_id == ids[2]
    assert connection.redrive(queue=queue, job_id=ids[1]).taken == 1
    assert connection.redrive(queue=queue, job_id=ids[0]).taken == 1
    assert stats(connection, queue) == {"leased": 1, "waiting": 4}
    assert claim(connection, queue, 9) == []
    ack(connection, current)
    assert given(connection, queue) == [ids[0], ids[1], *ids[3:]]
    assert taken_keys(connection, queue) == []


@pytest.mark.parametrize("waits", [False, True], ids=["alone", "behind another"])
def test_all_of_a_key_are_redriven(connection: Session, waits: bool) -> None:
    queue = ordered_queue(connection)
    ids = add_many(connection, queue, ["k", "k", None, "other", "k"])
    for _ in ids:
        kill_first(connection, queue)
    assert taken_keys(connection, queue) == []
    new = [add(connection, queue)] if waits else []
    assert connection.redrive(queue=queue, all_jobs=True).taken == 5
    assert broken(connection) == []
    found = given(connection, queue)
    assert [number for number in found if number not in (ids[2], ids[3])] == (
        [*new, ids[0], ids[1], ids[4]]
    )


def test_stop(connection: Session) -> None:
    """Nothing of the key is given until the letter is redriven, which then is the first."""
    queue = ordered_queue(connection, after_dead_letter="stop")
    ids = [add(connection, queue) for _ in range(2)]
    other = add(connection, queue, "other")
    assert kill_first(connection, queue) == ids[0]
    [stops] = row(connection, "select stops_key from pgq.dead_letters where job_id = %s", [ids[0]])
    assert stops is True
    ids.append(add(connection, queue))
    assert given(connection, queue) == [other]
    assert stats(connection, queue) == {"waiting": 2, "dead": 1}
    assert connection.redrive(queue=queue, all_jobs=True).taken == 1
    assert given(connection, queue) == ids
    assert taken_keys(connection, queue) == []


@pytest.mark.parametrize("way", ["purge", "retention"])
@pytest.mark.parametrize("waits", [True, False])
def test_a_letter_that_stops_is_removed(
    connection: Session, clock: Clock, way: str, waits: bool
) -> None:
    queue = ordered_queue(connection, after_dead_letter="stop", retention="1 day")
    add(connection, queue)
    rest = [add(connection, queue) for _ in range(2)] if waits else []
    kill_first(connection, queue)
    if way == "purge":
        assert connection.purge_queue(queue=queue, dead_only=True).taken == 1
    else:
        clock.advance("2 days")
        connection.cleanup()
    assert broken(connection) == []
    assert taken_keys(connection, queue) == (["k"] if waits else [])
    assert given(connection, queue) == rest
    assert given(connection, queue) == []
    number = add(connection, queue)
    assert given(connection, queue) == [number]


def test_a_letter_keeps_to_what_was_when_it_died(connection: Session) -> None:
    queue = ordered_queue(connection, after_dead_letter="stop")
    ids = [add(connection, queue) for _ in range(3)]
    kill_first(connection, queue)
    connection.alter_queue(queue=queue, after_dead_letter="continue")
    assert claim(connection, queue, 9) == []
    assert connection.redrive(queue=queue, job_id=ids[0]).taken == 1
    assert [kill_first(connection, queue) for _ in range(2)] == ids[:2]
    connection.alter_queue(queue=queue, after_dead_letter="stop")
    kill_first(connection, queue)
    new = add(connection, queue)
    # those that do not stop the key wait until the one that does is done
    assert connection.redrive(queue=queue, job_id=ids[0]).taken == 1
    assert claim(connection, queue, 9) == []
    assert connection.redrive(queue=queue, all_jobs=True).taken == 2
    assert given(connection, queue) == [ids[2], ids[0], ids[1], new]


def test_a_letter_that_stays(connection: Session) -> None:
    """Another job has its unique key: its ordered key is free as before."""
    queue = ordered_queue(connection)
    add(connection, queue, unique_key="u")
    kill_first(connection, queue)
    other = add(connection, queue, "other", unique_key="u")
    assert connection.redrive(queue=queue, all_jobs=True).taken == 0
    assert taken_keys(connection, queue) == ["other"]
    assert given(connection, queue) == [other]
    assert connection.redrive(queue=queue, all_jobs=True).taken == 1
    assert len(given(connection, queue)) == 1


# ---------------------------------------------------------------------------- expiry


def test_a_first_one_expires(connection: Session, clock: Clock) -> None:
    """Claims do not wait for cleanup."""
    queue = ordered_queue(connection, job_ttl="1 hour", delay="1 minute")
    first = add(connection, queue)
    clock.advance("30 minutes")
    second = add(connection, queue)
    clock.advance("30 minutes")
    assert claim(connection, queue, 9) == []
    assert [job.job_id for job in claim(connection, queue, 9)] == [second]
    assert connection.get_job(job_id=first) is None
    assert broken(connection) == []


def test_cleanup_expires_a_first_one(connection: Session, clock: Clock) -> None:
    queue = ordered_queue(connection, job_ttl="1 hour")
    add(connection, queue)
    clock.advance("30 minutes")
    second = add(connection, queue)
    clock.advance("30 minutes")
    connection.cleanup()
    assert stats(connection, queue) == {"ready": 1}
    assert given(connection, queue) == [second]


def test_one_that_waits_expires(connection: Session, clock: Clock) -> None:
    queue = ordered_queue(connection, job_ttl="1 hour")
    first = add(connection, queue)
    job = claim_one(connection, queue)
    for _ in range(3):
        assert connection.extend_lease(**held(job), lease="1 day") is True
        waiting = add(connection, queue)
    clock.advance("59 minutes")
    last = add(connection, queue)
    clock.advance("1 minute")
    assert connection.get_job(job_id=waiting).state == "expired"
    assert stats(connection, queue) == {"leased": 1, "waiting": 1, "expired": 3}
    connection.cleanup()
    assert stats(connection, queue) == {"leased": 1, "waiting": 1}
    assert connection.get_job(job_id=first).state == "leased"
    assert broken(connection) == []
    assert ack(connection, job) is True
    assert given(connection, queue) == [last]


@pytest.mark.parametrize("size", [3, 2500])
def test_those_that_expired_are_passed_over(connection: Session, clock: Clock, size: int) -> None:
    """Without a cleanup; few of them at once, so that no ack takes long; none of another queue."""
    queue, other = (ordered_queue(connection, job_ttl="1 hour") for _ in range(2))
    add(connection, queue)
    job = claim_one(connection, queue, lease="1 day")
    add_many(connection, queue, ["k"] * size)
    add_many(connection, other, ["k"] * 3)
    claim_one(connection, other, lease="1 day")
    clock.advance("59 minutes")
    last = add(connection, queue)
    clock.advance("1 minute")
    assert ack(connection, job) is True
    found = [number for _ in range(5) for number in given(connection, queue)]
    assert found == [last]
    assert stats(connection, queue) == {}
    assert stats(connection, other) == {"leased": 1, "expired": 2}


# ---------------------------------------------------------------------------- cancel, purge, drop


def test_one_that_waits_is_cancelled(connection: Session) -> None:
    queue = ordered_queue(connection)
    ids = [add(connection, queue, unique_key=f"{n}") for n in range(4)]
    assert connection.cancel_job(job_id=ids[1]) is True
    assert connection.cancel_job(job_id=ids[3]) is True
    assert loose_keys(connection) == 0
    assert given(connection, queue) == [ids[0], ids[2]]


def test_a_first_one_is_cancelled(connection: Session) -> None:
    queue = ordered_queue(connection)
    ids = [add(connection, queue) for _ in range(3)]
    assert connection.cancel_job(job_id=ids[0]) is True
    job = claim_one(connection, queue)
    assert job.job_id == ids[1]
    assert connection.cancel_job(job_id=ids[1]) is True
    assert ack(connection, job) is False
    assert given(connection, queue) == ids[2:]


@pytest.mark.parametrize("mode", ["continue", "stop"])
def test_a_purge(connection: Session, mode: str) -> None:
    queue = ordered_queue(connection, after_dead_letter=mode)
    add_many(connection, queue, ["a", "b", "c", None] * 3)
    for _ in range(3):
        kill_first(connection, queue)
    claim(connection, queue, 2)
    assert connection.purge_queue(queue=queue, all_jobs=True).taken == 12
    assert taken_keys(connection, queue) == []
    number = add(connection, queue, "a")
    assert given(connection, queue) == [number]


def test_a_drop(connection: Session) -> None:
    queue = ordered_queue(connection, after_dead_letter="stop")
    add_many(connection, queue, ["a", "b", "c", None] * 3)
    kill_first(connection, queue)
    connection.drop_queue(queue=queue)
    assert broken(connection) == []
    connection.create_queue(queue=queue, ordered=True)
    number = add(connection, queue, "a")
    assert given(connection, queue) == [number]


# ---------------------------------------------------------------------------- payloads, clock


def test_payloads_of_those_that_wait_are_carried(connection: Session, clock: Clock) -> None:
    queue = ordered_queue(connection, no_limit=["job_ttl"], retention="3 days")
    ids = add_many(connection, queue, ["k"] * 20)
    for _ in range(30):
        clock.advance("1 day")
        clean(connection)
    segments = connection.execute(
        "select distinct segment from pgq.job where job_id = any(%s)", [ids]
    ).fetchall()
    assert len(segments) == 1
    for number in ids:
        job = claim_one(connection, queue)
        assert (job.job_id, job.payload) == (number, 1)
        assert ack(connection, job)


def test_the_clock_goes_back(connection: Session, clock: Clock) -> None:
    queue = ordered_queue(connection)
    ids = [add(connection, queue) for _ in range(4)]
    job = claim_one(connection, queue)
    clock.advance("-1 day")
    assert ack(connection, job) is True
    # they were enqueued on a day that has not come yet
    assert given(connection, queue) == []
    new = add(connection, queue)
    connection.cleanup()
    clock.advance("1 day")
    assert given(connection, queue) == [*ids[1:], new]
