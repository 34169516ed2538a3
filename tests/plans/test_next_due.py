"""next_due costs a few index probes, however many jobs there are, and whatever has been done."""

from __future__ import annotations

from typing import Any

import pytest

from plans.counting import Reader
from support.session import Session

JOBS = 200_000
MOST = 80
"""Entries of indexes that one call reads, with the settings and low-water marks of the queue."""


def fill(connection: Session, queue: str, delay: str) -> None:
    """Very many jobs, of all priorities and two labels."""
    connection.execute(
        """
        insert into pgq.job (
            job_id, queue_id, partition_id, log_offset, visible_at, segment, attempt, priority,
            label
        )
        select
            nextval('pgq.job_id'), q.queue_id, q.partition_id, n,
            pgq._clock() + %s::interval + n * interval '1 second', q.segment, 0, n %% 10,
            case n %% 3 when 0 then 'a' when 1 then 'b' end
        from pgq.queue as q, generate_series(1, %s) as n
        where q.queue = %s
        """,
        [delay, JOBS, queue],
    )


@pytest.mark.slow
@pytest.mark.parametrize("informed", [False, True], ids=["empty", "analyzed"])
def test_many_jobs(connection: Session, clock: Any, informed: bool) -> None:
    connection.execute("alter table pgq.job set (autovacuum_enabled = false)")
    connection.create_queue(queue="work", max_attempts=2)
    early = Reader(connection.info.dsn)
    for label in (None, "a", "none"):
        early.call("next_due", queue="work", label=label)
    fill(connection, "work", "1 hour")
    connection.create_queue(queue="small")
    connection.enqueue(queue="small", payload=1, label="a", delay="1 hour")
    if informed:
        connection.execute("analyze pgq.job")
    late = Reader(connection.info.dsn)

    def refuse_scans() -> None:
        for reader in (early, late):
            for queue in ("work", "small"):
                for label in (None, "a", "none"):
                    reader.call("next_due", queue=queue, label=label)
                    assert reader.last.entries <= MOST, (queue, label)
                    assert not reader.last.scanned

    refuse_scans()
    # dead rows of jobs that are done lie below the low-water marks
    connection.execute("update pgq.job set visible_at = pgq._clock() where label = 'b'")
    connection.execute("delete from pgq.job where label = 'b' and priority < 9")
    for _ in range(3):
        clock.advance("6 seconds")
        jobs = connection.claim_job(queue="work", max_jobs=1000)
        connection.ack_batch(job_ids=[j.job_id for j in jobs], lease_token=jobs[0].lease_token)
    refuse_scans()
    early.close()
    late.close()
