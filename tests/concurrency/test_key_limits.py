"""max_leased_per_key among many workers: never more of a key than allowed, and no job is lost."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from support.ordered import add, add_many, held
from support.queue import Job, ack, claim, claim_one, new_queue, stats
from support.session import Connect, Session, refused
from support.waiting import aside, blocked, results, wait_until

STRICT = ["repeatable read", "serializable"]
KEYS = ["a", "a", "a", "b", "b", "c", None]


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


def now() -> datetime:
    return datetime.now(timezone.utc)


class Crowd:
    """Workers that note from when to when they surely had a job."""

    def __init__(self, connect: Connect, queue: str, jobs: int) -> None:
        self.connect = connect
        self.queue = queue
        self.jobs = jobs
        self.lock = threading.Lock()
        self.finished: Counter[int] = Counter()
        self.had: list[tuple[datetime, int, str]] = []

    def work(self, seed: int, until: float, levels: list[str]) -> None:
        """Claim, and end what was claimed in one way or another."""
        rng = random.Random(seed)
        session = self.connect(autocommit=True)
        while len(self.finished) < self.jobs and time.monotonic() < until:
            level = rng.choice(levels)
            try:
                with session.transaction():
                    session.execute(f"set transaction isolation level {level}".encode())
                    jobs = claim(
                        session,
                        self.queue,
                        rng.choice([1, 1, 3, 20]),
                        lease=rng.choice(["20 seconds", "20 seconds", "0.3 seconds"]),
                        label=rng.choice([None, None, None, "x"]),
                    )
                    if rng.random() < 0.1:
                        jobs = []
                        raise psycopg.Rollback
            except psycopg.errors.SerializationFailure:
                continue
            began = now()
            rng.shuffle(jobs)
            for job in jobs:
                self.end(session, job, rng, began, level)

    def end(
        self, session: Session, job: Job, rng: random.Random, began: datetime, level: str
    ) -> None:
        """Finish a job, or give it back, or lose it."""
        what = rng.random()
        ends = job.leased_until
        if what < 0.1 and ends < now() + timedelta(seconds=5):
            self.note(job, began, ends)
            return
        if what < 0.2:
            session.extend_lease(**held(job), lease="1 second")
        self.note(job, began, min(now(), ends))
        if what < 0.3:
            session.nack(**held(job), delay=rng.choice(["0", "0.01 seconds"]))
        elif what < 0.4:
            session.release_job(**held(job))
        else:
            while True:
                try:
                    with session.transaction():
                        session.execute(f"set transaction isolation level {level}".encode())
                        done = ack(session, job)
                    break
                except psycopg.errors.SerializationFailure:
                    continue
            if done:
                with self.lock:
                    self.finished[job.job_id] += 1

    def note(self, job: Job, began: datetime, ended: datetime) -> None:
        """The worker had it from the one moment to the other."""
        if job.key is not None and began < ended:
            with self.lock:
                self.had += [(began, 1, job.key), (ended, -1, job.key)]

    def most(self) -> Counter[str]:
        """How many of each key were leased at one moment, at most."""
        leased: Counter[str] = Counter()
        most: Counter[str] = Counter()
        for _, change, key in sorted(self.had):
            leased[key] += change
            most[key] = max(most[key], leased[key])
        return most


@pytest.mark.parametrize(
    ("workers", "levels"), [(8, ["read committed"]), (3, ["read committed", *STRICT])]
)
def test_workers_never_have_more(
    shared_connect: Connect, connection: Session, workers: int, levels: list[str]
) -> None:
    queue = new_queue(connection, max_leased_per_key=2, no_limit=["max_attempts"])
    made = add_many(connection, queue, KEYS * 4, labels=(["x"] * 7 + [None] * 7) * 2)
    crowd = Crowd(shared_connect, queue, 2 * len(made))
    until = time.monotonic() + 120

    def producer() -> list[int]:
        session = shared_connect()
        more: list[int] = []
        for _ in range(2):
            more += add_many(session, queue, KEYS, priority=random.randrange(3))
            session.commit()
        return more

    with ThreadPoolExecutor(workers + 1) as pool:
        futures = [pool.submit(crowd.work, seed, until, levels) for seed in range(workers)]
        made += pool.submit(producer).result()
        crowd.jobs = len(made)
        for future in futures:
            future.result()
    assert set(crowd.finished) == set(made)
    assert max(crowd.finished.values()) == 1
    most = crowd.most()
    assert set(most) == {"a", "b", "c"}
    assert max(most.values()) <= 2
    assert stats(connection, queue) == {}


def test_finishing_never_waits_for_a_claim(shared_connect: Connect, connection: Session) -> None:
    """And what is finished beside a claim that parks the next one brings that up."""
    queue = new_queue(connection, max_leased_per_key=1)
    made = add_many(connection, queue, ["a", "a"])
    job = claim_one(connection, queue)
    beside = shared_connect()
    assert claim(beside, queue) == []
    [done] = results(aside(lambda: ack(connection, job)))
    assert done
    beside.commit()
    assert claim_one(connection, queue).job_id == made[1]


@pytest.mark.parametrize("level", ["read committed", *STRICT])
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_open_ack(shared_connect: Connect, connection: Session, level: str, end: str) -> None:
    queue = new_queue(connection, max_leased_per_key=1)
    made = add_many(connection, queue, ["a", "a"])
    job = claim_one(connection, queue)
    worker = shared_connect(isolation_level=level)
    assert ack(worker, job)
    assert claim(connection, queue) == []
    getattr(worker, end)()
    if end == "rollback":
        assert claim(connection, queue) == []
        assert ack(connection, job)
    assert claim_one(connection, queue).job_id == made[1]


@pytest.mark.parametrize("level", STRICT)
def test_an_ack_with_an_old_snapshot(
    shared_connect: Connect, connection: Session, level: str
) -> None:
    """It does not see what was parked since."""
    queue = new_queue(connection, max_leased_per_key=1)
    made = add_many(connection, queue, ["a", "a"])
    job = claim_one(connection, queue)
    worker = shared_connect(isolation_level=level)
    worker.execute("select")
    assert claim(connection, queue) == []
    assert ack(worker, job)
    worker.commit()
    assert claim_one(connection, queue).job_id == made[1]


@pytest.mark.parametrize("level", STRICT)
def test_claims_with_an_old_snapshot(
    shared_connect: Connect, connection: Session, level: str
) -> None:
    queue = new_queue(connection, max_leased_per_key=1)
    made = add_many(connection, queue, ["a", "a", "b"])
    session = shared_connect(isolation_level=level)
    session.execute("select")
    first = claim_one(connection, queue)
    refused("40001", session.claim_job, queue=queue, max_jobs=1)
    session.rollback()
    session.execute("select")
    assert ack(connection, first)
    # It still sees the lease, and parks what the ack has made room for.
    assert [job.job_id for job in claim(session, queue)] == [made[2]]
    session.commit()
    assert claim_one(connection, queue).job_id == made[1]


@pytest.mark.parametrize("level", STRICT)
def test_a_claim_with_an_old_snapshot_of_a_note_that_is_settled(
    shared_connect: Connect, connection: Session, level: str
) -> None:
    """A claim in between has looked at the key, and saw nothing parked."""
    queue = new_queue(connection, max_leased_per_key=1)
    add(connection, queue, "a")
    first = claim_one(connection, queue)
    session = shared_connect(isolation_level=level)
    made = add(session, queue, "a")
    assert ack(connection, first)
    assert claim(connection, queue) == []
    # It still sees the lease.
    assert claim(session, queue) == []
    session.commit()
    assert claim_one(connection, queue).job_id == made


@pytest.mark.parametrize("level", STRICT)
def test_a_claim_with_an_old_snapshot_of_a_key_that_is_taken_since(
    shared_connect: Connect, connection: Session, level: str
) -> None:
    """By another job of the key, which is the only thing that both have in common."""
    queue = new_queue(connection, max_leased_per_key=1)
    add(connection, queue, "a", label="x")
    add(connection, queue, "a", label="y")
    session = shared_connect(isolation_level=level)
    session.execute("select")
    claim_one(connection, queue, label="x")
    refused("40001", session.claim_job, queue=queue, label="y")


@pytest.mark.parametrize("level", STRICT)
def test_an_old_snapshot_of_the_setting(
    shared_connect: Connect, connection: Session, level: str
) -> None:
    queue = new_queue(connection, max_leased_per_key=5)
    add_many(connection, queue, ["a", "a"])
    session = shared_connect(isolation_level=level)
    session.execute("select")
    connection.alter_queue(queue=queue, max_leased_per_key=1)
    refused("40001", session.claim_job, queue=queue)


def test_it_is_switched_on_while_workers_run(shared_connect: Connect, connection: Session) -> None:
    """Those who claim at that moment may not know it yet; what they have is counted."""
    queue = new_queue(connection)
    made = add_many(connection, queue, ["a"] * 4)
    unaware = shared_connect()
    [job] = claim(unaware, queue)
    connection.alter_queue(queue=queue, max_leased_per_key=1)
    assert claim_one(connection, queue).job_id == made[1]
    unaware.commit()
    assert claim(connection, queue) == []
    assert ack(connection, job)
    assert claim(connection, queue) == []


def test_it_is_lifted_beside_a_claim(shared_connect: Connect, connection: Session) -> None:
    """The change waits for it, so that nothing stays parked."""
    queue = new_queue(connection, max_leased_per_key=1)
    made = add_many(connection, queue, ["a", "a", "a"])
    beside, admin = shared_connect(), shared_connect(autocommit=True)
    claim_one(beside, queue)
    assert claim(beside, queue) == []
    waiting = blocked(
        connection,
        admin,
        lambda: admin.alter_queue(queue=queue, no_limit=["max_leased_per_key"]),
    )
    beside.commit()
    results(waiting)
    assert [job.job_id for job in claim(connection, queue, 9)] == made[1:]


def test_a_parked_job_that_somebody_cancels(shared_connect: Connect, connection: Session) -> None:
    """The next one is handed out; if nothing comes of it, the job is found again."""
    queue = new_queue(connection, max_leased_per_key=1)
    made = add_many(connection, queue, ["a", "a", "a"])
    job = claim_one(connection, queue)
    assert claim(connection, queue) == []
    beside = shared_connect()
    assert beside.cancel_job(job_id=made[1])
    assert ack(connection, job)
    job = claim_one(connection, queue)
    assert job.job_id == made[2]
    assert ack(connection, job)
    assert claim(connection, queue) == []
    beside.rollback()

    def found() -> Any:
        return claim(connection, queue)

    [job] = wait_until(found)
    assert job.job_id == made[1]


def test_a_claim_passes_by_what_somebody_cancels(
    shared_connect: Connect, connection: Session
) -> None:
    """It waits for nobody, and hands out what it can have."""
    queue = new_queue(connection, max_leased_per_key=1)
    made = add_many(connection, queue, ["a", "b"])
    beside = shared_connect()
    assert beside.cancel_job(job_id=made[0])
    connection.execute("set lock_timeout = '1s'")
    assert [job.job_id for job in claim(connection, queue, 9)] == made[1:]
    beside.rollback()
    assert [job.job_id for job in claim(connection, queue, 9)] == made[:1]


def test_a_lease_that_is_being_extended_counts(
    shared_connect: Connect, connection: Session
) -> None:
    queue = new_queue(connection, max_leased_per_key=1)
    add_many(connection, queue, ["a", "a"], labels=["x", "y"])
    job = claim_one(connection, queue, lease="0.5 seconds")
    worker = shared_connect()
    assert worker.extend_lease(**held(job))
    wait_until(lambda: now() > job.leased_until)
    assert claim(connection, queue) == []
    assert claim(connection, queue, label="y") == []
    worker.commit()
    assert claim(connection, queue, 9) == []


def test_two_notes_of_one_moment(connect: Connect) -> None:
    """A clock that stands still, or goes back, makes notes of a key that are the same."""
    connection = connect(autocommit=True)
    connection.execute(
        "create or replace function pgq._clock() returns timestamptz language sql stable"
        " as $$ select timestamptz '2040-01-01 00:00 utc' $$"
    )
    queue = new_queue(connection, max_leased_per_key=1, backoff="0")
    for _ in range(4):
        connection.enqueue(queue=queue, payload=1, key="k", label="blue")
    for _ in range(4):
        [job] = claim(connection, queue, 4)
        assert connection.release_job(job_id=job.job_id, lease_token=job.lease_token)
        assert claim(connection, queue, 4, label="red") == []
    for _ in range(4):
        [job] = claim(connection, queue, 4)
        assert ack(connection, job)
    assert claim(connection, queue, 4) == []
