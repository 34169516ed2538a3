"""Claims that leave jobs out, in a queue with max_leased_per_key: these jobs count nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.ordered import add_many
from support.queue import claim, new_queue, stats
from support.session import Connect, Session
from support.waiting import PATIENCE, aside, wait_until_blocked


def ids(session: Session, queue: str, max_jobs: int = 9, **options: Any) -> list[int]:
    return [job.job_id for job in claim(session, queue, max_jobs, **options)]


@pytest.mark.parametrize("label", [None, "l"])
def test_a_claim_that_is_cut_blocks_nothing(connection: Session, label: str | None) -> None:
    """What it leaves out is claimed next, and so is the key of what it left out."""
    queue = new_queue(connection, max_leased_per_key=1)
    labels = {} if label is None else {"labels": [label] * 6}
    made = [
        job.job_id
        for job in connection.enqueue_batch(
            queue=queue,
            bodies=[bytes(50_000)] * 6,
            keys=["a", "b", "b", "c", None, "a"],
            **labels,
        )
    ]
    told = []
    for _ in range(4):
        jobs = connection.claim_job(queue=queue, max_jobs=6, max_bytes=110_000, label=label)
        told.append([job.job_id for job in jobs])
        assert {job.cut_short for job in jobs} <= {len(told) == 1}
    assert told == [[made[0], made[1]], [made[3], made[4]], [], []]
    assert stats(connection, queue) == {"leased": 4, "waiting": 2}


def test_what_is_left_out_holds_no_slot(connection: Session) -> None:
    """Once it is cancelled the next job of its key is free at once."""
    queue = new_queue(connection, max_leased_per_key=1)
    keys = ["a", "b", "b"]
    made = connection.enqueue_batch(queue=queue, bodies=[bytes(50_000)] * 3, keys=keys)
    [first] = connection.claim_job(queue=queue, max_jobs=3, max_bytes=60_000)
    assert (first.job_id, first.cut_short) == (made[0].job_id, True)
    connection.cancel_job(job_id=made[1].job_id)
    assert ids(connection, queue) == [made[2].job_id]


def test_a_job_that_is_handed_out_alone_blocks_nothing(connection: Session, clock: Clock) -> None:
    """The others of its claim are left to the next one, with their keys."""
    queue = new_queue(connection, max_leased_per_key=1, max_attempts=3, lease="1 minute")
    made = add_many(connection, queue, ["a", "b", "c"])
    claim(connection, queue, 3, prefetch=True)
    clock.advance("2 minutes")
    told = [ids(connection, queue, prefetch=True) for _ in range(4)]
    assert told == [[made[0]], [made[1]], [made[2]], []]


def test_jobs_that_end_while_a_claim_is_cut(connection: Session, connect: Connect) -> None:
    """One that is free by then is measured too."""
    queue = new_queue(connection, max_leased_per_key=1)
    held = connection.enqueue(queue=queue, body=b"", key="a")
    [lease] = connection.claim_job(queue=queue)
    sizes = {"a": 900_000, "b": 40_000, "c": 40_000, "d": 40_000}
    connection.enqueue_batch(
        queue=queue, bodies=[bytes(size) for size in sizes.values()], keys=[*sizes]
    )
    other, observer = connect(autocommit=True), connect(autocommit=True)
    connection.execute("create table public.pgq_gate (open boolean)")
    gate = (
        "create function pgq._fit_jobs(chosen pgq._chosen_jobs, max_bytes bigint) returns integer"
        " language plpgsql volatile as $$ begin lock table public.pgq_gate;"
        " return pgq.pgq_test_fit_jobs(chosen, max_bytes); end $$"
    )
    connection.execute("alter function pgq._fit_jobs rename to pgq_test_fit_jobs")
    connection.execute(gate.encode())
    try:
        with connection.transaction():
            connection.execute("lock table public.pgq_gate")
            claim_of_other = aside(
                lambda: other.claim_job(queue=queue, max_jobs=10, max_bytes=100_000)
            )
            wait_until_blocked(observer, other.info.backend_pid)
            assert connection.ack(job_id=held.job_id, lease_token=lease.lease_token)
        jobs = claim_of_other.result(PATIENCE)
    finally:
        connection.execute("drop function pgq._fit_jobs")
        connection.execute("alter function pgq.pgq_test_fit_jobs rename to _fit_jobs")
        connection.execute("drop table public.pgq_gate")
    assert sum(len(job.body) for job in jobs) <= 100_000 or len(jobs) == 1
    assert jobs[0].cut_short


def test_a_bound_that_rises_meanwhile(connection: Session) -> None:
    """Another session stores a large message between two looks: what is chosen stays chosen."""
    queue = new_queue(connection, max_leased_per_key=1)
    add_many(connection, queue, [*["a", "b"] * 30, *[f"k{n}" for n in range(60)]])
    with connection.transaction(force_rollback=True):
        connection.execute("create sequence public.pgq_test_looks")
        connection.execute(
            "alter function pgq._fit_jobs(pgq._chosen_jobs, bigint) rename to _fit_jobs_before"
        )
        connection.execute(
            "create function pgq._fit_jobs(chosen pgq._chosen_jobs, max_bytes bigint)"
            " returns integer language sql volatile as $$ select case"
            " when nextval('public.pgq_test_looks') > 1 then 1"
            " else pgq._fit_jobs_before(chosen, max_bytes) end $$"
        )
        connection.execute("set local statement_timeout = '10s'")
        rows = connection.claim_job(queue=queue, max_jobs=20)
    assert [job.key for job in rows] == ["a", "b"]
    assert rows[0].cut_short
