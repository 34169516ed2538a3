"""The system's clock is set back while transactions are open: no job is left below the floor.

A floor that ran ahead of the clock would hide every job that is enqueued until the clock is there.
The clock of the server cannot be set by a test. So every function of pgq that asks for the time,
that of now or of the begin of the transaction, is made to ask a clock that steps.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, row
from support.waiting import wait_until

# a claim raises the floor at most this often
PAUSE = 0.03
STEPS = ["-10 minutes", "-1 second"]
NEVER = 9_000_000_000_000_000

_CLOCKS = """
    create sequence public.step_length as bigint minvalue -9223372036854775808;
    create sequence public.step_moment as bigint;
    select setval('public.step_length', 0), setval('public.step_moment', {never});
    create function public.clock_shown(moment timestamptz)
    returns timestamptz language sql volatile
    as $$
    select clock_shown.moment + case
        when extract(epoch from clock_shown.moment) * 1e6
            >= (select last_value from public.step_moment)
        then (select last_value from public.step_length) * interval '1 microsecond'
        else interval '0'
    end
    $$;
"""
_TIME = re.compile(
    r"(?<![\w.])(?:pg_catalog\.)?"
    r"(clock_timestamp|statement_timestamp|transaction_timestamp|now)\(\)"
)


class SteppingClock:
    """The system's clock as the functions of pgq see it.

    A transaction that began before the step goes on with the begin that it had.
    """

    def __init__(self, connection: Session) -> None:
        self.connection = connection
        connection.execute(_CLOCKS.format(never=NEVER))
        functions = connection.execute(
            "select pg_get_functiondef(oid) from pg_proc"
            " where pronamespace = 'pgq'::regnamespace and prokind = 'f'"
        ).fetchall()
        rewritten = [
            _TIME.sub(r"public.clock_shown(pg_catalog.\1())", text)
            for (text,) in functions
            if _TIME.search(text)
        ]
        assert rewritten
        for text in rewritten:
            connection.execute(text.encode())

    def advance(self, by: str) -> None:
        """Set it ahead, or back with a negative interval, from now on."""
        self.connection.execute(
            "select setval('public.step_length', (extract(epoch from %s::interval) * 1e6)::bigint),"
            " setval('public.step_moment', (extract(epoch from clock_timestamp()) * 1e6)::bigint)",
            [by],
        )


AnyClock = SteppingClock | Clock


@pytest.fixture(params=["system", "pgq"])
def stepping(request: pytest.FixtureRequest, connection: Session, dsn: str) -> AnyClock:
    """The clock of the system, and the one that other tests move, which knows of no begin."""
    if request.param == "system":
        return SteppingClock(connection)
    clock = Clock(dsn)
    clock.install()
    return clock


def _claim_one(session: Session, queue: str) -> None:
    assert len(claim(session, queue)) == 1


def _claim_some(session: Session, queue: str) -> None:
    assert len(claim(session, queue, 3)) == 3


def _claim_labelled(session: Session, queue: str) -> None:
    assert len(claim(session, queue, 3, label="x")) == 3


def _claim_in_savepoint(session: Session, queue: str) -> None:
    session.execute("savepoint before")
    assert len(claim(session, queue, 2)) == 2
    session.execute("release before")


CLAIMS = [_claim_one, _claim_some, _claim_labelled, _claim_in_savepoint]
Claim = Callable[[Session, str], None]


def _raise(connection: Session, queue: str, label: str | None) -> None:
    """Claims that raise the floors."""
    for _ in range(4):
        enqueue(connection, queue, label="x")
        assert len(claim(connection, queue, label=label)) == 1
        time.sleep(PAUSE)


def _work_on(connection: Session, queue: str, rounds: int = 6) -> None:
    """Each job that is enqueued is claimed at once, while claims raise the floor."""
    for n in range(rounds):
        time.sleep(PAUSE)
        job_id = enqueue(connection, queue, n, priority=7)
        assert [job.job_id for job in claim(connection, queue, 10)] == [job_id], f"round {n}"


@pytest.mark.parametrize("how", CLAIMS)
def test_a_step_before_the_claim(
    connect: Connect, connection: Session, stepping: AnyClock, how: Claim
) -> None:
    """The transaction began by the old clock and claims by the new one."""
    queue = new_queue(connection)
    session = connect()
    session.execute("select")
    stepping.advance("-10 minutes")
    enqueue_many(connection, queue, 3, labels=["x"] * 3)
    how(session, queue)
    session.commit()
    claim(connection, queue, 10)
    _work_on(connection, queue)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_between_two_claims(
    connect: Connect, connection: Session, stepping: AnyClock, step: str
) -> None:
    """The transaction has an id and leases from before the step, and works on."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 2)
    session = connect()
    assert len(claim(session, queue, 2)) == 2
    stepping.advance(step)
    time.sleep(PAUSE)
    enqueue(connection, queue, "theirs")
    enqueue(session, queue, "mine")
    # a floor of the old clock is noticed by the first claim, and gone for the second
    found = [job.payload for _ in range(2) for job in claim(session, queue, 10)]
    assert found == ["theirs", "mine"]
    session.commit()
    _work_on(connection, queue)
    assert stats(connection, queue) == {"leased": 10}


