"""Among a hundred thousand jobs with unique keys a call reads as much as it has to do with.

Plans are made once in a session and kept; the worst session made them when the tables were empty.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from plans.counting import Reader
from support.databases import Databases
from support.session import Session
from support.unique import MODES

pytestmark = pytest.mark.slow

ROWS = 100_000
BATCH = 10_000
# what a call may read besides, and for each job of its batch
OVERHEAD = 100
PER_JOB = 14
# what this module claimed during the last moments
RECENTLY_CLAIMED = 2000


@dataclass(frozen=True)
class Loaded:
    """The full database, and a session that has known it since it was empty."""

    dsn: str
    veteran: Reader


@pytest.fixture(scope="module")
def loaded(databases: Databases) -> Iterator[Loaded]:
    with databases.copy("unique_plans") as dsn, Session.connect(dsn, autocommit=True) as admin:
        tables = admin.execute(
            "select oid::regclass::text from pg_class"
            " where relnamespace = 'pgq'::regnamespace and relkind = 'r'"
        ).fetchall()
        for (table,) in tables:
            admin.execute(f"alter table {table} set (autovacuum_enabled = off)")
        for mode in MODES:
            admin.create_queue(
                queue=mode, unique_until=mode, backoff="0", no_limit=["max_attempts"]
            )
        veteran = Reader(dsn)
        for _ in range(2):
            _use_all(veteran, 3)
        for batch in range(ROWS // BATCH):
            admin.enqueue_batch(
                queue="finished",
                payloads=[Jsonb(0)] * BATCH,
                unique_keys=[f"{batch} {n}" for n in range(BATCH)],
                priority=5,
            )
        yield Loaded(dsn, veteran)
        veteran.close()


_numbers = itertools.count(1)


def _use_all(reader: Reader, size: int, broken: list[str] | None = None) -> None:
    """Call all that has to do with keys, on batches of a size."""

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

    for mode in MODES:
        queue = {"queue": mode}
        one = {**queue, "payload": Jsonb(0)}

        def held(job: Any) -> dict[str, Any]:
            return {"job_id": job.job_id, "lease_token": job.lease_token}

        def key() -> str:
            return f"key {next(_numbers)}"

        def batch(number: int, queue: dict[str, Any] = queue) -> tuple[list[int], dict[str, Any]]:
            keys = [key() for _ in range(number)]
            given = {**queue, "payloads": [Jsonb(0)] * number, "unique_keys": keys}
            call("enqueue_batch", number, **given)
            call("enqueue_batch", number, **given)
            jobs = call("claim_job", number, **queue, max_jobs=number)
            assert len(jobs) == number
            return [job.job_id for job in jobs], {"lease_token": jobs[0].lease_token}

        for end in ("ack", "nack", "release_job", "reject_job", "archive_job"):
            again = {**one, "unique_key": key(), "max_attempts": 1000}
            call("enqueue", 1, **again)
            call("enqueue", 1, **again)
            (job,) = call("claim_job", 1, **queue)
            call("extend_lease", 1, **held(job))
            call("get_job", 1, job_id=job.job_id)
            call(end, 1, **held(job))
            call("get_job", 1, job_id=job.job_id)
            if end == "reject_job":
                assert call("redrive", 1, **queue, job_id=job.job_id)[0].taken == 1
            call("cancel_job", 1, job_id=job.job_id)
        call("enqueue", 1, **one, unique_key=key())
        (job,) = call("claim_job", 1, **queue)
        mine = {"job_ids": [job.job_id], "lease_token": job.lease_token}
        call("finish_and_claim", 1, **queue, **mine, max_jobs=0)
        for end in ("ack_batch", "archive_job_batch", "nack_batch", "release_job_batch"):
            ids, token = batch(size)
            assert len(call(end, size, job_ids=ids, **token)) == size
        ids, token = batch(size)
        for number in ids:
            call("reject_job", 1, job_id=number, **token)
        assert call("redrive", size, **queue, all_jobs=True)[0].taken == size


def _check(reader: Reader, size: int) -> None:
    broken: list[str] = []
    for _ in range(2):
        _use_all(reader, size, broken)
        assert not broken, "\n".join(broken)


def test_session_that_began_with_empty_tables(loaded: Loaded) -> None:
    _check(loaded.veteran, 40)


@pytest.mark.parametrize("analyzed", [False, True])
def test_new_session(loaded: Loaded, analyzed: bool) -> None:
    if analyzed:
        with Session.connect(loaded.dsn, autocommit=True) as admin:
            admin.execute("vacuum analyze")
    reader = Reader(loaded.dsn)
    _check(reader, 20)
    reader.close()


def test_a_purge(loaded: Loaded) -> None:
    """Last of all: every key goes with its job."""
    with Session.connect(loaded.dsn, autocommit=True) as admin:
        for mode in MODES:
            least = ROWS if mode == "finished" else 0
            assert admin.purge_queue(queue=mode, all_jobs=True).taken >= least
        assert admin.execute("select count(*) from pgq.unique_job").fetchall() == [(0,)]
