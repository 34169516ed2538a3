"""The floor: claims begin their search where jobs can be, and no job is ever left below it.

Below the floor of a queue and priority no claimable job exists, so claims need not walk over what
finished jobs left behind in the index. It is raised by the claims themselves. The danger is a
transaction that gave a job its time and commits only when the floor has passed it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest

from support.clock import Clock
from support.queue import Job, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, row
from support.waiting import wait_until

# a claim raises the floor at most this often
PAUSE = 0.06


@pytest.fixture(params=["read committed", "repeatable read"])
def connection(shared_connect: Connect, request: pytest.FixtureRequest) -> Session:
    """Those who work with the queue meanwhile, and raise its floor."""
    session = shared_connect(autocommit=True)
    session.execute(f"set default_transaction_isolation = '{request.param}'".encode())
    return session


def floor(connection: Session, queue: str, priority: int = 0) -> datetime | None:
    """Where claims begin; None: at the very first job."""
    [found] = row(
        connection,
        "select nullif(f.floor_times[%s], '-infinity') from pgq.queue_floor as f"
        " inner join pgq.queue as q using (queue_id) where q.queue = %s"
        " order by f.seq desc limit 1",
        [priority + 1, queue],
    )
    assert found is None or isinstance(found, datetime)
    return found


def work(connection: Session, queue: str, number: int = 20) -> None:
    """Enqueue some jobs, and claim and ack whatever there is up to that number."""
    enqueue_many(connection, queue, number)
    jobs = claim(connection, queue, number)
    ids = [job.job_id for job in jobs]
    acked = connection.ack_batch(job_ids=ids, lease_token=jobs[0].lease_token)
    assert len(acked) == number


def raise_floor(connection: Session, queue: str) -> datetime:
    """Work until the floor has risen."""
    before = floor(connection, queue)

    def raised() -> datetime | None:
        work(connection, queue)
        time.sleep(PAUSE)
        now = floor(connection, queue)
        return now if now != before else None

    now = wait_until(raised, what="for the floor to rise")
    assert before is None or now > before
    return now


def work_on(connection: Session, queue: str, seconds: float = 0.4) -> None:
    """Hundreds of jobs, for long enough that the floor would rise several times."""
    end = time.monotonic() + seconds
    done = 0
    while time.monotonic() < end or done < 300:
        work(connection, queue)
        done += 20
        time.sleep(0.01)


def test_it_rises(connection: Session) -> None:
    queue = new_queue(connection)
    assert floor(connection, queue) is None
    for _ in range(3):
        raise_floor(connection, queue)
    # never above a job that waits
    [moment] = row(connection, "select pgq._clock()")
    assert floor(connection, queue) < moment


@pytest.mark.parametrize("function", ["enqueue", "enqueue_batch"])
@pytest.mark.parametrize("priority", [0, 5])
def test_a_job_enqueued_by_an_open_transaction(
    shared_connect: Connect, connection: Session, function: str, priority: int
) -> None:
    """However long it stays open, and however many jobs pass meanwhile."""
    queue = new_queue(connection)
    raise_floor(connection, queue)
    session = shared_connect()
    if function == "enqueue":
        ids = [enqueue(session, queue, "slow", priority=priority)]
    else:
        ids = enqueue_many(session, queue, 3, priority=priority)
    work_on(connection, queue)
    session.commit()
    assert [job.job_id for job in claim(connection, queue, 10)] == ids
    # and once it has ended, nothing holds the floor back
    raise_floor(connection, queue)


@pytest.mark.parametrize("others", [None, "other"])
def test_workers_that_ask_for_a_label(
    shared_connect: Connect, connection: Session, others: str | None
) -> None:
    """Nobody claims without one; beside a job that waits, their label has floors of its own."""
    queue = new_queue(connection)
    if others is not None:
        enqueue(connection, queue, label=others)
    sessions = [shared_connect() for _ in range(3)]
    late = []
    for number in range(40):
        job_id = enqueue(connection, queue, label="mine")
        assert claim_one(connection, queue, label="mine").job_id == job_id
        if number % 10 == 5:
            late.append(enqueue(sessions[number // 10 % 3], queue, label="mine"))
        time.sleep(0.01)
    for session in sessions:
        session.commit()
    assert [job.job_id for job in claim(connection, queue, 10, label="mine")] == late
    [own, common] = row(
        connection,
        "select max(f.floor_times[1]) filter (where f.label = '=mine'),"
        " max(f.floor_times[1]) filter (where f.label = '')"
        " from pgq.queue_floor as f inner join pgq.queue as q using (queue_id) where q.queue = %s",
        [queue],
    )
    assert own is None if others is None else own > common


def test_a_transaction_that_wrote_before_it_enqueued(
    shared_connect: Connect, connection: Session
) -> None:
    """Its transaction id is old, the time of its job is young."""
    queue = new_queue(connection)
    session = shared_connect()
    session.execute("create temporary table note (n integer)")
    work_on(connection, queue)
    job_id = enqueue(session, queue)
    work_on(connection, queue)
    session.commit()
    assert [job.job_id for job in claim(connection, queue, 10)] == [job_id]


def test_the_transaction_that_came_last(shared_connect: Connect, connection: Session) -> None:
    """No other one took an id between it and the claims that raise the floor."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 3)
    claim_one(connection, queue)
    time.sleep(PAUSE)
    session = shared_connect()
    job_id = enqueue(session, queue)
    for _ in range(2):
        claim_one(connection, queue)
        time.sleep(PAUSE)
    for _ in range(4):
        assert claim(connection, queue) == []
    session.commit()
    assert [job.job_id for job in claim(connection, queue, 10)] == [job_id]


