"""Among many waiting jobs a duplicate, and the end of a replaced job, read what they have to.

Plans are made once in a session and kept; the worst session made them when the tables were empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from plans.counting import Reader
from support.databases import Databases
from support.session import Session

pytestmark = pytest.mark.slow

ROWS = 200_000
BATCH = 20_000
KINDS = ["replace", "postpone"]
SIZE = 40
# what a call may read besides, and for each job of its batch
OVERHEAD = 100
PER_JOB = 35
# what this module claimed during the last moments
RECENTLY_CLAIMED = 2000


@dataclass(frozen=True)
class Loaded:
    """The full database, and a session that has known it since it was empty."""

    dsn: str
    veteran: Reader


@pytest.fixture(scope="module")
def loaded(databases: Databases) -> Iterator[Loaded]:
    with databases.copy("duplicate_plans") as dsn, Session.connect(dsn, autocommit=True) as admin:
        tables = admin.execute(
            "select oid::regclass::text from pg_class"
            " where relnamespace = 'pgq'::regnamespace and relkind = 'r'"
        ).fetchall()
        for (table,) in tables:
            admin.execute(f"alter table {table} set (autovacuum_enabled = off)")
        for kind in KINDS:
            admin.create_queue(
                queue=kind,
                unique_until="claimed",
                on_duplicate=kind,
                keep_results=True,
                no_limit=["max_attempts"],
            )
        veteran = Reader(dsn)
        for _ in range(2):
            _use_all(veteran, 3)
        for batch in range(ROWS // BATCH):
            admin.enqueue_batch(
                queue=KINDS[batch % 2],
                payloads=[Jsonb(0)] * BATCH,
                unique_keys=[f"{batch} {n}" for n in range(BATCH)],
                priority=5,
            )
        yield Loaded(dsn, veteran)
        veteran.close()


def _use_all(reader: Reader, size: int, broken: list[str] | None = None) -> None:
    """Replace jobs, and let older ones come back in each way."""

    def call(function: str, rows: int, /, **arguments: Any) -> list[Any]:
        result = reader.call(function, **arguments)
        if broken is not None:
            work = reader.last
            claimed = RECENTLY_CLAIMED if "claim" in function else 0
            if work.scanned:
                broken.append(f"{function} scans {', '.join(sorted(work.scanned))}")
            if work.entries > OVERHEAD + claimed + PER_JOB * rows:
                broken.append(f"{function} reads {work.entries} index entries for {rows} jobs")
        return result

    for kind in KINDS:
        queue = {"queue": kind}
        keys = [f"key {n}" for n in range(size)]
        many = {**queue, "payloads": [Jsonb(0)] * size, "unique_keys": keys}
        one = {**queue, "payload": Jsonb(0), "unique_key": "one"}
        for way in ("nack", "release_job"):
            for _ in range(3):
                call("enqueue", 1, **one)
            (job,) = call("claim_job", 1, **queue)
            call("enqueue", 1, **one)
            call(way, 1, job_id=job.job_id, lease_token=job.lease_token)
            assert call("get_result", 1, job_id=job.job_id)[0].state == "replaced"
            (job,) = call("claim_job", 1, **queue)
            call("ack", 1, job_id=job.job_id, lease_token=job.lease_token)
        for way in ("nack_batch", "release_job_batch", "lost one", "lost many"):
            for _ in range(2):
                call("enqueue_batch", size, **many)
            jobs = call("claim_job", size, **queue, max_jobs=size, lease="1 microsecond")
            assert len(jobs) == size
            call("enqueue_batch", size, **many)
            ids = [job.job_id for job in jobs]
            if way in ("nack_batch", "release_job_batch"):
                call(way, size, job_ids=ids, lease_token=jobs[0].lease_token)
            most = 1 if way == "lost one" else size
            newer: list[Any] = []
            while len(newer) < size:
                newer += call("claim_job", size, **queue, max_jobs=most)
            assert {job.job_id for job in newer}.isdisjoint(ids)
            held = {"job_ids": [job.job_id for job in newer]}
            for token in {job.lease_token for job in newer}:
                call("ack_batch", size, **held, lease_token=token)


def _check(reader: Reader, size: int) -> None:
    broken: list[str] = []
    for _ in range(2):
        _use_all(reader, size, broken)
        assert not broken, "\n".join(broken)


def test_session_that_began_with_empty_tables(loaded: Loaded) -> None:
    _check(loaded.veteran, SIZE)


@pytest.mark.parametrize("analyzed", [False, True])
def test_new_session(loaded: Loaded, analyzed: bool) -> None:
    if analyzed:
        with Session.connect(loaded.dsn, autocommit=True) as admin:
            admin.execute("vacuum analyze")
    reader = Reader(loaded.dsn)
    _check(reader, SIZE // 2)
    reader.close()


def test_many_lost_leases(loaded: Loaded) -> None:
    """A claim of one ends a thousand at a time, and reads a small multiple of what it ends."""
    with Session.connect(loaded.dsn, autocommit=True) as admin:
        keys = [f"many {n}" for n in range(3000)]
        many = {"queue": "replace", "payloads": [Jsonb(0)] * 3000, "unique_keys": keys}
        admin.enqueue_batch(**many)
        claimed = admin.claim_job(queue="replace", max_jobs=3000, lease="1 microsecond")
        assert len(claimed) == 3000
        admin.enqueue_batch(**many)
    assert len(loaded.veteran.call("claim_job", queue="replace")) == 1
    work = loaded.veteran.last
    assert not work.scanned
    assert 3000 < work.entries < 30 * 3000
