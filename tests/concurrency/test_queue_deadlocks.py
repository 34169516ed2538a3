"""Calls that touch many jobs of one queue: they wait for each other, never in a circle.

purge_queue goes through the jobs in one order, a batch names them in another one, and priorities
and retries make the order of the claims a third.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from support.clock import Clock
from support.gate import Gate
from support.queue import claim, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, row
from support.snapshots import LEVELS, TRY_AGAIN, answer_of
from support.storage import clean, seal_and_close
from support.waiting import aside, blocked, results, settled

BATCHES = ["ack_batch", "nack_batch", "archive_job_batch", "extend_lease_batch"]
Ids = list[int]
ORDERS: dict[str, Callable[[Ids], Ids]] = {
    "ascending": sorted,
    "descending": lambda ids: sorted(ids, reverse=True),
}


def _batch(session: Session, function: str, ids: Ids, token: UUID) -> Ids:
    return [job_id for (job_id,) in session.call(function, job_ids=ids, lease_token=token)]


def _leased(connection: Session, **settings: Any) -> tuple[str, Ids, UUID]:
    """A queue whose jobs are leased to one worker; later ids come first in the queue's order."""
    queue = new_queue(connection, **settings)
    for priority in (9, 5, 5, 0):
        enqueue(connection, queue, priority=priority)
    jobs = claim(connection, queue, 10)
    return queue, [job.job_id for job in jobs], jobs[0].lease_token


def test_a_limited_queue_is_dropped_beside_a_worker(connect: Connect, connection: Session) -> None:
    """The worker has ended its job, and then needs the row that claims of the queue lock."""
    queue, ids, token = _leased(connection, max_leased=10)
    gate = Gate(connection, event="after delete", each="statement")
    worker, dropper = connect(autocommit=True), connect(autocommit=True)
    finish = {"queue": queue, "job_ids": ids[:1], "lease_token": token}
    with gate.stopping(worker, lambda: worker.call("finish_and_claim", **finish)) as finished:
        dropped = aside(lambda: dropper.drop_queue(queue=queue))
        settled(connection, dropper, dropped)
    results(finished, dropped)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("function", BATCHES)
def test_a_purge_beside_a_batch(
    connect: Connect, connection: Session, function: str, order: str
) -> None:
    """The batch has one job when the purge comes; both end, and nothing is left."""
    queue, ids, token = _leased(connection)
    gate = Gate(connection)
    worker, purger = connect(autocommit=True), connect(autocommit=True)
    ids = ORDERS[order](ids)
    with gate.stopping(worker, lambda: _batch(worker, function, ids, token)) as ended:
        purged = aside(lambda: purger.purge_queue(queue=queue, all_jobs=True).taken)
        settled(connection, purger, purged)
    kept, gone = results(ended, purged)
    if function in ("ack_batch", "archive_job_batch"):
        assert len(kept) + gone == 4
        assert row(
            connection, "select count(*) from pgq.archived_jobs where queue = %s", [queue]
        ) == (len(kept),)
    else:
        assert gone == 4
    assert stats(connection, queue) == {}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("function", BATCHES)
def test_a_batch_beside_a_purge(
    connect: Connect, connection: Session, function: str, order: str
) -> None:
    """The other way round: the purge has one job when the batch comes."""
    queue, ids, token = _leased(connection)
    gate = Gate(connection)
    worker, purger = connect(autocommit=True), connect(autocommit=True)
    ids = ORDERS[order](ids)
    purge = {"queue": queue, "all_jobs": True}
    with gate.stopping(purger, lambda: purger.purge_queue(**purge).taken) as purged:
        ended = aside(lambda: _batch(worker, function, ids, token))
        settled(connection, worker, ended)
    kept, gone = results(ended, purged)
    assert gone + len(kept) >= 4
    assert stats(connection, queue) == {}


