"""Floors of claims by label: only where they help, and cleanup looks at some of them at a time.

Labels may be many, one for each customer or even for each job.
"""

from __future__ import annotations

import time

import pytest

from plans.counting import Reader
from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Session, row

# how many labels one cleanup looks at
LABELS = 1000
# a claim raises the floor at most this often
PAUSE = 0.03


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """In place of the one that the tests of this folder share."""
    return emptied_dsn


@pytest.fixture
def clock(emptied_clock: Clock) -> Clock:
    """The clock of that database."""
    return emptied_clock


def labels(connection: Session) -> int:
    """How many labels have floors of their own."""
    [number] = row(
        connection,
        "select count(*) from (select distinct f.queue_id, f.label from pgq.queue_floor as f"
        " where f.label <> '') as f",
    )
    assert isinstance(number, int)
    return number


def enqueue_labels(connection: Session, queue: str, number: int) -> None:
    """Jobs that wait, each with a label of its own; the first one keeps the floor of all low."""
    enqueue_many(connection, queue, number, labels=[f"customer {n:05}" for n in range(number)])


def clean_until(connection: Session, clock: Clock, wanted: int, calls: int) -> list[int]:
    """Call cleanup until so many labels have floors, and return how many had after each call."""
    seen = []
    for _ in range(calls):
        clock.advance("1 second")
        connection.cleanup()
        seen.append(labels(connection))
        if seen[-1] == wanted:
            break
    assert seen[-1] == wanted, seen
    return seen


def work_by_label(connection: Session, queue: str, clock: Clock, label: str) -> None:
    """Jobs of a label, done in turn while a job of another one keeps the floor of all low."""
    for _ in range(3):
        clock.advance("1 second")
        job_id = enqueue(connection, queue, label=label)
        job = claim_one(connection, queue, label=label)
        assert job.job_id == job_id
        assert connection.ack(job_id=job_id, lease_token=job.lease_token)


def test_a_label_that_no_job_has(connection: Session, clock: Clock) -> None:
    """Whatever is asked for leaves nothing behind."""
    queue = new_queue(connection)
    enqueue(connection, queue, "other", label="other")
    for _ in range(3):
        for number in range(20):
            assert claim(connection, queue, label=f"reply {number}") == []
        clock.advance("6 seconds")
        connection.cleanup()
    assert labels(connection) == 0


def test_a_label_for_each_job(connection: Session) -> None:
    """Where nothing else waits, the floors of all claims do."""
    queue = new_queue(connection)
    for number in range(5):
        label = f"reply {number}"
        job_id = enqueue(connection, queue, label=label)
        time.sleep(PAUSE)
        assert claim_one(connection, queue, label=label).job_id == job_id
    assert labels(connection) == 0


def test_a_label_beside_jobs_that_wait(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection)
    enqueue(connection, queue, "other", label="other")
    for _ in range(3):
        clock.advance("1 second")
        job_id = enqueue(connection, queue, label="customer")
        assert claim_one(connection, queue, label="customer").job_id == job_id
    assert labels(connection) == 1
    assert stats(connection, queue) == {"ready": 1, "leased": 3}


def test_labels_have_their_turns(connection: Session, clock: Clock) -> None:
    """A cleanup raises the floors of some labels, and the next one those of others."""
    number = 2 * LABELS + 500
    queue = new_queue(connection)
    enqueue_labels(connection, queue, number)
    seen = clean_until(connection, clock, number - 1, calls=6)
    steps = [after - before for before, after in zip([0, *seen], seen, strict=False)]
    assert max(steps) <= LABELS + 1
    # each of them is found
    jobs = [claim_one(connection, queue, label=f"customer {n:05}") for n in range(0, number, 99)]
    assert [job.payload for job in jobs] == list(range(0, number, 99))


def test_queues_share_a_cleanup(connection: Session, clock: Clock) -> None:
    queues = [new_queue(connection) for _ in range(4)]
    for queue in queues:
        enqueue_labels(connection, queue, LABELS // 2)
    seen = clean_until(connection, clock, 4 * (LABELS // 2 - 1), calls=6)
    steps = [after - before for before, after in zip([0, *seen], seen, strict=False)]
    assert max(steps) <= LABELS + 4


def test_a_job_below_the_floor_of_a_late_label(connection: Session, clock: Clock) -> None:
    """It has its turn."""
    number = 2 * LABELS
    queue = new_queue(connection)
    enqueue_labels(connection, queue, number)
    clean_until(connection, clock, number - 1, calls=6)
    late = f"customer {number - 1:05}"
    job = claim_one(connection, queue, label=late)
    connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    for _ in range(3):
        clock.advance("1 minute")
        connection.cleanup()
        claim(connection, queue, label=late)
    clock.advance("-2 minutes")
    job_id = enqueue(connection, queue, label=late)
    clock.advance("10 minutes")
    for _ in range(3):
        connection.cleanup()
    assert claim_one(connection, queue, label=late).job_id == job_id


def test_what_nobody_asks_for_is_forgotten(connection: Session, clock: Clock, dsn: str) -> None:
    """After a day, some at a time, also when the queue is empty."""
    number = 2 * LABELS + 500
    queue = new_queue(connection)
    enqueue_labels(connection, queue, number)
    clean_until(connection, clock, number - 1, calls=6)
    connection.purge_queue(queue=queue, all_jobs=True)
    clock.advance("2 days")
    reader = Reader(dsn)
    reader.call("cleanup")
    assert reader.last.entries < 50 * LABELS
    reader.close()
    assert labels(connection) >= number - 1 - 2 * LABELS
    seen = clean_until(connection, clock, 0, calls=6)
    assert seen[0] >= number - 1 - 3 * LABELS


def test_a_spell_of_a_wrong_clock(connection: Session, clock: Clock) -> None:
    """Others notice its end; the floors from then mean nothing when the clock comes there again."""
    queue = new_queue(connection)
    enqueue(connection, queue, "other", label="other")
    clock.advance("1 hour")
    work_by_label(connection, queue, clock, "customer")
    clock.advance("-1 hour")
    job_id = enqueue(connection, queue, label="customer")
    work_by_label(connection, queue, clock, "another")
    clock.advance("61 minutes")
    found = [job.job_id for job in claim(connection, queue, 10, label="customer")]
    assert found[-1] == job_id
    # and the label has floors again, which are of use
    work_by_label(connection, queue, clock, "customer")
    assert labels(connection) == 2


def test_labels_of_other_queues_are_not_walked(connection: Session, clock: Clock) -> None:
    """The next label of a queue is found without a look at the jobs of another one."""
    big, small = new_queue(connection), new_queue(connection)
    for _ in range(5):
        enqueue_many(connection, big, 10_000, labels=["common"] * 10_000)

    def pages() -> int:
        """How many pages a cleanup reads."""
        [[plan]] = row(connection, "explain (analyze, buffers, format json) select pgq.cleanup()")
        return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])

    for _ in range(3):
        clock.advance("1 second")
        before = pages()
    enqueue(connection, small, label="rare")
    for _ in range(3):
        clock.advance("1 second")
        after = pages()
    assert after < before + 200, (before, after)
