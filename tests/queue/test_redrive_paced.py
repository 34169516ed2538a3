"""redrive of some dead letters, and of so many in each second."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue_many, new_queue, stats
from support.session import Connect, Session, refused, unchanged


def bury(connection: Session, number: int, **settings: Any) -> tuple[str, list[int]]:
    """A queue with dead letters."""
    queue = new_queue(connection, max_attempts=1, **settings)
    ids = enqueue_many(connection, queue, number)
    jobs = claim(connection, queue, number)
    connection.nack_batch(job_ids=ids, lease_token=jobs[0].lease_token)
    assert stats(connection, queue) == {"dead": number}
    return queue, ids


def test_the_first_of_them(connection: Session) -> None:
    """Those that died first; the next call takes the next ones, until there are no more."""
    queue = new_queue(connection, max_attempts=1)
    ids = enqueue_many(connection, queue, 5)
    token = claim(connection, queue, 5)[0].lease_token
    for job_id in reversed(ids):
        connection.nack(job_id=job_id, lease_token=token)
    call = {"queue": queue, "all_jobs": True, "max_jobs": 2}
    found = []
    for number in (2, 2, 1, 0):
        assert connection.redrive(**call).taken == number
        found.append({job.job_id for job in claim(connection, queue, 10)})
    assert found == [{ids[4], ids[3]}, {ids[2], ids[1]}, {ids[0]}, set()]


def test_so_many_in_each_second(connection: Session, clock: Clock) -> None:
    queue, _ids = bury(connection, 25)
    assert connection.redrive(queue=queue, all_jobs=True, per_second=10).taken == 25
    came = []
    for _ in range(5):
        came += [len(claim(connection, queue, 100))]
        clock.advance("1 second")
    assert sum(came) == 25
    # the clock goes on by itself as well
    assert 1 <= came[0] <= 10
    assert came[1] >= 9
    assert came[4] == 0


def test_in_the_order_in_which_they_died(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, max_attempts=1)
    ids = enqueue_many(connection, queue, 4)
    token = claim(connection, queue, 4)[0].lease_token
    order = [ids[2], ids[0], ids[3], ids[1]]
    for job_id in order:
        connection.nack(job_id=job_id, lease_token=token)
    connection.redrive(queue=queue, all_jobs=True, per_second=0.01)
    for job_id in order:
        assert claim_one(connection, queue).job_id == job_id
        assert claim(connection, queue) == []
        clock.advance("100 seconds")


def test_the_job_ttl_begins_when_it_is_due(connection: Session, clock: Clock) -> None:
    queue, ids = bury(connection, 2, job_ttl="1 minute")
    connection.redrive(queue=queue, all_jobs=True, per_second=0.001)
    assert len(claim(connection, queue, 2)) == 1
    clock.advance("1030 seconds")
    assert claim_one(connection, queue).job_id == ids[1]


@pytest.mark.parametrize("max_jobs", [None, 3])
def test_a_unique_key_that_another_job_has(connection: Session, max_jobs: int | None) -> None:
    """Such a letter stays one, and is in nobody's way."""
    queue = new_queue(connection, max_attempts=1)
    for n in range(6):
        connection.enqueue(queue=queue, payload=n, unique_key=f"k{n}" if n < 4 else None)
    jobs = claim(connection, queue, 6)
    ids = [job.job_id for job in jobs]
    connection.nack_batch(job_ids=ids, lease_token=jobs[0].lease_token)
    for n in range(3):
        connection.enqueue(queue=queue, payload=n, unique_key=f"k{n}")
    assert connection.redrive(queue=queue, all_jobs=True, max_jobs=max_jobs).taken == 3
    assert connection.redrive(queue=queue, all_jobs=True, max_jobs=max_jobs).taken == 0
    assert stats(connection, queue) == {"ready": 6, "dead": 3}
    left = [letter.job_id for letter in connection.fetch_dead_letters(queue=queue)]
    assert left == ids[:3]


