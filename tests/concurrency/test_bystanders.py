"""Transactions that stay open and have an id, but no business with pgq, hold nothing up.

Floors of queues and segments wait for transactions that may write by what they have read before.
A transaction that has read nothing of pgq has no lock on its tables either, and will read what is
there by then. All of this stands and falls with the order: first the lock on a table, then the
clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from support.bulk import begin, numbers, stage
from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue
from support.session import Connect, Session, new_name, row
from support.snapshots import LEVELS, TRY_AGAIN, answer_of
from support.subscription import publish_many, subscribe
from support.waiting import blocked, results, wait_until

ROOT = Path(__file__).resolve().parents[2]

Hold = Callable[[], Any]


@pytest.fixture
def elsewhere(dsn: str, connection: Session) -> Iterator[str]:
    """Another database of the server, without pgq."""
    name = f"{connection.info.dbname}_elsewhere"
    connection.execute(f"create database {name}".encode())
    yield make_conninfo(dsn, dbname=name)
    connection.execute(f"drop database {name} with (force)".encode())


def _idle(connect: Connect, connection: Session) -> Session:
    """A session in a transaction that has an id, and tables of its own."""
    session = connect()
    session.execute("create table public.note (n integer)")
    return session


def _prepared(connect: Connect, connection: Session) -> Session:
    """A prepared transaction."""
    if row(connection, "show max_prepared_transactions") == ("0",):
        pytest.skip("the server has no prepared transactions (max_prepared_transactions = 0)")
    session = connect(autocommit=True)
    session.execute("begin; create table public.note (n integer); prepare transaction 'bystander'")
    return session


def _undone(connect: Connect, connection: Session) -> Session:
    """One that has undone what it did with pgq."""
    session = connect()
    session.execute("select pg_current_xact_id(); savepoint before")
    enqueue(session, "work")
    session.publish(topic="events", payload=1)
    session.execute("rollback to before")
    return session


BYSTANDERS = [_idle, _prepared, _undone]


def _end(session: Session, connection: Session) -> None:
    if session.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        connection.execute("rollback prepared 'bystander'")
    else:
        session.commit()


def _floor(connection: Session) -> datetime:
    [found] = row(
        connection, "select f.floor_times[1] from pgq.queue_floor as f order by f.seq desc limit 1"
    )
    assert isinstance(found, datetime)
    return found


def _work(connection: Session) -> None:
    enqueue(connection, "work")
    job = claim_one(connection, "work")
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)


def _rises(connection: Session, clock: Clock) -> bool:
    """Whether the floor follows the time, over some seconds."""
    [begun] = row(connection, "select pgq._clock()")
    for _ in range(40):
        clock.advance("100 milliseconds")
        _work(connection)
    [risen] = row(
        connection,
        "select f.safe_at > %s from pgq.queue_floor as f order by f.seq desc limit 1",
        [begun],
    )
    return bool(risen)


@pytest.fixture
def work(connection: Session, clock: Clock) -> Session:
    """A database with a queue and a topic, where others have worked before."""
    connection.create_queue(queue="work", lease="1 hour", retention="2 days")
    connection.create_topic(topic="events", partitions=1, retention="1 day")
    assert _rises(connection, clock)
    return connection


@pytest.mark.parametrize("hold", BYSTANDERS)
def test_the_floor_rises(
    connect: Connect,
    work: Session,
    clock: Clock,
    hold: Callable[[Connect, Session], Session],
) -> None:
    """What bystanders keep from vacuum, claims do not walk over."""
    session = hold(connect, work)
    assert _rises(work, clock)
    _end(session, work)


def test_the_floor_rises_beside_one_in_another_database(
    work: Session, clock: Clock, elsewhere: str
) -> None:
    """Ids of transactions are those of the whole server."""
    with psycopg.connect(elsewhere) as session:
        session.execute("create table note (n integer)")
        assert _rises(work, clock)


def test_the_floor_rises_beside_one_that_publishes_and_consumes(
    connect: Connect, work: Session, clock: Clock
) -> None:
    """The log is not the queue."""
    work.create_group(topic="events", consumer_group="all")
    session = connect()
    session.publish(topic="events", payload=1)
    session.consume(topic="events", consumer_group="all")
    assert _rises(work, clock)
    session.commit()


@pytest.mark.parametrize("call", ["enqueue", "claim", "list", "publish"])
def test_the_floor_waits_for_those_who_know_a_queue(
    connect: Connect, work: Session, clock: Clock, call: str
) -> None:
    """Whatever they did with it: they may have read the clock, and use it when they write."""
    work.create_topic(topic="followed", partitions=1)
    subscribe(work, "followed", "work")
    held = enqueue(work, "work", "held")
    session = connect()
    session.execute("select pg_current_xact_id()")
    if call == "enqueue":
        enqueue(session, "work", "late")
    elif call == "claim":
        assert claim_one(session, "work").job_id == held
    elif call == "list":
        session.list_queues()
    else:
        session.publish(topic="followed", payload=Jsonb("late"))
    if call != "claim":
        claim_one(work, "work")
    assert not _rises(work, clock)
    session.commit()
    assert _rises(work, clock)
    # who worked on took one job for each that they added, and first what came late
    assert len(claim(work, "work", 10)) == (call in ("enqueue", "publish"))


@pytest.mark.parametrize("hold", [_idle, _undone])
@pytest.mark.parametrize(
    "call", ["enqueue", "enqueue_batch", "publish", "publish_batch", "nack", "redrive", "lease"]
)
def test_a_bystander_that_begins_to_work(
    connect: Connect,
    work: Session,
    clock: Clock,
    hold: Callable[[Connect, Session], Session],
    call: str,
) -> None:
    """Its id is old, and below the floor nothing is written all the same."""
    work.create_topic(topic="followed", partitions=1)
    subscribe(work, "followed", "work")
    leased, dead = (enqueue(work, "work", what) for what in ("leased", "dead"))
    token = claim_one(work, "work").lease_token
    poison = claim_one(work, "work")
    assert work.reject_job(job_id=dead, lease_token=poison.lease_token)
    session = hold(connect, work)
    assert _rises(work, clock)
    if call == "enqueue":
        enqueue(session, "work", "late")
    elif call == "enqueue_batch":
        enqueue_many(session, "work", 2)
    elif call == "publish":
        session.publish(topic="followed", payload=Jsonb("late"))
    elif call == "publish_batch":
        publish_many(session, "followed", 6)
    elif call == "nack":
        assert session.nack(job_id=leased, lease_token=token, delay="0")
    elif call == "redrive":
        assert session.redrive(queue="work", all_jobs=True) == 1
    else:
        assert session.extend_lease(job_id=leased, lease_token=token, lease="1 microsecond")
    # the others work on, and look at locks again
    for _ in range(3):
        _rises(work, clock)
    session.commit()
    clock.advance("1 hour")
    expected = {
        "enqueue": ["late"],
        "enqueue_batch": [0, 1],
        "publish": ["late"],
        "publish_batch": [0, 1, 2, 3, 4, 5],
        "redrive": ["dead"],
    }
    found = [job.payload for job in claim(work, "work", 100)]
    assert sorted(map(str, found)) == sorted(map(str, [*expected.get(call, []), "leased"]))


# ---------------------------------------------------------------------------- segments


def _is_emptied(work: Session, clock: Clock) -> bool:
    """Whether the segment with the first message is emptied once its time is over."""
    for _ in range(8):
        clock.advance("1 day")
        work.publish(topic="events", payload=Jsonb("later"))
        while any(done.action == "more" for done in work.cleanup()):
            pass
    [offsets] = work.list_offsets(topic="events")
    return bool(offsets.first_offset > 1)


@pytest.mark.parametrize("hold", BYSTANDERS)
def test_segments_are_emptied(
    connect: Connect,
    work: Session,
    clock: Clock,
    hold: Callable[[Connect, Session], Session],
) -> None:
    """A transaction that somebody forgot does not fill the disk."""
    work.publish(topic="events", payload=Jsonb("first"))
    session = hold(connect, work)
    assert _is_emptied(work, clock)
    _end(session, work)


@pytest.mark.parametrize("call", ["enqueue", "publish", "read"])
def test_segments_wait_for_those_who_may_write(
    connect: Connect, work: Session, clock: Clock, call: str
) -> None:
    """They may have read which one is open."""
    work.publish(topic="events", payload=Jsonb("first"))
    session = connect()
    session.execute("select pg_current_xact_id()")
    if call == "enqueue":
        enqueue(session, "work", "late")
    elif call == "publish":
        # another topic of the same storage
        work.create_topic(topic="others", partitions=1, retention="1 day")
        session.publish(topic="others", payload=Jsonb("late"))
    else:
        session.execute("select count(*) from pgq.partition")
    closed = "select count(*) from pgq.segment where state = 'closed'"
    assert not _is_emptied(work, clock)
    assert row(work, closed) == (0,)
    session.commit()
    assert _is_emptied(work, clock)


@pytest.mark.parametrize("hold", [_idle, _undone])
@pytest.mark.parametrize("call", ["enqueue", "publish", "once", "unique"])
@pytest.mark.parametrize("level", ["read committed", *LEVELS])
def test_a_bystander_that_begins_to_write(
    connect: Connect,
    work: Session,
    clock: Clock,
    hold: Callable[[Connect, Session], Session],
    call: str,
    level: str,
) -> None:
    """What it writes is kept, though the segment that its snapshot shows is emptied long ago."""

    def hold_at_level(**options: Any) -> Session:
        return connect(isolation_level=level, **options)

    work.publish(topic="events", payload=Jsonb("first"))
    session = hold(hold_at_level, work)
    session.execute("select 1")
    assert _is_emptied(work, clock)

    def write() -> Any:
        if call == "enqueue":
            return enqueue(session, "work", "late")
        if call == "unique":
            return enqueue(session, "work", "late", idempotency_key="k")
        key = {"idempotency_key": "k"} if call == "once" else {}
        return session.publish(topic="events", payload=Jsonb("late"), **key)

    answer = answer_of(session, write)
    if level == "read committed":
        assert answer != TRY_AGAIN
    if answer == TRY_AGAIN:
        answer = answer_of(session, write)
    assert answer != TRY_AGAIN
    stored = "select count(*) from pgq.messages where payload = '\"late\"'"
    if call in ("enqueue", "unique"):
        assert [job.payload for job in claim(work, "work", 100)] == ["late"]
    else:
        assert row(work, stored) == (1,)


@pytest.mark.parametrize("level", ["read committed", *LEVELS])
@pytest.mark.parametrize("taken", [True, False], ids=["with an id", "without"])
@pytest.mark.parametrize("call", ["claim_job", "finish_and_claim"])
@pytest.mark.parametrize("limit", ["max_leased", "max_leased_per_key"])
def test_a_limit_holds_for_who_has_an_older_snapshot(
    connect: Connect, connection: Session, level: str, taken: bool, call: str, limit: str
) -> None:
    """It was switched on behind that, and what was leased before has been counted."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 4, keys=["k"] * 4)
    session = connect(isolation_level=level)
    session.execute("select pg_current_xact_id()" if taken else "select 1")
    connection.alter_queue(queue=queue, **{limit: 1})
    for _ in range(3):
        enqueue(connection, queue, key="other", label="other")
        [job] = claim(connection, queue, label="other")
        connection.ack(job_id=job.job_id, lease_token=job.lease_token)

    def claimed() -> Any:
        return session.call(call, queue=queue)

    answer = answer_of(session, claimed)
    if level != "read committed":
        assert answer == TRY_AGAIN
        answer = answer_of(session, claimed)
    assert len(answer) == 1
    assert claim(connection, queue) == []


