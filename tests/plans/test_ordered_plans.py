"""Ordered keys: a claim and an ack read a few entries, however many jobs wait or keys there are.

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
from support.ordered import BROKEN_KEYS
from support.session import Connect, Session

pytestmark = pytest.mark.slow

ROWS = 100_000
BATCH = 10_000
# what a call may read for one job
ENTRIES = 150


@dataclass(frozen=True)
class Loaded:
    """The full database, and a session that has known it since it was empty."""

    dsn: str
    veteran: Reader


@pytest.fixture(scope="module")
def loaded(databases: Databases) -> Iterator[Loaded]:
    with databases.copy("ordered_plans") as dsn, Session.connect(dsn, autocommit=True) as admin:
        tables = admin.execute(
            "select oid::regclass::text from pg_class"
            " where relnamespace = 'pgq'::regnamespace and relkind = 'r'"
        ).fetchall()
        for (table,) in tables:
            admin.execute(f"alter table {table} set (autovacuum_enabled = off)")
        for queue in ("one", "many"):
            admin.create_queue(queue=queue, ordered=True, backoff="0", max_attempts=3)
        veteran = Reader(dsn)
        for _ in range(2):
            for queue in ("one", "many"):
                _use_all(veteran, queue)
        for batch in range(ROWS // BATCH):
            for queue in ("one", "many"):
                keys = [f"{batch} {n}" if queue == "many" else "k" for n in range(BATCH)]
                admin.enqueue_batch(queue=queue, payloads=[Jsonb(0)] * BATCH, keys=keys)
        yield Loaded(dsn, veteran)
        veteran.close()


def _use_all(reader: Reader, queue: str, broken: list[str] | None = None) -> None:
    """Every way in which the first job of a key ends or returns, and an enqueue behind it."""

    def call(function: str, **arguments: Any) -> list[Any]:
        rows = reader.call(function, **arguments)
        if broken is not None:
            if reader.last.scanned:
                broken.append(f"{function} scans {', '.join(sorted(reader.last.scanned))}")
            if reader.last.entries > ENTRIES:
                broken.append(f"{function} of {queue} reads {reader.last.entries} entries")
        return rows

    for end in ("ack", "archive_job", "reject_job", "cancel_job", "nack", "release_job"):
        call("enqueue", queue=queue, payload=Jsonb(0), key="k")
        (job,) = call("claim_job", queue=queue)
        held = {"job_id": job.job_id, "lease_token": job.lease_token}
        if end == "cancel_job":
            del held["lease_token"]
        call(end, **held)
        if end == "reject_job":
            call("redrive", queue=queue, job_id=job.job_id)
            call("get_job", job_id=job.job_id)
    (job,) = call("claim_job", queue=queue)
    given = {"job_ids": [job.job_id], "lease_token": job.lease_token}
    for job in call("finish_and_claim", queue=queue, **given):
        call("ack_batch", job_ids=[job.job_id], lease_token=job.lease_token)


def _check(reader: Reader) -> None:
    broken: list[str] = []
    for _ in range(2):
        for queue in ("one", "many"):
            _use_all(reader, queue, broken)
    assert not broken, "\n".join(broken)


def test_session_that_began_with_empty_tables(loaded: Loaded) -> None:
    _check(loaded.veteran)


@pytest.mark.parametrize("analyzed", [False, True])
def test_new_session(loaded: Loaded, analyzed: bool) -> None:
    if analyzed:
        with Session.connect(loaded.dsn, autocommit=True) as admin:
            admin.execute("vacuum analyze")
    reader = Reader(loaded.dsn)
    _check(reader)
    reader.close()


def test_an_old_snapshot(loaded: Loaded, connect: Connect) -> None:
    """Ten thousand acks of one key, while nothing can be vacuumed."""
    with Session.connect(loaded.dsn) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select count(*) from pgq.job")
        reader = Reader(loaded.dsn)
        work: dict[str, list[int]] = {"claim_job": [], "ack": []}
        for _ in range(5):
            reader.connection.execute(
                """
                do $$
                declare
                    job record;
                begin
                    for n in 1 .. 2000 loop
                        select c.job_id, c.lease_token
                        into job
                        from pgq.claim_job('one') as c;
                        perform pgq.ack(job.job_id, job.lease_token);
                        commit;
                    end loop;
                end
                $$
                """
            )
            for _ in range(5):
                (job,) = reader.call("claim_job", queue="one")
                work["claim_job"].append(reader.last.entries)
                reader.call("ack", job_id=job.job_id, lease_token=job.lease_token)
                work["ack"].append(reader.last.entries)
        reader.close()
        assert max(work["ack"]) < 50, work
        # what was claimed in the last moments; one of them may have to raise a floor
        assert sorted(work["claim_job"][-5:])[3] < 3 * max(50, *work["claim_job"][:5]), work


def test_a_purge(loaded: Loaded) -> None:
    with Session.connect(loaded.dsn, autocommit=True) as admin:
        for queue in ("one", "many"):
            assert admin.purge_queue(queue=queue, all_jobs=True).taken > ROWS // 2
        assert admin.execute("select count(*) from pgq.ordered_key").fetchall() == [(0,)]
        assert admin.execute(BROKEN_KEYS).fetchall() == []