def test_those_that_another_transaction_is_at(connect: Connect, connection: Session) -> None:
    """Two that redrive at one time share the letters and do not wait for each other."""
    queue, _ = bury(connection, 10)
    other = connect()
    assert other.redrive(queue=queue, all_jobs=True, max_jobs=4).taken == 4
    connection.execute("set lock_timeout = '5s'")
    assert connection.redrive(queue=queue, all_jobs=True, max_jobs=10).taken == 6
    other.rollback()
    assert connection.redrive(queue=queue, all_jobs=True, max_jobs=10).taken == 4
    assert stats(connection, queue) == {"ready": 10}


def test_refusals(connection: Session) -> None:
    queue, ids = bury(connection, 1)
    with unchanged(connection):
        for max_jobs in (0, -1, 1000001):
            refused("22023", connection.redrive, queue=queue, all_jobs=True, max_jobs=max_jobs)
        for rate in (0, -1, 0.0009, 1000001, "NaN", "infinity"):
            refused("22023", connection.redrive, queue=queue, all_jobs=True, per_second=rate)
        for extra in ({"max_jobs": 1}, {"per_second": 1}):
            refused("22023", connection.redrive, queue=queue, job_id=ids[0], **extra)
            refused("22023", connection.redrive, queue=queue, **extra)


# ---------------------------------------------------------------------------- purge


def test_purge_one(connection: Session) -> None:
    queue, ids = bury(connection, 3)
    other, _ = bury(connection, 1)
    assert connection.purge_queue(queue=other, job_id=ids[1]).taken == 0
    assert connection.purge_queue(queue=queue, job_id=ids[1]).taken == 1
    assert connection.purge_queue(queue=queue, job_id=ids[1]).taken == 0
    assert stats(connection, queue) == {"dead": 2}
    living = enqueue_many(connection, queue, 1)[0]
    assert connection.purge_queue(queue=queue, job_id=living).taken == 0
    assert stats(connection, queue) == {"dead": 2, "ready": 1}


def test_purge_by_age(connection: Session, clock: Clock) -> None:
    queue, _ids = bury(connection, 2)
    clock.advance("1 hour")
    more = enqueue_many(connection, queue, 2)
    token = claim(connection, queue, 2)[0].lease_token
    [(moment,)] = connection.execute("select pgq._clock()").fetchall()
    connection.nack_batch(job_ids=more, lease_token=token)
    assert connection.purge_queue(queue=queue, died_before=moment).taken == 2
    assert connection.purge_queue(queue=queue, died_before=moment).taken == 0
    left = [letter.job_id for letter in connection.fetch_dead_letters(queue=queue)]
    assert left == more


def test_purge_says_what(connection: Session) -> None:
    queue, ids = bury(connection, 1)
    ways: list[dict[str, Any]] = [
        {"dead_only": True},
        {"all_jobs": True},
        {"job_id": ids[0]},
        {"died_before": "2100-01-01"},
    ]
    with unchanged(connection):
        refused("22023", connection.purge_queue, queue=queue, dead_only=False, all_jobs=False)
        for n, way in enumerate(ways):
            refused("22023", connection.purge_queue, queue=queue, **way, **ways[n - 1])


def test_purging_one_frees_its_key(connection: Session) -> None:
    """Where a dead letter keeps its key."""
    queue = new_queue(connection, max_attempts=1, unique_until="removed")
    [first, _] = connection.enqueue(queue=queue, payload=1, unique_key="k")
    job = claim_one(connection, queue)
    connection.nack(job_id=first, lease_token=job.lease_token)
    assert connection.enqueue(queue=queue, payload=1, unique_key="k") == (first, True)
    assert connection.purge_queue(queue=queue, job_id=first).taken == 1
    assert connection.enqueue(queue=queue, payload=1, unique_key="k").duplicate is False