def test_a_queue_dropped_beside_a_batch(connect: Connect, connection: Session) -> None:
    queue, ids, token = _leased(connection)
    gate = Gate(connection)
    worker, owner = connect(autocommit=True), connect(autocommit=True)
    with gate.stopping(worker, lambda: _batch(worker, "ack_batch", ids, token)) as ended:
        dropped = aside(lambda: owner.drop_queue(queue=queue))
        settled(connection, owner, dropped)
    results(ended, dropped)
    assert row(connection, "select count(*) from pgq.job") == (0,)


@pytest.mark.parametrize("call", ["cancel_jobs", "retry_jobs", "purge_queue", "drop_queue"])
@pytest.mark.parametrize("on_duplicate", ["keep", "replace", "postpone"])
def test_duplicates_beside_all_jobs(
    connect: Connect, connection: Session, on_duplicate: str, call: str
) -> None:
    """An enqueue locks the jobs of its unique keys in the order of these, not of their ids."""
    queue = new_queue(connection, unique_until="claimed", on_duplicate=on_duplicate)
    ids = {key: enqueue(connection, queue, unique_key=key, delay="1 hour") for key in "cba"}
    holder, adder = connect(), connect(autocommit=True)
    other = connect(autocommit=True)
    holder.execute("select from pgq.job where job_id = %s for update", [ids["b"]])
    batch = {"queue": queue, "payloads": ["1"] * 3, "unique_keys": ["a", "b", "c"]}
    added = blocked(connection, adder, lambda: adder.enqueue_batch(**batch))
    every = {} if call == "drop_queue" else {"all_jobs": True}
    ended = blocked(connection, other, lambda: other.call(call, queue=queue, **every))
    holder.rollback()
    found, _ = results(added, ended)
    assert [job.duplicate for job in found] == [True] * 3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ack_batch", "nack_batch"),
        ("nack_batch", "archive_job_batch"),
        ("extend_lease_batch", "ack_batch"),
        ("extend_lease_batch", "extend_lease_batch"),
    ],
)
def test_two_batches_of_the_same_jobs(
    connect: Connect, connection: Session, first: str, second: str
) -> None:
    """One worker's threads name them in opposite orders."""
    _, ids, token = _leased(connection)
    gate = Gate(connection)
    one, other = connect(autocommit=True), connect(autocommit=True)
    with gate.stopping(one, lambda: _batch(one, first, ids, token)) as ended:
        late = aside(lambda: _batch(other, second, ids[::-1], token))
        settled(connection, other, late)
    done, done_again = results(ended, late)
    assert sorted(done) == sorted(ids)
    assert sorted(done_again) == (sorted(ids) if first == "extend_lease_batch" else [])


@pytest.mark.parametrize("first", ["ack_batch", "archive_job_batch"])
def test_a_batch_over_several_segments(
    connect: Connect, connection: Session, clock: Clock, first: str
) -> None:
    """Those stored first are now in the newest segment, so segments do not follow the ids."""
    queue = new_queue(connection, retention="3 days", no_limit=["job_ttl"])
    for age in ("50 hours", "25 hours"):
        enqueue_many(connection, queue, 2)
        seal_and_close(connection, clock, age)
    clock.advance("2 days")
    # the open one is empty, and counts as young
    connection.execute("update pgq.segment set opened_at = pgq._clock() where state = 'open'")
    assert "payloads moved" in clean(connection)
    enqueue_many(connection, queue, 2)
    jobs = claim(connection, queue, 10, lease="1 day")
    ids, token = [job.job_id for job in jobs], jobs[0].lease_token
    segments = [
        segment for (segment,) in connection.execute("select segment from pgq.job order by job_id")
    ]
    assert segments[0] == segments[4] != segments[2]

    earlier, one, other = connect(), connect(autocommit=True), connect(autocommit=True)
    assert _batch(earlier, "extend_lease_batch", ids[4:5], token) == ids[4:5]
    ended = blocked(connection, one, lambda: _batch(one, first, ids, token))
    extended = blocked(
        connection, other, lambda: _batch(other, "extend_lease_batch", ids[2:], token)
    )
    earlier.rollback()
    assert sorted(results(ended, extended)[0]) == ids


