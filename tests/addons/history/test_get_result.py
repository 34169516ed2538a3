"""What has become of a job: each state, and each way to come to it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from support.clock import Clock
from support.ordered import add_many
from support.queue import Job, ack, claim, claim_one, enqueue, enqueue_many, new_queue
from support.session import Session, refused, row

GONE = ("gone", None, None, None)
RESULT = {"rows": 3}


@pytest.fixture(params=["archive", "no archive"])
def queue(request: pytest.FixtureRequest, connection: Session) -> str:
    """A queue with keep_results; whether it archives makes no difference."""
    return new_queue(
        connection, keep_results=True, archive=request.param == "archive", job_ttl="1 day"
    )


def state(session: Session, job_id: int) -> str:
    """The state alone; what belongs to no job that goes on is null."""
    found = session.get_result(job_id=job_id)
    if found.state in ("waiting", "leased", "blocked"):
        assert found[1:] == (None, None, None)
    return str(found.state)


def held(job: Job) -> dict[str, Any]:
    return {"job_id": job.job_id, "lease_token": job.lease_token}


# ------------------------------------------------------------------------------------- unfinished


def test_a_job_that_waits(connection: Session, queue: str, clock: Clock) -> None:
    number = enqueue(connection, queue)
    assert state(connection, number) == "waiting"
    later = enqueue(connection, queue, delay="1 hour")
    assert state(connection, later) == "waiting"
    job = claim_one(connection, queue)
    assert state(connection, number) == "leased"
    connection.nack(**held(job), error="e", delay="1 hour")
    assert state(connection, number) == "waiting"
    connection.retry_job(job_id=number)
    claim_one(connection, queue)
    clock.advance("2 minutes")
    assert state(connection, number) == "waiting", "its lease has run out"


def test_a_blocked_job(connection: Session) -> None:
    queue = new_queue(connection, ordered=True)
    first, second = add_many(connection, queue, ["k", "k"])
    assert [state(connection, n) for n in (first, second)] == ["waiting", "blocked"]
    assert ack(connection, claim_one(connection, queue))
    assert [state(connection, n) for n in (first, second)] == ["gone", "waiting"]


def test_a_prefetched_job_is_leased(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 2)
    claim(connection, queue, 2, prefetch=True)
    assert [state(connection, number) for number in ids] == ["leased", "leased"]


# ---------------------------------------------------------------------------------------- finished

Way = Callable[[Session, str, Job], Any]


def _several(job: Job) -> dict[str, Any]:
    return {"job_ids": [job.job_id], "lease_token": job.lease_token}


FINISHES: dict[str, Way] = {
    "ack": lambda s, q, job: s.ack(**held(job)),
    "ack_batch": lambda s, q, job: s.ack_batch(**_several(job)),
    "finish_and_claim": lambda s, q, job: s.finish_and_claim(queue=q, **_several(job)),
    "archive_job": lambda s, q, job: s.archive_job(**held(job), result=Jsonb(RESULT)),
    "archive_job_batch": lambda s, q, job: s.archive_job_batch(
        **_several(job), result=Jsonb(RESULT), outcome="done"
    ),
}


@pytest.mark.parametrize("way", FINISHES)
@pytest.mark.parametrize("key", [None, "u"])
def test_finished(connection: Session, queue: str, way: str, key: str | None) -> None:
    """When, and with the result that was given; a unique key takes another way."""
    number = enqueue(connection, queue, unique_key=key)
    other = enqueue(connection, queue)
    job = claim_one(connection, queue)
    (before,) = row(connection, "select clock_timestamp()")
    FINISHES[way](connection, queue, job)
    found = connection.get_result(job_id=number)
    result = RESULT if way.startswith("archive") else None
    assert found[:3] == ("finished", result, None)
    assert before < found.ended_at < row(connection, "select clock_timestamp()")[0]
    assert state(connection, other) == ("leased" if way == "finish_and_claim" else "waiting")


def test_several_at_once(connection: Session, queue: str) -> None:
    """Of a claim of several, also where finish_and_claim is called for another queue."""
    ids = enqueue_many(connection, queue, 6)
    token = claim(connection, queue, 6)[0].lease_token
    connection.ack_batch(job_ids=ids[:2], lease_token=token)
    connection.finish_and_claim(queue=queue, job_ids=ids[2:4], lease_token=token)
    connection.finish_and_claim(queue=new_queue(connection), job_ids=ids[4:5], lease_token=token)
    assert [state(connection, number) for number in ids] == ["finished"] * 5 + ["leased"]
    plain = new_queue(connection)
    enqueue(connection, plain)
    job = claim_one(connection, plain)
    connection.finish_and_claim(queue=queue, **_several(job))
    assert connection.get_result(job_id=job.job_id) == GONE


def test_jobs_of_an_ordered_queue(connection: Session) -> None:
    queue = new_queue(connection, ordered=True, keep_results=True)
    first, second = add_many(connection, queue, ["k", "k"])
    assert ack(connection, claim_one(connection, queue))
    assert state(connection, first) == "finished"
    connection.finish_and_claim(queue=queue, **_several(claim_one(connection, queue)))
    assert state(connection, second) == "finished"


def test_the_result_null_is_one(connection: Session, queue: str) -> None:
    """As JSON, which clients tell from none at all."""
    number = enqueue(connection, queue)
    connection.archive_job(**held(claim_one(connection, queue)), result=Jsonb(None))
    assert row(connection, "select result::text from pgq.get_result(%s)", [number]) == ("null",)


# ----------------------------------------------------------------------------------- other endings


@pytest.mark.parametrize("leased", [False, True])
def test_cancelled(connection: Session, queue: str, leased: bool) -> None:
    number = enqueue(connection, queue)
    if leased:
        claim_one(connection, queue)
    assert connection.cancel_job(job_id=number)
    found = connection.get_result(job_id=number)
    assert found[:3] == ("cancelled", None, None)
    assert found.ended_at is not None


def test_a_blocked_job_is_cancelled(connection: Session) -> None:
    queue = new_queue(connection, ordered=True, keep_results=True)
    _, second = add_many(connection, queue, ["k", "k"])
    connection.cancel_job(job_id=second)
    assert state(connection, second) == "cancelled"


@pytest.mark.parametrize("lost", [False, True])
def test_expired(connection: Session, queue: str, clock: Clock, lost: bool) -> None:
    """Once cleanup has removed it."""
    number = enqueue(connection, queue)
    if lost:
        claim_one(connection, queue)
    clock.advance("25 hours")
    assert state(connection, number) == "waiting"
    connection.cleanup()
    found = connection.get_result(job_id=number)
    assert found[:3] == ("expired", None, None)
    (ago,) = row(connection, "select pgq._clock() - %s::timestamptz", [found.ended_at])
    assert timedelta(0) < ago < timedelta(minutes=1)


def test_a_dead_letter(connection: Session, queue: str) -> None:
    """Failed, until it is redriven or purged."""
    first, second = enqueue_many(connection, queue, 2)
    for job in claim(connection, queue, 2):
        connection.reject_job(**held(job), error="no such file")
    found = connection.get_result(job_id=first)
    assert found[:3] == ("failed", None, "no such file")
    died = row(connection, "select died_at from pgq.dead_letters where job_id = %s", [first])
    assert (found.ended_at,) == died
    connection.redrive(queue=queue, job_id=first)
    assert state(connection, first) == "waiting"
    assert ack(connection, claim_one(connection, queue))
    assert state(connection, first) == "finished"
    connection.purge_queue(queue=queue, job_id=second)
    assert connection.get_result(job_id=second) == GONE


def test_purged_jobs_are_gone(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 2)
    claim_one(connection, queue)
    connection.purge_queue(queue=queue, all_jobs=True)
    assert [connection.get_result(job_id=number) for number in ids] == [GONE, GONE]


def test_a_dropped_queue(connection: Session, queue: str) -> None:
    done, waits = enqueue_many(connection, queue, 2)
    assert ack(connection, claim_one(connection, queue))
    connection.drop_queue(queue=queue)
    assert [connection.get_result(job_id=n) for n in (done, waits)] == [GONE, GONE]


def test_ids_of_nothing(connection: Session) -> None:
    assert connection.get_result(job_id=0) == GONE
    assert connection.get_result(job_id=2**62) == GONE
    refused("22004", connection.get_result, job_id=None)


# ------------------------------------------------------------------------------------ the setting


@pytest.mark.parametrize("way", FINISHES)
def test_a_queue_that_does_not_keep_them(connection: Session, way: str) -> None:
    queue = new_queue(connection)
    done, cancelled = enqueue_many(connection, queue, 2)
    FINISHES[way](connection, queue, claim_one(connection, queue))
    connection.cancel_job(job_id=cancelled)
    assert [connection.get_result(job_id=n) for n in (done, cancelled)] == [GONE, GONE]
    assert row(connection, "select count(*) from pgq.job_event where job_id = %s", [done]) == (0,)


@pytest.mark.parametrize("way", FINISHES)
@pytest.mark.parametrize("key", [None, "u"])
def test_what_the_setting_is_when_it_ends_counts(
    connection: Session, way: str, key: str | None
) -> None:
    """Not what it was at the claim; and what is known stays known."""
    queue = new_queue(connection)
    first = enqueue(connection, queue, unique_key=key)
    job = claim_one(connection, queue)
    connection.alter_queue(queue=queue, keep_results=True)
    FINISHES[way](connection, queue, job)
    assert state(connection, first) == "finished"
    second = enqueue(connection, queue, unique_key=key)
    job = claim_one(connection, queue)
    connection.alter_queue(queue=queue, keep_results=False)
    FINISHES[way](connection, queue, job)
    assert [state(connection, n) for n in (first, second)] == ["finished", "gone"]


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("keep_results", [True, False])
def test_the_archive_is_as_it_was(connection: Session, archive: bool, keep_results: bool) -> None:
    """One row per finished job if the queue archives, and none if not, with all that it has."""
    queue = new_queue(connection, archive=archive, keep_results=keep_results)
    ids = enqueue_many(connection, queue, 4, labels=["l"] * 4)
    job = claim_one(connection, queue)
    connection.nack(**held(job), error="e", delay="0")
    again = claim(connection, queue, 4)
    token = again[0].lease_token
    connection.ack(job_id=ids[0], lease_token=token)
    connection.ack_batch(job_ids=ids[1:2], lease_token=token)
    connection.finish_and_claim(queue=queue, job_ids=ids[2:3], lease_token=token)
    connection.cancel_job(job_id=ids[3])
    found = connection.execute(
        "select job_id, attempt, outcome, label, last_error from pgq.archived_jobs"
        " where queue = %s order by job_id",
        [queue],
    ).fetchall()
    assert (
        found
        == [
            (ids[0], 2, "acked", "l", "e"),
            (ids[1], 1, "acked", "l", None),
            (ids[2], 1, "acked", "l", None),
            (ids[3], 1, "cancelled", "l", None),
        ][: 4 * archive]
    )
