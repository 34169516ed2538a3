"""Queues with max_leased_per_key that follow a topic: claims make jobs of runs, key by key."""

from __future__ import annotations

import random
import threading
from collections import Counter
from itertools import count

import pytest

from support.queue import Job, ack, claim, stats
from support.session import Connect, Session
from support.subscription import in_runs, new_followed_topic, publish_many
from support.waiting import PATIENCE, aside, blocked, results

OF_A_KEY = 2


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


def new_pair(connection: Session) -> tuple[str, str]:
    """A topic, and a queue with a limit per key that follows it."""
    topic, [queue] = new_followed_topic(connection, partitions=2)
    connection.alter_queue(queue=queue, max_leased_per_key=OF_A_KEY)
    return topic, queue


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_claim_that_is_open(shared_connect: Connect, connection: Session, ending: str) -> None:
    """Another one waits for it, and finds what it has left, or all if it is undone."""
    topic, queue = new_pair(connection)
    publish_many(connection, topic, 10, keys=["a"] * 8 + ["b"] * 2, partition=0)
    one, two = shared_connect(), shared_connect(autocommit=True)
    assert [job.payload for job in claim(one, queue, 1)] == [0]
    waiting = blocked(connection, two, lambda: claim(two, queue, 10))
    getattr(one, ending)()
    [got] = results(waiting)
    assert sorted(job.payload for job in got) == [*([1] if ending == "commit" else [0, 1]), 8, 9]
    assert in_runs(connection, queue) == 0


def test_a_key_that_is_full(connection: Session) -> None:
    """Behind many of its jobs, of several runs, a claim finds those of another key."""
    topic, queue = new_pair(connection)
    for _ in range(3):
        publish_many(connection, topic, 50, keys=["a"] * 50, partition=0)
    publish_many(connection, topic, 10, keys=["b"] * 10, partition=0)
    for expected in ({"a": 2, "b": 2}, {"a": 2, "b": 2}):
        jobs = claim(connection, queue, 9)
        assert Counter(job.key for job in jobs) == expected
        assert claim(connection, queue, 9) == []
        for job in jobs:
            assert ack(connection, job)
    done = 8
    while jobs := claim(connection, queue, 9):
        connection.ack_batch(job_ids=[j.job_id for j in jobs], lease_token=jobs[0].lease_token)
        done += len(jobs)
    assert (done, stats(connection, queue)) == (160, {})


def test_a_crowd(shared_connect: Connect, connection: Session) -> None:
    """Publishers and workers, some of whom roll back: each job once, never too many of a key."""
    topic, queue = new_pair(connection)
    lock = threading.Lock()
    numbers = count()
    sent: set[int] = set()
    ended: Counter[int] = Counter()
    at_work: Counter[str] = Counter()
    too_many: list[str] = []
    published = threading.Event()

    def publisher(seed: int) -> None:
        rng = random.Random(seed)
        session = shared_connect()
        for _ in range(8):
            names = [next(numbers) for _ in range(rng.choice([1, 5, 30]))]
            keys = [rng.choice(["a", "a", "b", "c", None]) for _ in names]
            session.publish_batch(topic=topic, payloads=names, keys=keys)
            if rng.random() < 0.2:
                session.rollback()
            else:
                session.commit()
                sent.update(names)

    def end(session: Session, job: Job, rng: random.Random) -> None:
        # Before the call: whoever gets its place may have it before this session knows.
        if job.key is not None:
            with lock:
                at_work[job.key] -= 1
        if rng.random() < 0.2:
            session.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")
        elif ack(session, job):
            ended[job.payload] += 1
        session.commit()

    def worker(seed: int) -> None:
        rng = random.Random(seed)
        session = shared_connect()
        while not (published.is_set() and len(ended) == len(sent)):
            jobs = claim(session, queue, rng.choice([1, 3, 10, 50]))
            if rng.random() < 0.2:
                session.rollback()
                continue
            session.commit()
            for job in jobs:
                if job.key is not None:
                    with lock:
                        at_work[job.key] += 1
                        if at_work[job.key] > OF_A_KEY:
                            too_many.append(job.key)
            for job in jobs:
                end(session, job, rng)

    connection.alter_queue(queue=queue, no_limit=["max_attempts"])
    workers = [aside(lambda s=s: worker(s)) for s in range(3)]
    results(*[aside(lambda s=s: publisher(s)) for s in (10, 11)])
    published.set()
    for each in workers:
        each.result(PATIENCE)
    assert too_many == []
    assert ended == dict.fromkeys(sent, 1)
    assert (in_runs(connection, queue), stats(connection, queue)) == (0, {})
