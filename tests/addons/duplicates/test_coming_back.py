"""A job that comes back while a newer one of its key waits ends as replaced; else it goes on."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.duplicates import BACK, come_back, held, outcomes, put, replacing, twice
from support.queue import Job, ack, claim, claim_one, enqueue, stats
from support.session import Session, refused
from support.storage import clean
from support.unique import add_many, keys_of, loose_keys

WAYS = [*BACK, "lease"]
LATER = "31 seconds"
CLAIMS: dict[str, dict[str, Any]] = {
    "one": {},
    "many": {"max_jobs": 9},
    "label": {"label": "l"},
    "priority": {"priority": 3},
    "limited": {"max_leased": 9},
    "prefetch": {"max_jobs": 9, "prefetch": True},
    "finish_and_claim": {},
}


def next_jobs(session: Session, queue: str, how: str) -> list[Job]:
    """What a claim gets."""
    if how == "finish_and_claim":
        return [Job(**job._asdict()) for job in session.finish_and_claim(queue=queue)]
    options = {name: CLAIMS[how][name] for name in ("label", "prefetch") if name in CLAIMS[how]}
    return claim(session, queue, CLAIMS[how].get("max_jobs", 1), **options)


@pytest.mark.parametrize("how", CLAIMS)
@pytest.mark.parametrize("way", WAYS)
def test_a_newer_one_waits(connection: Session, clock: Clock, way: str, how: str) -> None:
    """The older one ends, and the same claim gets the newer one; the archive says what happened."""
    options = {name: CLAIMS[how][name] for name in ("label", "priority") if name in CLAIMS[how]}
    queue = replacing(connection, **({"max_leased": 9} if how == "limited" else {}))
    job, new = twice(connection, queue, LATER, **options)
    come_back(connection, job, way, clock)
    if way != "lease":
        assert outcomes(connection, queue) == {job.job_id: "replaced"}
        assert connection.get_job(job_id=job.job_id) is None or stats(connection, queue) == {
            "ready": 1
        }
    [found] = next_jobs(connection, queue, how)
    assert (found.job_id, found.payload) == (new, "new")
    assert stats(connection, queue) == {"leased": 1}
    assert ack(connection, job) is False
    assert ack(connection, found)
    assert outcomes(connection, queue) == {job.job_id: "replaced", new: "acked"}
    assert loose_keys(connection) == 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("since", ["claimed", "acked", "cancelled"])
def test_the_newer_one_does_not_wait(
    connection: Session, clock: Clock, since: str, way: str
) -> None:
    """The older one is tried again like any other, and has the key while it waits."""
    queue = replacing(connection)
    job, new = twice(connection, queue)
    if since == "cancelled":
        assert connection.cancel_job(job_id=new)
    else:
        newer = claim_one(connection, queue, lease="1 hour")
        assert since == "claimed" or ack(connection, newer)
    come_back(connection, job, way, clock)
    if way != "lease":
        assert keys_of(connection, queue) == {"k": job.job_id}
    again = claim_one(connection, queue)
    assert (again.job_id, again.payload) == (job.job_id, "old")
    assert ack(connection, again)
    assert loose_keys(connection) == 0


@pytest.mark.parametrize("second", WAYS)
@pytest.mark.parametrize("first", BACK)
def test_both_come_back(connection: Session, clock: Clock, first: str, second: str) -> None:
    """The newer one after the older one: it does not end, since its content is the newest."""
    queue = replacing(connection)
    job, new = twice(connection, queue)
    newer = claim_one(connection, queue)
    come_back(connection, job, first, clock)
    come_back(connection, newer, second, clock)
    found = claim(connection, queue, 9)
    assert {each.payload for each in found} == {"old", "new"}
    assert {each.job_id for each in found} == {job.job_id, new}
    assert outcomes(connection, queue) == {}


@pytest.mark.parametrize("most", [1, 9])
@pytest.mark.parametrize("way", WAYS)
def test_the_newer_one_has_expired(connection: Session, clock: Clock, way: str, most: int) -> None:
    """Before the older one, if the job_ttl was lowered in between: the older one is tried again."""
    queue = replacing(connection, job_ttl="1 hour")
    put(connection, queue, "old")
    job = claim_one(connection, queue)
    connection.alter_queue(queue=queue, job_ttl="20 seconds")
    put(connection, queue, "new", delay="10 seconds")
    clock.advance("21 seconds")
    come_back(connection, job, way, clock)
    assert [each.payload for each in claim(connection, queue, most)] == ["old"]
    assert outcomes(connection, queue) == {}


@pytest.mark.parametrize("way", WAYS)
def test_content_that_replaced_that_of_a_job_that_came_back(
    connection: Session, clock: Clock, way: str
) -> None:
    """It is the newest, though the other job has a higher id: that one ends."""
    queue = replacing(connection)
    job, new = twice(connection, queue)
    newer = claim_one(connection, queue)
    assert connection.nack(**held(job), delay="0")
    assert put(connection, queue, "newest") == (job.job_id, True)
    come_back(connection, newer, way, clock)
    [found] = claim(connection, queue, 9)
    assert (found.job_id, found.payload) == (job.job_id, "newest")
    assert outcomes(connection, queue) == {new: "replaced"}


def test_a_job_with_the_newest_content_comes_back_last(connection: Session) -> None:
    """Ids do not tell the age: a job with a higher id and older content has the key by then."""
    queue = replacing(connection)
    job, new = twice(connection, queue)
    newer = claim_one(connection, queue)
    assert connection.nack(**held(job), delay="0")
    assert put(connection, queue, "newest") == (job.job_id, True)
    newest = claim_one(connection, queue)
    assert connection.nack(**held(newer), delay="0")
    assert keys_of(connection, queue) == {"k": new}
    assert connection.nack(**held(newest), delay="0")
    assert {each.payload for each in claim(connection, queue, 9)} == {"new", "newest"}


@pytest.mark.parametrize("way", WAYS)
def test_get_result(connection: Session, clock: Clock, way: str) -> None:
    """With keep_results it says so, and an attempt that was lost is in the history."""
    queue = replacing(connection, keep_results=True, archive=False)
    job, new = twice(connection, queue, LATER)
    come_back(connection, job, way, clock)
    assert claim_one(connection, queue).job_id == new
    assert connection.get_result(job_id=job.job_id).state == "replaced"
    assert connection.get_result(job_id=new).state == "leased"
    assert outcomes(connection, queue) == {}
    events = connection.execute(
        "select event, attempt from pgq.job_event where job_id = %s order by ended_at",
        [job.job_id],
    ).fetchall()
    expected = {"lease": ["lost"], "nack": ["failed"], "nack_batch": ["failed"]}.get(way, [])
    assert [event for event, _ in events] == [*expected, "replaced"]
    assert {attempt for event, attempt in events if event != "replaced"} <= {1}


@pytest.mark.parametrize("how", ["one", "many"])
def test_the_attempts_of_a_lost_lease(connection: Session, clock: Clock, how: str) -> None:
    """The claim that ends it is none of them."""
    queue = replacing(connection)
    job, _ = twice(connection, queue, LATER)
    clock.advance("32 seconds")
    next_jobs(connection, queue, how)
    [(attempt,)] = connection.execute(
        "select attempt from pgq.archived_jobs where job_id = %s", [job.job_id]
    ).fetchall()
    assert attempt == 1


def test_no_outcome_of_a_worker(connection: Session) -> None:
    queue = replacing(connection)
    put(connection, queue, 1)
    job = claim_one(connection, queue)
    error = refused("22023", connection.archive_job, **held(job), outcome="replaced")
    assert "replaced" in str(error.diag.message_primary)
    assert connection.archive_job(**held(job), outcome="Replaced")


@pytest.mark.parametrize("way", ["nack", "claim", "cleanup"])
def test_a_job_without_attempts_left(connection: Session, clock: Clock, way: str) -> None:
    """It becomes a dead letter, which is not redriven while the newer one has the key."""
    queue = replacing(connection, max_attempts=1)
    job, new = twice(connection, queue, LATER)
    if way == "nack":
        assert connection.nack(**held(job))
        clock.advance("32 seconds")
    else:
        clock.advance("32 seconds")
        if way == "cleanup":
            clean(connection)
        else:
            newer = claim_one(connection, queue)
            assert newer.job_id == new
            assert connection.release_job(**held(newer))
    assert stats(connection, queue) == {"ready": 1, "dead": 1}
    connection.redrive(queue=queue, job_id=job.job_id)
    assert stats(connection, queue) == {"ready": 1, "dead": 1}
    assert put(connection, queue, "newest") == (new, True)
    assert ack(connection, claim_one(connection, queue))
    connection.redrive(queue=queue, job_id=job.job_id)
    assert keys_of(connection, queue) == {"k": job.job_id}
    assert put(connection, queue, "at last") == (job.job_id, True)
    assert claim_one(connection, queue).payload == "at last"


def test_an_ordered_queue(connection: Session) -> None:
    """The end of the older one lets the next job of the key come."""
    queue = replacing(connection, ordered=True)
    job, new = twice(connection, queue, key="o")
    assert claim(connection, queue) == []
    assert connection.nack(**held(job), delay="1 hour")
    found = claim_one(connection, queue)
    assert (found.job_id, found.payload) == (new, "new")


def test_what_was_prefetched(connection: Session, clock: Clock) -> None:
    """A job that its worker has not begun is leased: it is not touched, and comes back likewise."""
    queue = replacing(connection)
    enqueue(connection, queue, "begun")
    old, _ = put(connection, queue, "old")
    assert len(claim(connection, queue, 2, prefetch=True)) == 2
    assert put(connection, queue, "new", delay=LATER)[1] is False
    clock.advance("32 seconds")
    found = [job.payload for _ in range(3) for job in claim(connection, queue, 9, lease="1 hour")]
    assert found == ["begun", "new"]
    assert outcomes(connection, queue) == {old: "replaced"}


@pytest.mark.parametrize("most", [1, 100])
def test_very_many_in_front_of_a_claim(connection: Session, clock: Clock, most: int) -> None:
    """A claim ends them all, without a search for each, and gets what is behind them."""
    queue = replacing(connection)
    keys: list[str | None] = [f"k{n}" for n in range(5000)]
    add_many(connection, queue, keys)
    assert len(claim(connection, queue, 5000)) == 5000
    add_many(connection, queue, keys, delay="1 hour")
    enqueue(connection, queue, "last", delay="1 minute")
    clock.advance("61 seconds")
    with connection.transaction():
        connection.execute("set local statement_timeout = '3 s'")
        assert [job.payload for job in claim(connection, queue, most)] == ["last"]
    assert stats(connection, queue) == {"leased": 1, "delayed": 5000}
    assert set(outcomes(connection, queue).values()) == {"replaced"}
    assert loose_keys(connection) == 0