@pytest.mark.parametrize("function", ["redrive", "purge_queue", "drop_queue"])
def test_all_dead_letters_beside_one_after_the_other(
    connect: Connect, connection: Session, function: str
) -> None:
    """They died in the opposite order of their ids, in which another transaction redrives them."""
    queue, ids, token = _leased(connection, max_attempts=1)
    ids = sorted(ids)
    for job_id in ids[::-1]:
        assert connection.nack(job_id=job_id, lease_token=token)
    owner, other = connect(), connect(autocommit=True)
    assert owner.redrive(queue=queue, job_id=ids[0]).taken == 1
    options = {} if function == "drop_queue" else {"all_jobs": True}
    ended = blocked(connection, other, lambda: other.call(function, queue=queue, **options))
    assert [owner.redrive(queue=queue, job_id=job_id).taken for job_id in ids[1:]] == [1, 1, 1]
    owner.commit()
    if function != "drop_queue":
        assert results(ended)[0].taken == (4 if function == "purge_queue" else 0)
    results(ended)
    left = row(connection, "select count(*) from pgq.job")
    assert left == (4 if function == "redrive" else 0,)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("function", BATCHES)
def test_two_late_batches(connect: Connect, connection: Session, function: str, level: str) -> None:
    """They name jobs that are over, in opposite orders, and have to prove that these are gone."""
    _, ids, token = _leased(connection)
    ids = sorted(ids)
    assert sorted(_batch(connection, "ack_batch", ids, token)) == ids
    earlier, one, other = (connect(isolation_level=level) for _ in range(3))
    assert _batch(earlier, function, ids[1:2], token) == []
    late = [
        blocked(
            connection,
            session,
            lambda s=session, o=order: answer_of(s, lambda: _batch(s, function, o, token)),
        )
        for session, order in ((one, ids), (other, [*ids[::-1], ids[0]]))
    ]
    earlier.rollback()
    assert results(*late)[0] == []
    assert results(*late)[1] in ([], TRY_AGAIN)


def test_all_at_once(connect: Connect, connection: Session) -> None:
    """Workers, batches in any order, purges, redrives and cleanups: each answers in the end."""
    queue = new_queue(connection, max_attempts=2)
    end = time.monotonic() + 3
    stop = threading.Event()

    def until_the_end(work: Callable[[Session, random.Random], None], seed: int) -> None:
        session, chance = connect(autocommit=True), random.Random(seed)
        # a circle shall be found, and soon
        session.execute("set deadlock_timeout = '100ms'")
        try:
            while time.monotonic() < end and not stop.is_set():
                work(session, chance)
        except BaseException:
            stop.set()
            raise

    def produce(session: Session, chance: random.Random) -> None:
        enqueue_many(session, queue, 30, priority=chance.randrange(10))

    def work(session: Session, chance: random.Random) -> None:
        jobs = claim(session, queue, 40)
        if not jobs:
            return
        ids = [job.job_id for job in jobs]
        for function in chance.sample(BATCHES, 3):
            chance.shuffle(ids)
            options = {"delay": "0"} if function == "nack_batch" else {}
            session.call(function, job_ids=ids, lease_token=jobs[0].lease_token, **options)

    def purge(session: Session, chance: random.Random) -> None:
        # not before there is something to quarrel over
        if stats(session, queue).get("leased", 0) >= 60:
            which = "dead_only" if chance.random() < 0.2 else "all_jobs"
            session.purge_queue(**{"queue": queue, which: True})

    def redrive(session: Session, chance: random.Random) -> None:
        session.redrive(queue=queue, all_jobs=True)
        session.cleanup()

    crew = [produce, produce, work, work, work, purge, redrive]
    results(
        *[
            aside(lambda job=job, seed=seed: until_the_end(job, seed))  # type: ignore[misc]
            for seed, job in enumerate(crew)
        ]
    )
    connection.purge_queue(queue=queue, all_jobs=True)
    assert stats(connection, queue) == {}