@pytest.mark.parametrize("call", ["claim_job", "finish_and_claim"])
def test_a_lowered_limit_of_attempts_holds_for_who_has_an_older_snapshot(
    connect: Connect, connection: Session, clock: Clock, call: str
) -> None:
    """It would lease a job for the last time, and not know it."""
    queue = new_queue(connection, max_attempts=5)
    job_id = enqueue(connection, queue)
    session = connect(isolation_level="repeatable read")
    session.execute("select pg_current_xact_id()")
    connection.alter_queue(queue=queue, max_attempts=1)
    for _ in range(3):
        connection.cleanup()
    assert row(connection, "select count(*) from pgq.lowered_queue") == (0,)

    def claimed() -> Any:
        return session.call(call, queue=queue)

    assert answer_of(session, claimed) == TRY_AGAIN
    assert [job.job_id for job in answer_of(session, claimed)] == [job_id]
    clock.advance("1 day")
    connection.cleanup()
    assert [letter.job_id for letter in connection.fetch_dead_letters(queue=queue)] == [job_id]


@pytest.mark.parametrize("call", ["publish", "enqueue"])
def test_what_is_written_while_cleanup_is_at_work(
    connect: Connect, work: Session, clock: Clock, call: str
) -> None:
    """No segment is closed before its last message, however long the parts before that take."""
    work.publish(topic="events", payload=1)
    enqueue(work, "work")
    early, blocker, cleaner = connect(), connect(), connect(autocommit=True)
    early.execute("select pg_current_xact_id()")
    early.list_queues()
    clock.advance("17 hours")
    for _ in range(3):
        work.cleanup()
    assert row(work, "select count(*) from pgq.segment where horizon is not null") > (0,)
    blocker.execute("lock table pgq.worker in access exclusive mode")
    cleaning = blocked(work, cleaner, cleaner.cleanup)
    clock.advance("1 minute")
    if call == "publish":
        early.publish(topic="events", payload=2)
    else:
        enqueue(early, "work")
    early.commit()
    blocker.rollback()
    results(cleaning)
    for _ in range(3):
        work.cleanup()
    assert row(work, "select count(*) from pgq.segment where state = 'closed'") > (0,)
    assert row(
        work,
        "select count(*) from pgq.segment as s inner join pgq.message as m using (segment)"
        " where s.closed_at < m.published_at and isfinite(m.published_at)",
    ) == (0,)


