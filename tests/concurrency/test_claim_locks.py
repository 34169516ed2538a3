"""A claim locks the jobs that it returns and no others, however long its transaction lasts.

A claim passes by jobs that others have just leased. It may have seen them before that, and must
not keep them locked: their worker would wait for a stranger's transaction.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from support.gate import Gate
from support.queue import Job, claim, enqueue_many, new_queue, stats
from support.session import Connect, Session
from support.waiting import aside, results

ENDS: dict[str, Callable[[Session, Job], Any]] = {
    "ack": lambda session, job: session.ack(job_id=job.job_id, lease_token=job.lease_token),
    "nack": lambda session, job: session.nack(job_id=job.job_id, lease_token=job.lease_token),
    "archive_job": lambda session, job: session.archive_job(
        job_id=job.job_id, lease_token=job.lease_token
    ),
    "extend_lease": lambda session, job: session.extend_lease(
        job_id=job.job_id, lease_token=job.lease_token
    ),
    "ack_batch": lambda session, job: session.ack_batch(
        job_ids=[job.job_id], lease_token=job.lease_token
    ),
}


def _impatient(connect: Connect) -> Session:
    """An autocommit session that does not wait for locks."""
    session = connect(autocommit=True)
    session.execute("set lock_timeout = '1s'")
    return session


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("label", [None, "blue"])
def test_a_job_leased_while_another_claim_looks(
    connect: Connect, connection: Session, label: str | None, end: str
) -> None:
    """The slow claim meets it in its own, older view, and leaves it alone."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 3, labels=["blue"] * 3)
    gate, slow, quick = Gate(connection), connect(), _impatient(connect)
    asked = {"label": label} if label else {}
    with gate.stopping(slow, lambda: claim(slow, queue, 3, **asked)) as found:
        mine = claim(quick, queue, 1)
    theirs = results(found)[0]
    assert len({job.job_id for job in [*mine, *theirs]}) == len(mine) + len(theirs) == 3
    # the transaction of the slow one is still open
    for job in mine:
        assert ENDS[end](quick, job)
    slow.commit()
    assert stats(connection, queue).get("leased") == len(theirs) + (
        len(mine) if end == "extend_lease" else 0
    )


@pytest.mark.parametrize("end", ENDS)
def test_a_lease_that_is_committed_while_another_claim_looks(
    connect: Connect, connection: Session, end: str
) -> None:
    """The lease was there, but not yet committed, when the slow claim began."""
    queue = new_queue(connection)
    for priority in (0, 4, 4, 9):
        enqueue_many(connection, queue, 1, priority=priority, labels=[f"p{priority}"])
    gate, slow, quick = Gate(connection), connect(), connect()
    leased = claim(quick, queue, 1, label="p4")
    with gate.stopping(slow, lambda: claim(slow, queue, 10)) as found:
        quick.commit()
    assert len(leased) == 1
    assert len(results(found)[0]) == 3
    quick.execute("set lock_timeout = '1s'")
    assert ENDS[end](quick, leased[0])
    quick.commit()
    slow.rollback()


def test_a_job_leased_anew_while_another_claim_looks(connect: Connect, connection: Session) -> None:
    """Its first lease had run out; the second one is with its worker, who need not wait."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 2)
    assert len(claim(connection, queue, 2, lease="1 microsecond")) == 2
    gate, slow, quick = Gate(connection), connect(), _impatient(connect)
    with gate.stopping(slow, lambda: claim(slow, queue, 2)) as found:
        again = claim(quick, queue, 2)
    theirs = results(found)[0]
    assert len(again) + len(theirs) == 2
    for job in again:
        assert ENDS["extend_lease"](quick, job)
        assert ENDS["ack"](quick, job)


@pytest.mark.slow
@pytest.mark.parametrize("max_jobs", [1, 4])
def test_many_claims_in_long_transactions(
    connect: Connect, connection: Session, max_jobs: int
) -> None:
    """Beside them others claim and ack one job after the other, and not one ack waits."""
    queue = new_queue(connection, no_limit=["max_attempts"], archive=False)
    enqueue_many(connection, queue, 6000)
    end = time.monotonic() + 5
    waited: list[int] = []
    acked: list[int] = []
    lock = threading.Lock()

    def hold() -> None:
        session, chance = connect(), random.Random(max_jobs)
        while time.monotonic() < end:
            until = min(end, time.monotonic() + 2.5)
            held = 0
            while time.monotonic() < until and held < 400:
                held += len(claim(session, queue, chance.randint(1, max_jobs)))
            while time.monotonic() < until and not waited:
                time.sleep(0.005)
            session.rollback()

    def work() -> None:
        session = connect(autocommit=True)
        session.execute("set lock_timeout = '1s'")
        while time.monotonic() < end and not waited:
            for job in claim(session, queue, max_jobs):
                try:
                    assert ENDS["ack"](session, job)
                except psycopg.errors.LockNotAvailable:
                    with lock:
                        waited.append(job.job_id)
                with lock:
                    acked.append(job.job_id)

    results(*[aside(job) for job in (hold, hold, hold, work, work, work)])
    assert acked
    assert not waited, f"{len(waited)} of {len(acked)} acks waited for a stranger's claim"