def test_claims_in_the_middle_of_transactions(shared_connect: Connect, connection: Session) -> None:
    """Those that claim may have their ids for long, and be older than those that enqueue."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 3)
    claim_one(connection, queue)
    time.sleep(PAUSE)
    workers = [shared_connect() for _ in range(2)]
    for worker in workers:
        worker.execute("select pg_current_xact_id()")
    session = shared_connect()
    job_id = enqueue(session, queue)
    for worker in workers:
        claim_one(worker, queue)
        worker.commit()
        time.sleep(PAUSE)
    assert claim(connection, queue) == []
    session.commit()
    assert [job.job_id for job in claim(connection, queue, 10)] == [job_id]


def test_a_savepoint(shared_connect: Connect, connection: Session) -> None:
    queue = new_queue(connection)
    raise_floor(connection, queue)
    session = shared_connect()
    session.execute("savepoint before")
    job_id = enqueue(session, queue)
    session.execute("release before")
    session.execute("savepoint after")
    work_on(connection, queue)
    session.execute("rollback to after")
    session.commit()
    assert [job.job_id for job in claim(connection, queue, 10)] == [job_id]


def test_a_prepared_transaction(shared_connect: Connect, connection: Session) -> None:
    """The session is gone, the transaction is not."""
    if row(connection, "show max_prepared_transactions") == ("0",):
        pytest.skip("the server has no prepared transactions (max_prepared_transactions = 0)")
    queue = new_queue(connection)
    raise_floor(connection, queue)
    session = shared_connect(autocommit=True)
    session.execute("begin")
    job_id = enqueue(session, queue)
    session.execute("prepare transaction 'pgq_floor'")
    session.close()
    work_on(connection, queue)
    connection.execute("commit prepared 'pgq_floor'")
    assert [job.job_id for job in claim(connection, queue, 10)] == [job_id]


def _give_back(session: Session, queue: str, job: Job) -> None:
    assert session.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")


def _revive(session: Session, queue: str, job: Job) -> None:
    assert session.redrive(queue=queue, all_jobs=True).taken == 1


def _lease_briefly(session: Session, queue: str, job: Job) -> None:
    _give_back(session, queue, job)
    session.commit()
    assert claim_one(session, queue, lease="1 microsecond").job_id == job.job_id


def _retry(session: Session, queue: str, job: Job) -> None:
    held = {"job_id": job.job_id, "lease_token": job.lease_token}
    assert session.release_job(**held, delay="1 hour")
    assert session.retry_job(job_id=job.job_id)


@pytest.mark.parametrize("change", [_give_back, _revive, _lease_briefly, _retry])
def test_a_job_put_back_by_an_open_transaction(
    shared_connect: Connect,
    connection: Session,
    change: Callable[[Session, str, Job], None],
) -> None:
    """nack without delay, redrive, retry, and a lease that is over before its claim commits."""
    queue = new_queue(connection, lease="1 hour", max_attempts=1 if change is _revive else 5)
    enqueue(connection, queue, "put back")
    job = claim_one(connection, queue)
    if change is _revive:
        connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    raise_floor(connection, queue)
    session = shared_connect()
    change(session, queue, job)
    work_on(connection, queue)
    session.commit()
    again = claim_one(connection, queue)
    assert (again.job_id, again.payload) == (job.job_id, "put back")


def test_a_lease_that_an_open_transaction_keeps(
    shared_connect: Connect, connection: Session, shared_clock: Clock
) -> None:
    """The job is written anew with the time it had, which is past when that commits."""
    queue = new_queue(connection)
    raise_floor(connection, queue)
    job_id = enqueue(connection, queue)
    job = claim_one(connection, queue, lease="10 seconds")
    session = shared_connect()
    arguments = {"job_id": job.job_id, "lease_token": job.lease_token}
    assert session.extend_lease(**arguments, lease="1 microsecond")
    shared_clock.advance("11 seconds")
    work_on(connection, queue)
    session.commit()
    assert [job.job_id for job in claim(connection, queue, 10)] == [job_id]


def test_a_claim_that_is_rolled_back(shared_connect: Connect, connection: Session) -> None:
    """The job has its old time again, at which the floor must not be past it."""
    queue = new_queue(connection)
    raise_floor(connection, queue)
    enqueue(connection, queue, "old")
    session = shared_connect()
    job = claim_one(session, queue)
    work_on(connection, queue)
    session.rollback()
    again = claim_one(connection, queue)
    assert (again.job_id, again.attempt, again.payload) == (job.job_id, 1, "old")


def test_leases_and_delays_end_above_it(connection: Session, shared_clock: Clock) -> None:
    """What waits for a later time is found then, though the floor has risen meanwhile."""
    queue = new_queue(connection, lease="1 s", backoff="2 s")
    for payload in ("leased", "nacked", "delayed"):
        enqueue(connection, queue, payload, delay="3 s" if payload == "delayed" else None)
    leased, nacked = claim(connection, queue, 2)
    connection.nack(job_id=nacked.job_id, lease_token=nacked.lease_token)
    raise_floor(connection, queue)
    found = []
    for _ in range(4):
        shared_clock.advance("1 s")
        found += [job.payload for job in claim(connection, queue, 10, lease="1 hour")]
    assert found == ["leased", "nacked", "delayed"]
    assert leased.payload == "leased"


def test_workers_do_not_lower_it(shared_connect: Connect, connection: Session) -> None:
    """It only rises as long as the clock does, however the claims overtake each other."""
    queue = new_queue(connection)
    sessions = [shared_connect(autocommit=True) for _ in range(6)]
    end = time.monotonic() + 1.5

    def run(session: Session) -> None:
        while time.monotonic() < end:
            enqueue(session, queue)
            for job in claim(session, queue):
                session.ack(job_id=job.job_id, lease_token=job.lease_token)

    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(run, session) for session in sessions]:
            future.result()
    floors = connection.execute(
        "select f.floor_times[1] > '-infinity', f.floor_times[1]::text, f.floor_ids[1]"
        " from pgq.queue_floor as f inner join pgq.queue as q using (queue_id)"
        " where q.queue = %s order by f.seq",
        [queue],
    ).fetchall()
    assert len(floors) > 5
    assert floors == sorted(floors)
    # what was not taken at the end is still to be had
    while jobs := claim(connection, queue, 1000):
        for job in jobs:
            connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    assert stats(connection, queue) == {}


@pytest.mark.parametrize("step", ["-1 second", "-1 hour", "-400 days"])
def test_a_clock_set_back(connection: Session, shared_clock: Clock, step: str) -> None:
    """Jobs are then enqueued below the old floor; the second claim at the latest finds them."""
    queue = new_queue(connection)
    raise_floor(connection, queue)
    shared_clock.advance(step)
    ids = enqueue_many(connection, queue, 3)
    assert len(claim(connection, queue, 2)) <= 2
    jobs = claim(connection, queue, 10)
    assert [job.job_id for job in jobs][-1] == ids[-1]
    assert stats(connection, queue) == {"leased": 3}
    # and it works on: the floor rises by the new clock
    raise_floor(connection, queue)


def test_an_old_snapshot_makes_no_claim_slower(
    shared_connect: Connect, connection: Session
) -> None:
    """Its dead rows cannot be removed, but the floor passes them: claims walk over few of them."""
    queue = new_queue(connection)
    old = shared_connect(isolation_level="repeatable read")
    old.execute("select count(*) from pgq.job")
    for _ in range(40):
        work(connection, queue, 50)
    raise_floor(connection, queue)
    raise_floor(connection, queue)
    raise_floor(connection, queue)

    def walked(session: Session, query: str, *parameters: Any) -> int:
        """How many index entries of job a statement walks over."""
        read = (
            "select sum(pg_stat_get_xact_tuples_returned(indexrelid))::bigint"
            " from pg_index where indrelid = 'pgq.job'::regclass"
        )
        [before] = row(session, read)
        session.execute(query.encode(), parameters)
        [after] = row(session, read)
        return int(after) - int(before)

    session = shared_connect()
    session.execute("set enable_seqscan = off")
    everything = walked(
        session,
        "select from pgq.job where priority = 0 and visible_at < pgq._clock() and queue_id ="
        " (select queue_id from pgq.queue where queue = %s)",
        queue,
    )
    assert everything > 1500
    enqueue(session, queue)
    assert walked(session, "select * from pgq.claim_job(%s)", queue) < 200
    old.rollback()
