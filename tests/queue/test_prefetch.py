"""Jobs that are claimed before they begin: which of them lose an attempt when a worker is lost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.queue import Job, claim, claim_one, enqueue_many, new_queue, stats
from support.session import Connect, Session
from support.waiting import PATIENCE, aside, wait_until_blocked

LEASE = timedelta(minutes=1)


def lost(clock: Clock) -> None:
    """The worker is lost: its leases run out."""
    clock.advance(2 * LEASE)


def attempts(session: Session, ids: list[int]) -> list[int]:
    found = dict(session.execute("select job_id, attempt from pgq.job").fetchall())
    return [found[number] for number in ids]


def finish_and_claim(session: Session, queue: str, max_jobs: int, **options: Any) -> list[Job]:
    found = session.finish_and_claim(queue=queue, max_jobs=max_jobs, **options)
    return [Job(**job._asdict()) for job in found]


# queues whose claims are made in different ways
SETTINGS: list[dict[str, Any]] = [
    {},
    {"max_leased": 100},
    {"max_leased_per_key": 100},
    {"ordered": True},
]


@pytest.fixture(params=SETTINGS, ids=lambda one: next(iter(one), "plain"))
def queue(request: pytest.FixtureRequest, connection: Session) -> str:
    return new_queue(connection, lease=LEASE, max_attempts=3, **request.param)


@pytest.mark.parametrize("how", [claim, finish_and_claim])
def test_only_the_first_loses_an_attempt(
    connection: Session, queue: str, clock: Clock, how: Any
) -> None:
    ids = enqueue_many(connection, queue, 4)
    jobs = how(connection, queue, 4, prefetch=True)
    assert [job.attempt for job in jobs] == [1, 1, 1, 1]
    assert {job.max_attempts for job in jobs} == {3}
    assert attempts(connection, ids) == [1, 0, 0, 0]
    lost(clock)
    seen = {}
    for _ in ids:
        for job in how(connection, queue, 4, prefetch=True):
            seen[job.job_id] = job.attempt
    assert seen == dict(zip(ids, [2, 1, 1, 1], strict=True))


@pytest.mark.parametrize("prefetch", [False, True])
def test_one_that_was_not_begun_is_handed_out_alone(
    connection: Session, queue: str, clock: Clock, prefetch: bool
) -> None:
    """It may be what ended the worker; and the claim says that there is more."""
    ids = enqueue_many(connection, queue, 3)
    claim(connection, queue, 3, prefetch=True)
    lost(clock)
    ids += enqueue_many(connection, queue, 2)
    told = [claim(connection, queue, 5, prefetch=prefetch) for _ in range(4)]
    assert [[job.job_id for job in jobs] for jobs in told] == [*([one] for one in ids[:3]), ids[3:]]
    assert [jobs[0].cut_short for jobs in told] == [True, True, True, False]


def test_without_it_all_lose_an_attempt(connection: Session, queue: str, clock: Clock) -> None:
    ids = enqueue_many(connection, queue, 3)
    for attempt in (1, 2, 3):
        jobs = claim(connection, queue, 3)
        assert [job.attempt for job in jobs] == [attempt] * 3
        lost(clock)
    connection.cleanup()
    claim(connection, queue, 3)
    assert stats(connection, queue) == {"dead": len(ids)}


def test_deaths_of_others_make_no_dead_letter(
    connection: Session, queue: str, clock: Clock
) -> None:
    """The first ends each worker that has it; the others are done, at their first attempt."""
    bad, *good = enqueue_many(connection, queue, 10)
    done: dict[int, int] = {}
    for _ in range(20):
        jobs = claim(connection, queue, 10, prefetch=True)
        for job in jobs:
            if job.job_id == bad:
                lost(clock)
                break
            done[job.job_id] = job.attempt
            connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    assert done == dict.fromkeys(good, 1)
    connection.cleanup()
    assert stats(connection, queue) == {"dead": 1}


def test_one_that_always_ends_its_worker_is_given_up(
    connection: Session, queue: str, clock: Clock
) -> None:
    """Though nobody ever says that it has begun, and it is never the first of several."""
    enqueue_many(connection, queue, 1)
    [bad] = enqueue_many(connection, queue, 1)
    connection.execute("update pgq.job set priority = 1 where job_id = %s", [bad])
    deaths = 0
    for _ in range(20):
        dead = False
        while not dead and (jobs := claim(connection, queue, 5, prefetch=True)):
            for job in jobs:
                dead = job.job_id == bad
                if dead:
                    deaths += 1
                    break
                connection.ack(job_id=job.job_id, lease_token=job.lease_token)
        lost(clock)
        connection.cleanup()
        enqueue_many(connection, queue, 1)
    found = connection.get_job(job_id=bad)
    assert (found.state, found.attempt) == ("dead", 3)
    assert 3 <= deaths <= 6


@pytest.mark.parametrize("how", ["ack_batch", "extend_lease_batch", "extend_lease"])
def test_one_that_was_said_to_begin_loses_an_attempt(
    connection: Session, queue: str, clock: Clock, how: str
) -> None:
    ids = enqueue_many(connection, queue, 4)
    jobs = claim(connection, queue, 4, prefetch=True)
    token = jobs[0].lease_token
    for _ in range(2):  # a call whose answer was lost is made again
        if how == "ack_batch":
            told = connection.ack_batch(job_ids=[ids[0]], lease_token=token, begun=[ids[1]])
        elif how == "extend_lease_batch":
            told = connection.extend_lease_batch(
                job_ids=ids[1:], lease_token=token, begun=[ids[0], ids[1]]
            )
        else:
            told = connection.extend_lease(job_id=ids[1], lease_token=token)
    if how != "extend_lease":
        assert ids[1] in {one.job_id for one in told}
    assert attempts(connection, ids[1:]) == [1, 0, 0]
    lost(clock)
    seen = {}
    for _ in ids:
        for job in claim(connection, queue, 4):
            seen[job.job_id] = job.attempt
    assert [seen[one] for one in ids[1:]] == [2, 1, 1]


def test_a_last_attempt_that_has_begun_is_the_last(connection: Session, clock: Clock) -> None:
    """One that was told of dies with its worker; one that was not is handed out again."""
    queue = new_queue(connection, lease=LEASE, max_attempts=1)
    ids = enqueue_many(connection, queue, 3)
    jobs = claim(connection, queue, 3, prefetch=True)
    connection.ack_batch(job_ids=ids[:1], lease_token=jobs[0].lease_token, begun=ids[1:2])
    lost(clock)
    connection.cleanup()
    assert stats(connection, queue) == {"dead": 1, "ready": 1}
    assert [job.job_id for job in claim(connection, queue, 3)] == ids[2:]


def test_a_lease_that_has_ended_is_not_said_to_begin(
    connection: Session, queue: str, clock: Clock
) -> None:
    ids = enqueue_many(connection, queue, 2)
    [job, _] = claim(connection, queue, 2, prefetch=True)
    lost(clock)
    assert connection.ack_batch(job_ids=[], lease_token=job.lease_token, begun=ids) == []
    assert attempts(connection, ids) == [1, 0]


@pytest.mark.parametrize("how", ["ack", "ack_batch", "archive_job", "reject_job", "nack", "finish"])
def test_what_has_ended_has_begun(connection: Session, queue: str, how: str) -> None:
    """Its attempt counts, though nobody has said that it began."""
    ids = enqueue_many(connection, queue, 2)
    [_, job] = claim(connection, queue, 2, prefetch=True)
    held = {"job_id": job.job_id, "lease_token": job.lease_token}
    if how == "finish":
        connection.finish_and_claim(
            queue=queue, job_ids=[job.job_id], lease_token=job.lease_token, max_jobs=0
        )
    elif how == "ack_batch":
        connection.ack_batch(job_ids=[job.job_id], lease_token=job.lease_token)
    else:
        getattr(connection, how)(**held)
    if how == "nack":
        assert attempts(connection, ids[1:]) == [1]
    elif how == "reject_job":
        assert connection.get_job(job_id=job.job_id).attempt == 1
    else:
        assert connection.execute(
            "select attempt from pgq.archived_jobs where job_id = %s", [job.job_id]
        ).fetchall() == [(1,)]


def test_the_last_attempt_fails_though_nobody_said_that_it_began(
    connection: Session, queue: str
) -> None:
    ids = enqueue_many(connection, queue, 2)
    connection.execute("update pgq.job set attempt = 2 where job_id = %s", ids[1:])
    jobs = claim(connection, queue, 2, prefetch=True)
    connection.nack(job_id=ids[1], lease_token=jobs[0].lease_token)
    assert connection.get_job(job_id=ids[1]).state == "dead"


def test_what_is_given_back_has_not_begun(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 2)
    jobs = claim(connection, queue, 2, prefetch=True)
    connection.release_job_batch(job_ids=ids, lease_token=jobs[0].lease_token)
    assert attempts(connection, ids) == [0, 0]
    assert [job.attempt for job in claim(connection, queue, 2)] == [1, 1]


def test_a_claim_of_one_begins(connection: Session, queue: str, clock: Clock) -> None:
    enqueue_many(connection, queue, 1)
    claim_one(connection, queue, prefetch=True)
    lost(clock)
    assert claim_one(connection, queue).attempt == 2


def test_null_is_as_if_it_were_not_given(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 2)
    claim(connection, queue, 2, prefetch=None)
    assert attempts(connection, ids) == [1, 1]


@pytest.mark.parametrize("function", ["ack_batch", "extend_lease_batch"])
@pytest.mark.parametrize(
    ("begun", "error"),
    [
        ([[1], [2]], psycopg.errors.InvalidParameterValue),
        ([1, None], psycopg.errors.NullValueNotAllowed),
    ],
)
def test_bad_ids_of_what_begins(
    connection: Session, function: str, begun: list[Any], error: type[Exception]
) -> None:
    queue = new_queue(connection)
    enqueue_many(connection, queue, 1)
    [job] = claim(connection, queue, 1)
    with pytest.raises(error, match='argument "begun"'):
        getattr(connection, function)(
            job_ids=[job.job_id], lease_token=job.lease_token, begun=begun
        )
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)


def test_a_job_that_is_leased_shows_its_attempt(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 2)
    claim(connection, queue, 2, prefetch=True)
    assert [connection.get_job(job_id=number).attempt for number in ids] == [1, 1]


def test_what_begins_is_locked_in_the_order_of_ids(connection: Session, connect: Connect) -> None:
    """A heartbeat extends all jobs of the claim at the same time."""
    queue = new_queue(connection)
    [last] = enqueue_many(connection, queue, 1, priority=5)
    [first] = enqueue_many(connection, queue, 1, priority=1)
    first_id, second_id = sorted([first, last])
    token = claim(connection, queue, 2, prefetch=True)[0].lease_token
    holding, beating, acking = connect(), connect(autocommit=True), connect(autocommit=True)
    holding.execute("select from pgq.job where job_id = %s for update", [first_id])
    beat = aside(
        lambda: beating.extend_lease_batch(job_ids=[first_id, second_id], lease_token=token)
    )
    wait_until_blocked(connection, beating.info.backend_pid)
    done = aside(lambda: acking.ack_batch(job_ids=[second_id], lease_token=token, begun=[first_id]))
    wait_until_blocked(connection, acking.info.backend_pid)
    holding.rollback()
    assert len(beat.result(PATIENCE)) == 2
    assert len(done.result(PATIENCE)) == 2
