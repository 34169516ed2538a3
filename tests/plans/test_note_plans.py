"""Snoozes, retries and progress among many jobs: a call reads as much as one job takes.

Plans are made once in a session and kept. The worst session made them when the tables were empty,
and tables that grow between two runs of autovacuum look empty to the planner for long.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.types.json import Jsonb

from plans.counting import Reader
from support.databases import Databases
from support.house import refuse
from support.queue import new_queue
from support.session import Session

pytestmark = pytest.mark.slow

ROWS = 100_000
BATCH = 10_000
OVERHEAD = 100
"""What a call may read besides its job: the queue, its floors."""
PER_NOTE = 5


@pytest.fixture(scope="module")
def dsn(databases: Databases) -> Iterator[str]:
    with databases.copy("note-plans") as dsn, Session.connect(dsn, autocommit=True) as admin:
        for table in ("job", "job_note", "dead_job"):
            # the planner is to know no more than the test wants it to
            admin.execute(f"alter table pgq.{table} set (autovacuum_enabled = off)".encode())
        yield dsn


def use_all(reader: Reader, queue: str, broken: list[str]) -> None:
    """Snooze a job, retry it, note its progress, and look at it."""

    def call(function: str, **arguments: object) -> list[tuple[object]]:
        rows = reader.call(function, **arguments)
        if reader.last.scanned & {"job", "job_note", "dead_job"}:
            broken.append(f"{function} scans {sorted(reader.last.scanned)}")
        if reader.last.entries > OVERHEAD:
            broken.append(f"{function} reads {reader.last.entries} index entries")
        return rows

    [job] = reader.call("claim_job", queue=queue)
    held = {"job_id": job[0], "lease_token": job[1]}
    assert call("set_progress", **held, progress=Jsonb({"done": 1})) == [(True,)]
    assert call("release_job", **held, delay="1 hour") == [(True,)]
    assert len(call("get_job", job_id=job[0])) == 1
    assert call("retry_job", job_id=job[0]) == [(True,)]
    assert call("retry_job", job_id=job[0]) == [(False,)]
    assert call("retry_job", job_id=2**62) == [(False,)]


def test_plans_of_an_empty_table(dsn: str) -> None:
    """They do as well when it has become large; and so does cleanup, which looks up each job."""
    with Session.connect(dsn, autocommit=True) as admin:
        queue = new_queue(admin, no_limit=["job_ttl"])
        admin.enqueue(queue=queue, payload=Jsonb(1))
        veteran, broken = Reader(dsn), list[str]()
        for _ in range(8):
            use_all(veteran, queue, broken)
            veteran.call("cleanup")
        for _ in range(ROWS // BATCH):
            admin.enqueue_batch(queue=queue, payloads=[1] * BATCH, delay="1 day")
        admin.execute(
            "insert into pgq.job_note (job_id, snoozes) select j.job_id, 1 from pgq.job as j"
            " order by j.job_id limit 4000 on conflict do nothing"
        )
        for reader in (veteran, Reader(dsn)):
            for _ in range(8):
                use_all(reader, queue, broken)
            admin.execute(
                "insert into pgq.job_note (job_id, snoozes)"
                " select 1000000 + n, 1 from generate_series(1, 4000) as n"
            )
            admin.execute("select setval('pgq.job_note_walk', 0)")
            assert ("notes removed", "jobs", 4000) in reader.call("cleanup")
            if reader.last.entries > OVERHEAD + PER_NOTE * 8000:
                broken.append(f"cleanup reads {reader.last.entries} index entries")
            reader.close()
        refuse(broken)
