"""Limits of queues among many workers: never more than allowed, at no moment."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from support.queue import Job, ack, claim, claim_one, enqueue_many, new_queue
from support.session import Connect, Session, refused
from support.waiting import aside, blocked, results, wait_until

STRICT = ["repeatable read", "serializable"]


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


class Crowd:
    """Workers that count by themselves who has what, and never count what may be free already."""

    def __init__(self, connect: Connect, queue: str, most: int, jobs: int) -> None:
        self.connect = connect
        self.queue = queue
        self.most = most
        self.jobs = jobs
        self.lock = threading.Lock()
        self.held: dict[int, datetime] = {}
        self.highest = 0
        self.finished: set[int] = set()
        self.over: list[int] = []

    def take(self, jobs: list[Job]) -> None:
        """Note what was claimed."""
        with self.lock:
            now = datetime.now(timezone.utc)
            self.held.update({job.job_id: job.leased_until for job in jobs})
            leased = sum(until > now for until in self.held.values())
            self.highest = max(self.highest, leased)
            if leased > self.most:
                self.over.append(leased)

    def drop(self, job: Job) -> None:
        """Note what is about to be given back."""
        with self.lock:
            self.held.pop(job.job_id, None)

    def work(self, seed: int, until: float) -> None:
        """Claim, and end what was claimed in one way or another."""
        rng = random.Random(seed)
        session = self.connect(autocommit=True)
        while len(self.finished) < self.jobs and time.monotonic() < until:
            lease = rng.choice(["20 seconds", "0.3 seconds"])
            if rng.random() < 0.1:
                with session.transaction(force_rollback=True):
                    claim(session, self.queue, rng.randint(1, 4))
                continue
            jobs = claim(session, self.queue, rng.choice([1, 1, 3]), lease=lease)
            self.take(jobs)
            for job in jobs:
                self.end(session, job, rng)

    def end(self, session: Session, job: Job, rng: random.Random) -> None:
        """Finish a job, or give it back, or lose it."""
        token = job.lease_token
        chance = rng.random()
        if chance < 0.1 and job.leased_until < datetime.now(timezone.utc) + timedelta(seconds=5):
            return
        if chance < 0.25:
            kept = session.extend_lease(job_id=job.job_id, lease_token=token, lease="1 second")
            if kept:
                with self.lock:
                    if job.job_id in self.held:
                        self.held[job.job_id] = max(
                            self.held[job.job_id], datetime.now(timezone.utc)
                        )
        self.drop(job)
        if chance < 0.4:
            session.nack(job_id=job.job_id, lease_token=token, delay="0")
        elif session.ack(job_id=job.job_id, lease_token=token):
            with self.lock:
                self.finished.add(job.job_id)


def test_workers_never_have_more(shared_connect: Connect, connection: Session) -> None:
    queue = new_queue(connection, max_leased=5, no_limit=["max_attempts"])
    ids = enqueue_many(connection, queue, 150)
    crowd = Crowd(shared_connect, queue, 5, len(ids))
    until = time.monotonic() + 60
    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(crowd.work, seed, until) for seed in range(8)]:
            future.result()
    assert crowd.over == []
    assert crowd.finished == set(ids)
    assert crowd.highest > 1


def test_it_is_switched_on_while_workers_run(shared_connect: Connect, connection: Session) -> None:
    """Those who claim at that moment may not know it yet; what they have is counted."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 40)
    unaware = shared_connect()
    assert len(claim(unaware, queue, 3)) == 3
    connection.alter_queue(queue=queue, max_leased=4)
    assert len(claim(connection, queue, 2)) == 2
    unaware.commit()
    # Five are leased: as soon as all have ended that were under way, they are found.
    wait_until(lambda: claim(connection, queue) == [], what="the limit to be reached")
    assert claim(connection, queue, 9) == []


def test_claims_wait_for_each_other(shared_connect: Connect, connection: Session) -> None:
    queue = new_queue(connection, max_leased=3)
    ids = enqueue_many(connection, queue, 9)
    first, second = shared_connect(), shared_connect()
    assert len(claim(first, queue, 2)) == 2
    waiting = blocked(connection, second, lambda: claim(second, queue, 9))
    first.commit()
    [got] = results(waiting)
    assert [job.job_id for job in got] == ids[2:3]
    waiting = blocked(connection, first, lambda: claim(first, queue, 9))
    second.rollback()
    [got] = results(waiting)
    assert [job.job_id for job in got] == ids[2:3]
    first.commit()