@pytest.mark.parametrize("step", STEPS)
def test_old_transactions_come_one_after_the_other(
    connect: Connect, connection: Session, stepping: AnyClock, step: str
) -> None:
    """Each of them began before the step, and each takes its turn at the floor."""
    queue = new_queue(connection)
    sessions = [connect() for _ in range(4)]
    for session in sessions:
        session.execute("select")
    stepping.advance(step)
    for session in sessions:
        job_id = enqueue(connection, queue)
        time.sleep(PAUSE)
        assert claim_one(session, queue).job_id == job_id
        session.commit()
    _work_on(connection, queue)


@pytest.mark.parametrize("step", STEPS)
def test_the_old_transaction_ends_late(
    connect: Connect, connection: Session, stepping: AnyClock, step: str
) -> None:
    """Others have claimed, and committed, between its claim and its end."""
    queue = new_queue(connection)
    session = connect()
    session.execute("select")
    stepping.advance(step)
    first = enqueue(connection, queue)
    assert claim_one(session, queue).job_id == first
    _work_on(connection, queue, 3)
    session.commit()
    _work_on(connection, queue)


def test_jobs_given_back_are_found(
    connect: Connect, connection: Session, stepping: AnyClock
) -> None:
    """Not only new jobs: retries and redriven ones get their times by the new clock as well."""
    queue = new_queue(connection, max_attempts=2)
    session = connect()
    session.execute("select")
    stepping.advance("-10 minutes")
    job_id = enqueue(connection, queue)
    job = claim_one(session, queue)
    session.commit()
    for _ in range(3):
        time.sleep(PAUSE)
        _work_on(connection, queue, 1)
    token: dict[str, Any] = {"job_id": job_id, "lease_token": job.lease_token}
    assert connection.nack(**token, delay="0")
    job = claim_one(connection, queue)
    assert (job.job_id, job.attempt) == (job_id, 2)
    assert connection.nack(job_id=job_id, lease_token=job.lease_token)
    assert connection.redrive(queue=queue, all_jobs=True).taken == 1
    assert claim_one(connection, queue).job_id == job_id


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("others", ["waiting", "claimed"])
def test_claims_by_label_notice_it(
    connection: Session, stepping: AnyClock, step: str, others: str
) -> None:
    """After the step nobody else claims, who could set right the floors of all claims."""
    queue = new_queue(connection)
    enqueue(connection, queue, "other", label="other")
    for _ in range(5):
        enqueue(connection, queue, label="x")
        if others == "claimed":
            enqueue(connection, queue)
            claim(connection, queue, 10)
            enqueue(connection, queue, label="x")
        assert len(claim(connection, queue, 10, label="x")) == 1
        time.sleep(PAUSE)
    stepping.advance(step)
    job_id = enqueue(connection, queue, label="x")
    found = [job.job_id for _ in range(2) for job in claim(connection, queue, 10, label="x")]
    assert found == [job_id]
    for _ in range(3):
        time.sleep(PAUSE)
        job_id = enqueue(connection, queue, label="x")
        assert claim_one(connection, queue, label="x").job_id == job_id