# ---------------------------------------------------------------------------- the order

WITHOUT_LOCK = """
    create or replace function pgq._clock()
    returns timestamptz language sql volatile parallel unsafe
    as $$
    select date_trunc('milliseconds', clock_timestamp()) + case
        when exists (
            select
            from pg_locks as l
            where l.pid = pg_backend_pid()
                and l.locktype = 'relation'
                and l.relation in ('pgq.queue'::regclass, 'pgq.job'::regclass)
        ) then interval '0' else interval '1 microsecond' end
    $$
"""
"""A clock that shows who reads it before the table of the queue or of its jobs is locked."""

TOO_EARLY = """
    select 'job', count(*) from pgq.job
    where isfinite(visible_at) and extract(microseconds from visible_at)::bigint %% 1000 <> 0
    union all
    select 'run', count(*) from pgq.job_run
    where extract(microseconds from visible_at)::bigint %% 1000 <> 0
    union all
    select 'note', count(*) from pgq.ordered_note
    where isfinite(look_at) and extract(microseconds from look_at)::bigint %% 1000 <> 0
"""

WRITERS = {
    "queue/_add_runs.sql",
    "queue/_claim_jobs.sql",
    "queue/_extend_lease.sql",
    "queue/_free_keys.sql",
    "queue/_let_next.sql",
    "queue/_lift_key_limit.sql",
    "queue/_nack.sql",
    "queue/_park_jobs.sql",
    "queue/_point_jobs.sql",
    "queue/_point_ordered.sql",
    "queue/_settle_keys.sql",
    "queue/_settle_notes.sql",
    "queue/_unpark_all.sql",
    "queue/_unpark_jobs.sql",
    "queue/_write_keys.sql",
    "queue/alter_queue.sql",
    "queue/enqueue.sql",
    "queue/enqueue_batch.sql",
    "queue/parts/claim.plpgsql",
    "queue/redrive.sql",
}
"""All that gives a time to a job, a run or a note; what is new needs a call in the test below."""