def test_finishing_never_waits_for_a_claim(shared_connect: Connect, connection: Session) -> None:
    queue = new_queue(connection, max_leased=3, rate_limit=1000)
    enqueue_many(connection, queue, 9)
    held = claim_one(connection, queue)
    open_claim = shared_connect()
    claim_one(open_claim, queue)
    [done] = results(aside(lambda: ack(connection, held)))
    assert done
    open_claim.rollback()


def test_a_lease_that_is_being_extended_counts(
    shared_connect: Connect, connection: Session
) -> None:
    queue = new_queue(connection, max_leased=1)
    enqueue_many(connection, queue, 2)
    job = claim_one(connection, queue, lease="2 seconds")
    worker = shared_connect()
    assert worker.extend_lease(job_id=job.job_id, lease_token=job.lease_token)
    wait_until(lambda: datetime.now(timezone.utc) > job.leased_until)
    assert claim(connection, queue) == []
    worker.commit()
    assert claim(connection, queue) == []


def test_a_lease_that_a_claim_has_passed_over_is_not_extended(
    shared_connect: Connect, connection: Session
) -> None:
    queue = new_queue(connection, max_leased=1)
    enqueue_many(connection, queue, 2, priority=5)
    lost = claim_one(connection, queue, lease="0.1 seconds")
    [first] = enqueue_many(connection, queue, 1)
    wait_until(lambda: datetime.now(timezone.utc) > lost.leased_until)
    claimer, worker = shared_connect(), shared_connect(autocommit=True)
    assert claim_one(claimer, queue).job_id == first
    waiting = blocked(
        connection,
        worker,
        lambda: worker.extend_lease(job_id=lost.job_id, lease_token=lost.lease_token),
    )
    claimer.commit()
    assert results(waiting) == [False]
    assert claim(connection, queue) == []


@pytest.mark.parametrize("limit", [{"max_leased": 3}, {"rate_limit": 3, "rate_interval": "1 hour"}])
@pytest.mark.parametrize("level", STRICT)
def test_an_old_snapshot(
    shared_connect: Connect, connection: Session, level: str, limit: dict[str, Any]
) -> None:
    queue = new_queue(connection, **limit)
    enqueue_many(connection, queue, 9, labels=["l"] * 9)
    session = shared_connect(isolation_level=level)
    session.execute("select")
    claim_one(connection, queue)
    refused("40001", session.claim_job, queue=queue, max_jobs=3)
    session.rollback()
    assert len(claim(session, queue, 9, label="l")) == 2
    session.commit()
    assert claim(session, queue, 9) == []
    session.rollback()
    connection.alter_queue(queue=queue, **{next(iter(limit)): 4})


@pytest.mark.parametrize("level", STRICT)
def test_an_old_snapshot_of_a_lease_that_was_extended(
    shared_connect: Connect, connection: Session, level: str
) -> None:
    queue = new_queue(connection, max_leased=1)
    enqueue_many(connection, queue, 2)
    job = claim_one(connection, queue, lease="1 second")
    session = shared_connect(isolation_level=level)
    session.execute("select")
    assert connection.extend_lease(job_id=job.job_id, lease_token=job.lease_token)
    wait_until(lambda: datetime.now(timezone.utc) > job.leased_until)
    refused("40001", session.claim_job, queue=queue)


@pytest.mark.parametrize("level", STRICT)
def test_an_old_snapshot_of_the_setting(
    shared_connect: Connect, connection: Session, level: str
) -> None:
    queue = new_queue(connection, max_leased=5)
    enqueue_many(connection, queue, 9)
    session = shared_connect(isolation_level=level)
    session.execute("select")
    connection.alter_queue(queue=queue, max_leased=1)
    refused("40001", session.claim_job, queue=queue)


def test_a_worker_that_is_killed(shared_connect: Connect, connection: Session) -> None:
    """Its open claim has not happened; what it had is free when the lease has run out."""
    queue = new_queue(connection, max_leased=2)
    enqueue_many(connection, queue, 9)
    victim = shared_connect(autocommit=True)
    lost = claim_one(victim, queue, lease="1 second")
    victim.autocommit = False
    claim_one(victim, queue)
    waiting = blocked(
        connection, other := shared_connect(autocommit=True), lambda: claim(other, queue, 9)
    )
    connection.execute("select pg_terminate_backend(%s)", [victim.info.backend_pid])
    [got] = results(waiting)
    assert 1 <= len(got) <= 2
    with suppress(psycopg.Error):
        victim.rollback()
    wait_until(lambda: datetime.now(timezone.utc) > lost.leased_until)
    assert len(got) + len(claim(connection, queue, 9)) == 2
    assert claim(connection, queue, 9) == []