@pytest.mark.parametrize("max_jobs", [1, 2])
@pytest.mark.parametrize("label", [None, "x"])
def test_a_step_while_the_floor_is_held(
    connect: Connect, connection: Session, stepping: AnyClock, label: str | None, max_jobs: int
) -> None:
    """A long transaction has raised it, so nobody else can start it again: none is needed."""
    queue = new_queue(connection)
    enqueue(connection, queue, "other", label="other", priority=3)
    _raise(connection, queue, label)
    holder = connect()
    enqueue(connection, queue)
    time.sleep(PAUSE)
    assert len(claim(holder, queue)) == 1
    stepping.advance("-10 minutes")
    for _ in range(3):
        job_id = enqueue(connection, queue, label="x")
        assert claim(connection, queue, max_jobs, label=label)[0].job_id == job_id
        connection.cleanup()
    holder.commit()
    _work_on(connection, queue)


def test_the_stepping_clock_is_one(connect: Connect, connection: Session) -> None:
    """What the tests above rest on: the step shows at once, but not in the begin of a transaction
    that is open."""
    clock = SteppingClock(connection)
    session = connect()
    ask = "select pgq._clock(), public.clock_shown(now())"
    before = row(session, ask)
    clock.advance("-10 minutes")
    shown = row(session, ask)
    assert shown[1] == before[1]
    assert before[0] - timedelta(minutes=10, seconds=30) < shown[0] < before[0]
    session.commit()
    after = row(session, ask)
    assert after[1] < before[1]
    assert after[0] >= shown[0]


@pytest.mark.parametrize("label", [None, "x"])
@pytest.mark.parametrize("options", [{}, {"ordered": True}, {"max_leased": 9}])
def test_a_spell_without_a_claim(
    connection: Session, stepping: AnyClock, options: dict[str, Any], label: str | None
) -> None:
    """The clock was back for 2 s. A claim that finds nothing looks below the floor, without
    cleanup."""
    queue = new_queue(connection, **options)
    _raise(connection, queue, label)
    stepping.advance("-2 seconds")
    job_id = enqueue(connection, queue, label="x", key="k" if options else None)
    stepping.advance("10 seconds")
    assert claim_one(connection, queue, label=label).job_id == job_id
    # not again within 5 seconds
    [looks] = row(connection, "select max(seq) from pgq.queue_floor")
    for _ in range(3):
        assert claim(connection, queue, label=label) == []
    assert row(connection, "select max(seq) from pgq.queue_floor") == (looks,)


def test_a_spell_below_many_dead_rows(connection: Session, stepping: AnyClock) -> None:
    """Where a look would have to walk over them, claims leave it to cleanup."""
    queue = new_queue(connection)
    _raise(connection, queue, None)
    stepping.advance("-2 seconds")
    job_id = enqueue(connection, queue)
    connection.execute("alter table pgq.job set (autovacuum_enabled = off)")
    many = enqueue_many(connection, queue, 3_100, delay="1 hour")
    connection.execute("delete from pgq.job where job_id = any(%s)", [many])
    dead = "select pg_stat_get_dead_tuples('pgq.job'::regclass) > 3000"
    wait_until(lambda: row(connection, dead) == (True,))
    stepping.advance("10 seconds")
    assert claim(connection, queue) == []
    connection.cleanup()
    assert claim_one(connection, queue).job_id == job_id
