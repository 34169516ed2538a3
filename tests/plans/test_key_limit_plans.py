"""Keys at their limit: a claim and an ack read a few entries, however many jobs or keys wait.

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

BATCH = 10_000
pytestmark = pytest.mark.slow

# what a call may read for one job
ENTRIES = 150
# so many jobs of "one" have one key, and so many keys of "many" have two jobs
ROWS = 100_000


@dataclass(frozen=True)
class Loaded:
    """The full database, and a session that has known it since it was empty."""

    dsn: str
    veteran: Reader
    admin: Session


@pytest.fixture(scope="module")
def loaded(databases: Databases) -> Iterator[Loaded]:
    with (
        databases.copy("key_limit_plans") as dsn,
        Session.connect(dsn, autocommit=True) as admin,
    ):
        for (table,) in admin.execute(
            "select oid::regclass::text from pg_class"
            " where relnamespace = 'pgq'::regnamespace and relkind = 'r'"
        ).fetchall():
            admin.execute(f"alter table {table} set (autovacuum_enabled = off)")
        for queue in ("one", "many"):
            admin.create_queue(queue=queue, max_leased_per_key=1, lease="1 day", backoff="0")
        veteran = Reader(dsn)
        for _ in range(2):
            for queue in ("one", "many"):
                _use(veteran, admin, queue)
        for _ in range(ROWS // BATCH):
            admin.enqueue_batch(queue="one", payloads=[Jsonb(0)] * BATCH, keys=["k"] * BATCH)
        for batch in range(2 * ROWS // BATCH):
            keys = [f"{batch // 2} {n}" for n in range(BATCH)]
            admin.enqueue_batch(queue="many", payloads=[Jsonb(0)] * BATCH, keys=keys)
        # What is at its limit goes out of the way, once.
        assert len(admin.claim_job(queue="one")) == 1
        assert admin.claim_job(queue="one") == []
        assert len(admin.claim_job(queue="many", max_jobs=ROWS)) == ROWS
        assert admin.claim_job(queue="many") == []
        yield Loaded(dsn, veteran, admin)
        veteran.close()


def _use(reader: Reader, admin: Session, queue: str) -> int:
    """Claim what comes in now, and end it in each way; what a call reads at most."""
    read = 0

    def call(function: str, **arguments: Any) -> list[Any]:
        nonlocal read
        rows = reader.call(function, **arguments)
        assert not reader.last.scanned, function
        read = max(read, reader.last.entries)
        return rows

    for way in ("ack", "nack", "release_job", "reject_job", "archive_job", "finish_and_claim"):
        for _ in range(2):
            admin.enqueue(queue=queue, payload=Jsonb(0), key="other")
        [job] = call("claim_job", queue=queue)
        assert call("claim_job", queue=queue) == []
        if way == "finish_and_claim":
            held = {"job_ids": [job.job_id], "lease_token": job.lease_token}
            [job] = call(way, queue=queue, **held)
        else:
            call(way, job_id=job.job_id, lease_token=job.lease_token)
            [job] = call("claim_job", queue=queue)
        call("ack", job_id=job.job_id, lease_token=job.lease_token)
        for job in call("claim_job", queue=queue):
            call("ack", job_id=job.job_id, lease_token=job.lease_token)
    return read


@pytest.mark.parametrize("queue", ["one", "many"])
@pytest.mark.parametrize("known_since", ["empty", "now"])
def test_what_waits_is_not_read(loaded: Loaded, known_since: str, queue: str) -> None:
    reader = loaded.veteran if known_since == "empty" else Reader(loaded.dsn)
    # a new session plans, for which it reads the ends of indexes
    _use(reader, loaded.admin, queue)
    assert _use(reader, loaded.admin, queue) < ENTRIES


@pytest.mark.parametrize("known_since", ["empty", "now"])
def test_the_next_of_many_is_found_at_once(loaded: Loaded, known_since: str) -> None:
    """Also while an old snapshot is held: those before it are not passed again and again."""
    reader = loaded.veteran if known_since == "empty" else Reader(loaded.dsn)
    [(job_id, token)] = loaded.admin.execute(
        "select j.job_id, j.lease_token from pgq.job as j"
        " inner join pgq.queue as q using (queue_id)"
        " where q.queue = 'one' and j.lease_token is not null"
    ).fetchall()
    with Session.connect(loaded.dsn) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select")
        read = []
        for _ in range(40):
            reader.call("ack", job_id=job_id, lease_token=token)
            most = reader.last.entries
            [job] = reader.call("claim_job", queue="one")
            assert not reader.last.scanned
            read.append(max(most, reader.last.entries))
            job_id, token = job.job_id, job.lease_token

    assert max(read[1:]) < ENTRIES, read
