"""Floors of claims by label: only where they help, and cleanup looks at some of them at a time.

Labels may be many, one for each customer or even for each job.
"""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from plans.counting import Reader
from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, refused, row

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


def give_floors(connection: Session, queue: str, number: int) -> None:
    """Floors for so many labels, customer 00000 and so on, as claims by them leave them now."""
    connection.execute(
        "insert into pgq.queue_floor"
        " select f.queue_id, '=customer ' || to_char(n, 'FM00000'), 1, f.epoch,"
        " array_fill(pgq._clock(), array[10]), f.floor_ids, pgq._clock(), pgq._clock(),"
        " f.candidate_at, f.candidate_xid from generate_series(0, %s) as n, pgq.queue_floor as f"
        " inner join pgq.queue as q using (queue_id) where q.queue = %s"
        " and (f.label, f.seq) in (select '', max(g.seq) from pgq.queue_floor as g"
        " where g.queue_id = q.queue_id and g.label = '')",
        [number - 1, queue],
    )


def work_by_label(connection: Session, queue: str, clock: Clock, label: str) -> None:
    """Jobs of a label, done in turn while a job of another one keeps the floor of all low."""
    for _ in range(3):
        clock.advance("1 second")
        job_id = enqueue(connection, queue, label=label)
        job = claim_one(connection, queue, label=label)
        assert job.job_id == job_id
        assert connection.ack(job_id=job_id, lease_token=job.lease_token)


def note_done(connection: Session, queue: str, label: str) -> None:
    """A floor, newer than all others, below which no job of a label is left."""
    connection.execute(
        "insert into pgq.queue_floor"
        " select f.queue_id, '=' || %s, 1000, f.epoch, array_fill(c.moment, array[10]),"
        " array_fill(9223372036854775807, array[10]), c.moment, c.moment, f.candidate_at,"
        " f.candidate_xid from pgq.queue_floor as f"
        " inner join pgq.queue as q using (queue_id), pgq._clock() as c (moment)"
        " where q.queue = %s and f.label = '' order by f.seq desc limit 1",
        [label, queue],
    )


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


def test_a_label_passes_what_is_done_of_one_batch(connection: Session, clock: Clock) -> None:
    """Jobs that were enqueued at once have one time: the floor passes those that are done."""
    queue = new_queue(connection)
    enqueue(connection, queue, "other", label="other")
    job_ids = enqueue_many(connection, queue, 6, labels=["customer"] * 6)
    for job_id in job_ids[:4]:
        clock.advance("1 second")
        job = claim_one(connection, queue, label="customer")
        assert job.job_id == job_id
        assert connection.ack(job_id=job_id, lease_token=job.lease_token)
    floor = row(
        connection,
        "select f.floor_ids[1] from pgq.queue_floor as f where f.label = '=customer'"
        " order by f.seq desc limit 1",
    )
    assert floor == (job_ids[3],) or floor == (job_ids[4],)


def test_a_claim_by_a_label_does_so(
    dsn: str, connection: Session, connect: Connect, clock: Clock
) -> None:
    """Where the floor of all claims stands at the same time, and at a job before those."""
    queue = new_queue(connection)
    # what is done stays in the index as long as somebody may see it
    old = connect(isolation_level="repeatable read")
    old.execute("select 1")
    enqueue_many(connection, queue, 500, labels=["other"] + ["customer"] * 499)
    for _ in range(5):
        clock.advance("1 second")
        for job in claim(connection, queue, 99, label="customer"):
            assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    for _ in range(3):
        clock.advance("1 second")
        connection.cleanup()
    reader = Reader(dsn)
    [_] = reader.call("claim_job", queue=queue, label="customer")
    reader.close()
    old.rollback()
    assert reader.last.entries < 250


def test_the_floors_of_another_label_are_none_of_its_own(connection: Session, clock: Clock) -> None:
    """Not even when they have risen since those of all claims, and oftener."""
    queue = new_queue(connection)
    enqueue(connection, queue, "other", label="other")
    work_by_label(connection, queue, clock, "slow")
    waiting = enqueue(connection, queue, label="slow")
    clock.advance("1 second")
    note_done(connection, queue, "busy")
    connection.execute(
        "select pgq._raise_label_floor(f.queue_id, 'slow', f.recorded_at) from pgq.queue_floor as f"
        " where f.label = '=busy'"
    )
    assert claim_one(connection, queue, label="slow").job_id == waiting


def test_all_jobs_count_against_the_room_of_a_queue(connection: Session, clock: Clock) -> None:
    """Also those below the floor of a label that is done."""
    queue = new_queue(connection, max_unfinished=3)
    enqueue_many(connection, queue, 3, labels=["other"] * 3)
    clock.advance("1 minute")
    note_done(connection, queue, "busy")
    refused("MQ010", connection.enqueue, queue=queue, payload=1)


def test_what_has_expired_takes_no_room(connection: Session, clock: Clock) -> None:
    """Once claims have passed it: the latest floor counts."""
    queue = new_queue(connection, max_unfinished=3, job_ttl="1 hour")
    enqueue_many(connection, queue, 3)
    assert claim_one(connection, queue).attempt == 1
    clock.advance("2 hours")
    refused("MQ010", connection.enqueue, queue=queue, payload=1)
    for _ in range(5):
        assert claim(connection, queue) == []
        clock.advance("1 second")
    enqueue(connection, queue)


def test_a_label_has_one_row(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection)
    enqueue(connection, queue, "other", label="other")
    for _ in range(3):
        work_by_label(connection, queue, clock, "customer")
    rows = "select count(*) from pgq.queue_floor where label <> ''"
    assert row(connection, rows) == (1,)


