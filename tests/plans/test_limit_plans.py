"""Among a hundred thousand jobs a queue with limits reads as much as it hands out.

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

BATCH = 10_000
LEASED = 100


@dataclass(frozen=True)
class Loaded:
    """The full database, and a session that has known it since it was empty."""

    dsn: str
    veteran: Reader
    admin: Session


def _use(reader: Reader, jobs: int = 1) -> tuple[int, int]:
    """Enqueue, claim, and finish; what a claim and an enqueue read at most."""
    reader.call("enqueue", queue="few", payload=Jsonb(0))
    added = reader.last.entries
    assert not reader.last.scanned
    claimed = reader.call("claim_job", queue="few", max_jobs=jobs)
    assert not reader.last.scanned
    read = reader.last.entries
    for job in claimed:
        reader.call("ack", job_id=job.job_id, lease_token=job.lease_token)
    return read, added


@pytest.fixture(scope="module")
def loaded(databases: Databases) -> Iterator[Loaded]:
    with databases.copy("limit_plans") as dsn, Session.connect(dsn, autocommit=True) as admin:
        for (table,) in admin.execute(
            "select oid::regclass::text from pg_class"
            " where relnamespace = 'pgq'::regnamespace and relkind = 'r'"
        ).fetchall():
            admin.execute(f"alter table {table} set (autovacuum_enabled = off)")
        admin.create_queue(
            queue="few", max_leased=LEASED, rate_limit=1000000, max_unfinished=1000000
        )
        veteran = Reader(dsn)
        for _ in range(3):
            _use(veteran)
        for batch in range(10):
            admin.enqueue_batch(
                queue="few",
                payloads=[Jsonb(0)] * BATCH,
                **({"delay": "1 hour"} if batch % 2 else {}),
            )
        yield Loaded(dsn, veteran, admin)
        veteran.close()


@pytest.mark.parametrize("known_since", ["empty", "now"])
def test_a_claim_reads_what_it_hands_out(loaded: Loaded, known_since: str) -> None:
    reader = loaded.veteran if known_since == "empty" else Reader(loaded.dsn)
    _use(reader)
    worst = max(_use(reader)[0] for _ in range(30))
    # a look at all that were handed out comes once in a hundred claims
    assert worst < 20 * LEASED
    assert min(_use(reader)[0] for _ in range(5)) < 200
    full = reader.call("claim_job", queue="few", max_jobs=1000)
    assert len(full) == LEASED
    for _ in range(3):
        assert reader.call("claim_job", queue="few", max_jobs=10) == []
        assert reader.last.entries < 10 * LEASED
        assert not reader.last.scanned
    reader.call("ack_batch", job_ids=[job.job_id for job in full], lease_token=full[0].lease_token)


def test_an_enqueue_counts_seldom(loaded: Loaded) -> None:
    """A count of all stands for as long as no more can have come than there is room."""
    counts: list[int] = []
    for _ in range(50):
        loaded.veteran.call("enqueue", queue="few", payload=Jsonb(0))
        counts.append(loaded.veteran.last.entries)
    assert sum(read > BATCH for read in counts) <= len(counts) // 2
    assert min(counts) < 100


def test_claims_beside_an_old_snapshot_read_no_more_and_more(loaded: Loaded) -> None:
    with Session.connect(loaded.dsn) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select count(*) from pgq.queue")
        reader = loaded.veteran

        def claim_many() -> list[int]:
            read: list[Any] = []
            for _ in range(400):
                [job] = reader.call("claim_job", queue="few")
                read.append(reader.last.entries)
                reader.call("ack", job_id=job.job_id, lease_token=job.lease_token)
            return sorted(read)

        first = claim_many()
        claim_many()
        last = claim_many()
        assert last[200] <= 2 * first[200] + 50
        assert last[-1] <= 2 * first[-1] + 500
        holder.rollback()
