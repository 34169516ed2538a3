"""Many sessions, few unique keys: never two unfinished jobs of one, no deadlock, nothing left."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from support.queue import ack, claim, new_queue
from support.session import Connect, Session
from support.unique import MODES, add, keys_of, loose_keys

KEYS = [f"key {number}" for number in range(12)]
ROUNDS = 40


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


def two_of_a_key(session: Session, queue: str, mode: str) -> list[Any]:
    """Keys of which there is more than one job that should be the only one."""
    waiting = "and j.lease_token is null" if mode == "claimed" else ""
    return session.execute(
        "select j.unique_key, array_agg(j.job_id) from pgq.job as j"
        " inner join pgq.queue as q on q.queue_id = j.queue_id"
        f" where q.queue = %s and j.unique_key is not null {waiting}"
        " group by j.unique_key having count(*) > 1",
        [queue],
    ).fetchall()


def test_one_wins(shared_connect: Connect, connection: Session) -> None:
    queue = new_queue(connection)
    sessions = [shared_connect(autocommit=True) for _ in range(8)]
    with ThreadPoolExecutor(len(sessions)) as pool:
        for key in KEYS:
            made = list(pool.map(add, sessions, repeat(queue), repeat(key)))
            assert len({number for number, _ in made}) == 1
            assert Counter(duplicate for _, duplicate in made) == {False: 1, True: 7}


@pytest.mark.parametrize("mode", MODES)
def test_producers_and_workers(shared_connect: Connect, connection: Session, mode: str) -> None:
    """Batches in any order, and all the ways in which jobs come and go."""
    queue = new_queue(connection, unique_until=mode, backoff="0", max_attempts=3)

    def produce(seed: int) -> list[int]:
        session = shared_connect(autocommit=True)
        rng = random.Random(seed)
        new = []
        for _ in range(ROUNDS):
            keys = rng.sample(KEYS, rng.choice([1, 2, 5, 12]))
            made = session.enqueue_batch(
                queue=queue, payloads=[Jsonb(key) for key in keys], unique_keys=keys
            )
            new += [each.job_id for each in made if not each.duplicate]
            assert two_of_a_key(session, queue, mode) == []
            if rng.random() < 0.2:
                session.redrive(queue=queue, all_jobs=True)
        return new

    def work(seed: int) -> list[int]:
        session = shared_connect(autocommit=True)
        rng = random.Random(seed)
        done = []
        for _ in range(ROUNDS):
            jobs = claim(session, queue, rng.choice([1, 1, 4]))
            for job in jobs:
                held = {"job_id": job.job_id, "lease_token": job.lease_token}
                way = rng.choice(["ack", "ack", "nack", "release_job", "reject_job", "cancel_job"])
                if way == "cancel_job":
                    ended = session.cancel_job(job_id=job.job_id)
                else:
                    ended = session.call(way, **held)
                assert ended is True
                if way in ("ack", "cancel_job"):
                    done.append(job.job_id)
            assert two_of_a_key(session, queue, mode) == []
        return done

    with ThreadPoolExecutor(4) as pool:
        producers = [pool.submit(produce, seed) for seed in range(2)]
        workers = [pool.submit(work, seed) for seed in range(2, 4)]
        new = [number for future in producers for number in future.result(120)]
        done = [number for future in workers for number in future.result(120)]

    assert len(set(new)) == len(new)
    assert len(set(done)) == len(done)
    assert loose_keys(connection) == 0
    # what is left can be finished, and then nothing is
    for _ in range(len(new) + 1):
        connection.redrive(queue=queue, all_jobs=True)
        jobs = claim(connection, queue, 1000)
        done += [job.job_id for job in jobs if ack(connection, job)]
    assert sorted(done) == sorted(new)
    assert keys_of(connection, queue) == {}


def test_ten_thousand_keys(shared_connect: Connect, connection: Session) -> None:
    """Twice at the same time, in opposite orders."""
    queue = new_queue(connection)
    keys = [f"key {number}" for number in range(10_000)]
    sessions = [shared_connect(autocommit=True) for _ in range(2)]

    def produce(session: Session, mine: list[str]) -> list[tuple[int, bool]]:
        made = session.enqueue_batch(queue=queue, payloads=[0] * len(mine), unique_keys=mine)
        return [tuple(each) for each in made]

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(produce, sessions, (keys, keys[::-1]))
    assert [number for number, _ in one] == [number for number, _ in reversed(other)]
    assert Counter(duplicate for _, duplicate in one + other) == {True: 10_000, False: 10_000}
    jobs = claim(connection, queue, 100_000)
    assert len(jobs) == 10_000
    ids = [job.job_id for job in jobs]
    assert len(connection.ack_batch(job_ids=ids, lease_token=jobs[0].lease_token)) == 10_000
    assert keys_of(connection, queue) == {}
