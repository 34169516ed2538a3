"""Attempts that were lost with their worker: whoever ends the lease notes them, and once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from support.clock import Clock
from support.ordered import add
from support.queue import Job, ack, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Session

LEASE = timedelta(minutes=1)

Claim = Callable[[Session, str], list[Job]]


def finish_and_claim(session: Session, queue: str, **options: Any) -> list[Job]:
    found = session.finish_and_claim(queue=queue, **{"max_jobs": 9, **options})
    return [Job(**job._asdict()) for job in found]


def one_by_one(how: Callable[..., list[Job]]) -> Claim:
    """Each of the claims gets one job, by the fast path."""

    def run(session: Session, queue: str) -> list[Job]:
        jobs = []
        while found := how(session, queue, max_jobs=1):
            jobs += found
        return jobs

    return run


WAYS: dict[str, Claim] = {
    "claim_job": one_by_one(claim),
    "finish_and_claim": one_by_one(finish_and_claim),
    "claim_job of many": lambda s, q: claim(s, q, 9),
    "finish_and_claim of many": finish_and_claim,
    "by label": lambda s, q: claim(s, q, 9, label="l"),
    "one by label": lambda s, q: [*claim(s, q, label="l"), *claim(s, q, 8, label="l")],
    "cut by max_bytes": lambda s, q: [j for _ in range(3) for j in claim(s, q, 9, max_bytes=1)],
}

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "max_leased": {"max_leased": 100},
    "max_leased_per_key": {"max_leased_per_key": 3},
    "ordered": {"ordered": True},
    "rate_limit": {"rate_limit": 1000},
}


def seen(session: Session, job_id: int) -> list[tuple[int, str]]:
    """Number and outcome of each attempt, the latest first."""
    found = session.job_history(job_id=job_id)
    assert {(a.error, a.worker, a.began_at) for a in found if a.outcome == "lost"} <= {
        (None, None, None)
    }
    return [(a.attempt, a.outcome) for a in found]


@pytest.fixture(params=SETTINGS)
def queue(request: pytest.FixtureRequest, connection: Session) -> str:
    settings = {"lease": LEASE, "backoff": "0", "max_attempts": 9, **SETTINGS[request.param]}
    return new_queue(connection, **settings)


@pytest.mark.parametrize("way", WAYS)
def test_who_claims_it_next(connection: Session, queue: str, clock: Clock, way: str) -> None:
    ids = enqueue_many(connection, queue, 3, labels=["l"] * 3)
    for attempt in (1, 2, 3):
        assert sorted(job.job_id for job in WAYS[way](connection, queue)) == ids
        for number in ids:
            assert seen(connection, number) == [(n, "lost") for n in range(attempt - 1, 0, -1)]
        clock.advance(2 * LEASE)


def test_priorities(connection: Session, queue: str, clock: Clock) -> None:
    ids = [enqueue(connection, queue, priority=priority) for priority in (3, 0, 9, 3)]
    claim(connection, queue, 3)
    clock.advance(2 * LEASE)
    assert len(claim(connection, queue, 4)) == 4
    assert [seen(connection, number) for number in ids] == [
        [(1, "lost")],
        [(1, "lost")],
        [],
        [(1, "lost")],
    ]


def test_mixed_with_others(connection: Session, queue: str, clock: Clock) -> None:
    """The nacked and the new ones of the same claim have lost nothing."""
    lost, failed, new = enqueue_many(connection, queue, 3)
    token = claim(connection, queue, 2)[0].lease_token
    assert connection.nack(job_id=failed, lease_token=token)
    clock.advance(2 * LEASE)
    assert len(claim(connection, queue, 3)) == 3
    assert [seen(connection, n) for n in (lost, failed, new)] == [
        [(1, "lost")],
        [(1, "failed")],
        [],
    ]


def test_a_lease_that_is_used_after_its_end(connection: Session, queue: str, clock: Clock) -> None:
    """As long as nobody else got the job, nothing is lost."""
    first, second, third = enqueue_many(connection, queue, 3)
    jobs = claim(connection, queue, 3)
    clock.advance(2 * LEASE)
    assert ack(connection, jobs[0])
    assert connection.nack(job_id=second, lease_token=jobs[1].lease_token)
    assert connection.reject_job(job_id=third, lease_token=jobs[2].lease_token)
    assert [seen(connection, n) for n in (first, second, third)] == [
        [],
        [(1, "failed")],
        [(1, "rejected")],
    ]


# -------------------------------------------------------------------------------------- prefetched


def test_what_had_not_begun_has_lost_nothing(connection: Session, queue: str, clock: Clock) -> None:
    """Of those that were claimed ahead only the first had begun, and those of which it was said."""
    ids = enqueue_many(connection, queue, 4)
    jobs = claim(connection, queue, 4, prefetch=True)
    token = jobs[0].lease_token
    connection.ack_batch(job_ids=ids[:1], lease_token=token, begun=ids[1:2])
    connection.extend_lease_batch(job_ids=ids[2:], lease_token=token, begun=ids[2:3])
    clock.advance(2 * LEASE)
    again = [job for _ in range(4) for job in claim(connection, queue, 4)]
    assert {job.job_id: job.attempt for job in again} == {ids[1]: 2, ids[2]: 2, ids[3]: 1}
    assert [seen(connection, number) for number in ids] == [
        [],
        [(1, "lost")],
        [(1, "lost")],
        [],
    ]


def test_one_that_had_not_begun_may_fail(connection: Session, queue: str) -> None:
    """Its attempt counts by that, with its number."""
    ids = enqueue_many(connection, queue, 3)
    token = claim(connection, queue, 3, prefetch=True)[0].lease_token
    connection.nack(job_id=ids[1], lease_token=token)
    connection.reject_job(job_id=ids[2], lease_token=token)
    assert [seen(connection, number) for number in ids] == [[], [(1, "failed")], [(1, "rejected")]]
    assert connection.get_job(job_id=ids[2]).attempt == 1


def test_lost_again_before_it_began(connection: Session, queue: str, clock: Clock) -> None:
    first, second = enqueue_many(connection, queue, 2)
    for _ in range(3):
        claim(connection, queue, 2, prefetch=True)
        clock.advance(2 * LEASE)
    claim(connection, queue, 9)
    claim(connection, queue, 9)
    numbers = [(a, o) for n in (first, second) for a, o in seen(connection, n)]
    begun = [connection.get_job(job_id=n).attempt for n in (first, second)]
    assert len(numbers) == sum(begun) - 2, "each attempt but the one that is under way"
    assert {outcome for _, outcome in numbers} == {"lost"}


# ------------------------------------------------------------------------------------ dead letters


DEATHS: dict[str, Callable[[Session, str], Any]] = {
    "claim_job": lambda s, q: claim(s, q),
    "claim_job of many": lambda s, q: claim(s, q, 9),
    "by label": lambda s, q: claim(s, q, 9, label="l"),
    "finish_and_claim": lambda s, q: finish_and_claim(s, q, max_jobs=1),
    "cleanup": lambda s, q: s.cleanup(),
}


@pytest.mark.parametrize("way", DEATHS)
@pytest.mark.parametrize("lowered", [False, True])
def test_the_last_attempt(
    connection: Session, queue: str, clock: Clock, way: str, lowered: bool
) -> None:
    """Who makes a dead letter of it notes it, also where max_attempts was lowered since."""
    connection.alter_queue(queue=queue, max_attempts=9 if lowered else 2)
    tried, unbegun = enqueue_many(connection, queue, 2, labels=["l"] * 2)
    connection.nack(job_id=tried, lease_token=claim_one(connection, queue).lease_token, error="e")
    connection.execute(
        "update pgq.job set visible_at = visible_at - interval '1 s' where job_id = %s", [tried]
    )
    while tried not in [job.job_id for job in claim(connection, queue, 2, prefetch=True)]:
        clock.advance(2 * LEASE)
    connection.alter_queue(queue=queue, max_attempts=2)
    clock.advance(2 * LEASE)
    before = seen(connection, unbegun)
    for _ in range(3):
        DEATHS[way](connection, queue)
        if connection.get_job(job_id=tried).state == "dead":
            break
        if lowered and way == "cleanup":  # which looks only for those on their last attempt
            claim(connection, queue, 9)
    assert connection.get_job(job_id=tried).state == "dead"
    assert seen(connection, tried) == [(2, "lost"), (1, "failed")]
    assert before == []


# ---------------------------------------------------------------------------- blocked by its key


@pytest.mark.parametrize("label", [None, "l"])
def test_a_claim_that_blocks_it(connection: Session, clock: Clock, label: str | None) -> None:
    """Another job of its key goes first; its lease has ended all the same."""
    queue = new_queue(connection, lease=LEASE, max_leased_per_key=1)
    lost = add(connection, queue, "k", label=label, priority=5)
    assert claim_one(connection, queue).job_id == lost
    first = add(connection, queue, "k", label=label, priority=0)
    clock.advance(2 * LEASE)
    [job] = claim(connection, queue, 9, label=label)
    assert job.job_id == first
    assert stats(connection, queue) == {"leased": 1, "waiting": 1}
    assert seen(connection, lost) == [(1, "lost")]
    assert ack(connection, job)
    assert claim_one(connection, queue).attempt == 2
    assert seen(connection, lost) == [(1, "lost")]