def test_all_writers_are_known() -> None:
    written = re.compile(r"insert into pgq\.(job|job_run|ordered_note) \(")
    files = [
        file
        for pattern in ("*.sql", "*.plpgsql")
        for file in (ROOT / "sql").rglob(pattern)
        if written.search(file.read_text())
    ]
    assert {str(file.relative_to(ROOT / "sql")) for file in files} - WRITERS == {
        # reads what it asks for, and inserts nothing
        "queue/_still_leased.sql"
    } & {str(file.relative_to(ROOT / "sql")) for file in files}
    assert {str(file.relative_to(ROOT / "sql")) for file in files} >= WRITERS


def test_the_clock_is_read_behind_the_lock(connect: Connect, connection: Session) -> None:
    """Each call is a transaction of its own, and the first thing that it does."""
    connection.execute(WITHOUT_LOCK)
    # a session that has no plans, and locks nothing to make them
    session = connect(autocommit=True)
    session.execute("set track_functions = 'pl'")

    def check(what: str) -> None:
        [*found] = connection.execute(TOO_EARLY.replace("%%", "%").encode()).fetchall()
        assert [kind for kind, number in found if number] == [], what

    def do(what: str, **arguments: Any) -> Any:
        answer = session.call(what, **arguments)
        check(what)
        return answer

    plain, ordered, capped = (new_name("queue") for _ in range(3))
    common = {"backoff_jitter": 0, "backoff": "1 s", "max_attempts": 2, "lease": "1 hour"}
    do("create_queue", queue=plain, **common)
    do("create_queue", queue=ordered, ordered=True, **common)
    do("create_queue", queue=capped, max_leased_per_key=1, **common)
    for deferred in (False, True):
        topic = new_name("topic")
        do("create_topic", topic=topic, partitions=1, deferred=deferred)
        do("create_group", topic=topic, consumer_group="all")
        for queue in (plain, ordered, capped):
            subscribe(session, topic, queue)
        do("publish", topic=topic, payload=1, key="a")
        do("publish_batch", topic=topic, payloads=[1, 2], keys=["a", "b"])
        do("publish_batch", topic=topic, payloads=[1] * 8)
        do("publish", topic=topic, payload=1, idempotency_key="once")
        do("consume", topic=topic, consumer_group="all", max_messages=100)
        write_id = begin(session, topic=topic)
        stage(session, write_id, numbers(1, 600))
        do("commit_write", write_id=write_id)
    for queue in (plain, ordered, capped):
        for more in ({}, {"delay": "5 s"}, {"priority": 3}, {"idempotency_key": "i"}):
            do("enqueue", queue=queue, payload=1, key="a", **more)
        do("enqueue", queue=queue, payload=1, unique_key="u")
        do("enqueue_batch", queue=queue, payloads=[1, 2, 3], keys=["a", "a", "b"])
        write_id = begin(session, queue=queue)
        stage(session, write_id, numbers(1, 5))
        do("commit_write", write_id=write_id)
        do("create_schedule", schedule=new_name("s"), queue=queue, payload=1, every="1 minute")
    connection.execute("update pgq.schedule set next_at = pgq._clock() - interval '1 second'")
    do("run_schedules")

    for queue in (plain, ordered, capped):
        for number in range(12):
            [job] = do("claim_job", queue=queue) or [None]
            if job is None:
                break
            held = {"job_id": job.job_id, "lease_token": job.lease_token}
            do("extend_lease", **held, lease="2 hours")
            if number % 6 == 0:
                do("ack", **held)
            elif number % 6 == 1:
                do("nack", **held, delay="0")
            elif number % 6 == 2:
                do("nack", **held)
            elif number % 6 == 3:
                do("release_job", **held)
            elif number % 6 == 4:
                do("reject_job", **held)
            else:
                do("archive_job", **held)
        jobs = do("claim_job", queue=queue, max_jobs=4)
        batch = {"job_ids": [job.job_id for job in jobs], "lease_token": jobs[0].lease_token}
        do("extend_lease_batch", **batch, lease="2 hours")
        do("nack_batch", **batch, delay="0")
        jobs = do("claim_job", queue=queue, max_jobs=4)
        batch = {"job_ids": [job.job_id for job in jobs], "lease_token": jobs[0].lease_token}
        do("release_job_batch", **batch)
        [job] = do("claim_job", queue=queue)
        do(
            "finish_and_claim",
            queue=queue,
            job_ids=[job.job_id],
            lease_token=job.lease_token,
            max_jobs=5,
        )
        [job] = do("claim_job", queue=queue, label=None, max_jobs=1) or [None]
        do("redrive", queue=queue, all_jobs=True)
        do("cleanup")
    # of three jobs with one key, one is leased and the others are parked until it is done
    do("purge_queue", queue=capped, all_jobs=True)
    do("enqueue_batch", queue=capped, payloads=[1, 2, 3], keys=["c"] * 3)
    [job] = do("claim_job", queue=capped, max_jobs=3)
    do("ack", job_id=job.job_id, lease_token=job.lease_token)
    assert len(do("claim_job", queue=capped, max_jobs=3)) == 1
    do("alter_queue", queue=capped, no_limit=["max_leased_per_key"])
    do("claim_job", queue=capped)
    do("alter_queue", queue=capped, max_leased_per_key=2)
    do("claim_job", queue=capped, max_jobs=3)
    do("alter_queue", queue=ordered, delay="1 s")
    do("cleanup")

    session.close()
    called = "select funcname from pg_stat_user_functions where schemaname = 'pgq'"
    writers = {Path(file).stem for file in WRITERS} - {"claim"} | {"claim_job"}
    seen: set[str] = set()
    wait_until(lambda: seen.update(*connection.execute(called)) or "enqueue" in seen)
    assert writers - seen == set()