def test_labels_that_nobody_asks_for(connection: Session, clock: Clock) -> None:
    """Cleanup gives them no floors."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 20, labels=[f"customer {n}" for n in range(20)])
    for _ in range(3):
        clock.advance("1 second")
        connection.cleanup()
    assert labels(connection) == 0


def test_a_label_that_nobody_asks_for_any_more(connection: Session, clock: Clock) -> None:
    """It is forgotten after a day, though jobs of it wait and cleanup comes every few hours."""
    queue = new_queue(connection, no_limit=["job_ttl"])
    enqueue(connection, queue, "other", label="other")
    work_by_label(connection, queue, clock, "customer")
    job_id = enqueue(connection, queue, label="customer", delay="5 hours")
    seen = []
    for _ in range(8):
        connection.cleanup()
        seen.append(labels(connection))
        clock.advance("3 hours")
    assert seen == [1] * 8
    clock.advance("1 hour")
    connection.cleanup()
    assert labels(connection) == 0
    assert job_id in [job.job_id for job in claim(connection, queue, 10, label="customer")]


def test_floors_are_removed_in_turns(connection: Session, clock: Clock, dsn: str) -> None:
    """A cleanup looks at some labels, and the next one at others, also when the queue is empty."""
    number = 2 * LABELS + 500
    queue = new_queue(connection)
    give_floors(connection, queue, number)
    connection.cleanup()
    assert labels(connection) == number
    clock.advance("2 days")
    reader = Reader(dsn)
    seen = [number]
    while seen[-1] > 0 and len(seen) < 6:
        reader.call("cleanup")
        assert reader.last.entries < 50 * LABELS
        seen.append(labels(connection))
    reader.close()
    assert seen[-1] == 0
    steps = [before - after for before, after in pairwise(seen)]
    assert max(steps) <= LABELS + 1


def test_queues_share_a_cleanup(connection: Session, clock: Clock) -> None:
    queues = [new_queue(connection) for _ in range(4)]
    for queue in queues:
        give_floors(connection, queue, LABELS)
    clock.advance("2 days")
    connection.cleanup()
    assert 3 * LABELS - 4 <= labels(connection) <= 3 * LABELS


def test_a_job_below_the_floor_of_a_label(connection: Session, clock: Clock) -> None:
    """Nobody asked for anything before the clock was right again: the label has its turn."""
    queue = new_queue(connection)
    enqueue(connection, queue, "other", label="other")
    clock.advance("1 minute")
    give_floors(connection, queue, 2 * LABELS)
    clock.advance("-30 seconds")
    job_id = enqueue(connection, queue, label="customer 00000")
    clock.advance("10 minutes")
    assert claim(connection, queue, label="customer 00000") == []
    for _ in range(3):
        connection.cleanup()
    assert claim_one(connection, queue, label="customer 00000").job_id == job_id
    # those of the others were right
    assert labels(connection) >= 2 * LABELS - 1


def test_a_job_below_all_floors(connection: Session, clock: Clock) -> None:
    """Cleanup lowers those of all claims, and then no label waits for its turn."""
    queue = new_queue(connection)
    for _ in range(3):
        clock.advance("1 minute")
        enqueue(connection, queue)
        claim_one(connection, queue)
    give_floors(connection, queue, 2 * LABELS)
    clock.advance("-2 minutes")
    job_id = enqueue(connection, queue, label="customer 00000")
    clock.advance("10 minutes")
    assert ("floor lowered", queue, 1) in [tuple(done) for done in connection.cleanup()]
    assert claim_one(connection, queue, label="customer 00000").job_id == job_id


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
    # of those that are not written anew nothing is left
    work_by_label(connection, queue, clock, "third")
    clock.advance("-1 hour")
    connection.cleanup()
    assert labels(connection) == 0


def test_labels_of_other_queues_are_not_walked(connection: Session, clock: Clock) -> None:
    """The next label of a queue is found without a look at the jobs of another one."""
    connection.execute("vacuum")  # of what other tests have left there
    big, small = new_queue(connection), new_queue(connection)
    for _ in range(5):
        enqueue_many(connection, big, 10_000, labels=["common"] * 10_000)

    def pages() -> int:
        """How many pages a cleanup reads."""
        [[plan]] = row(connection, "explain (analyze, buffers, format json) select pgq.cleanup()")
        return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])

    def fewest() -> int:
        """Of several, as a catalog may be read again, or a page be cleaned, in any of them."""
        found = []
        for _ in range(5):
            clock.advance("1 second")
            found.append(pages())
        return min(found)

    before = fewest()
    enqueue(connection, small, label="rare")
    after = fewest()
    assert after < before + 200, (before, after)


def test_labels_of_finished_jobs_under_an_old_snapshot(
    connection: Session, clock: Clock, dsn: str, connect: Connect
) -> None:
    """What they leave in the indexes is not walked once for each label that has floors."""
    queue = new_queue(connection)
    old = connect(isolation_level="repeatable read")
    old.execute("select count(*) from pgq.job")
    enqueue_many(connection, queue, 5_000, labels=[f"{'x' * 200} {n:05}" for n in range(5_000)])
    connection.execute("delete from pgq.job")
    # the table is empty, as far as the planner knows, and the index on the labels is the deeper one
    connection.execute("analyze pgq.job")
    enqueue(connection, queue, "other", label="a")
    for _ in range(50):
        work_by_label(connection, queue, clock, "busy")
    reader = Reader(dsn)
    reader.call("cleanup")
    before = reader.last.entries
    give_floors(connection, queue, 200)
    reader.call("cleanup")
    swept = reader.last.entries
    for _ in range(9):
        reader.call("claim_job", queue=queue, label="nobody's")
    old.rollback()
    reader.close()
    assert labels(connection) == 201
    assert swept < before + 10_000
    assert reader.last.entries < 1_000
