"""What a delivery writes, and what claims read where jobs wait in runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from plans.counting import Reader, refuse_growth
from support.queue import stats
from support.session import Connect, Session
from support.subscription import delivered, subscribe

pytestmark = pytest.mark.slow

ROUNDS = 9
# the ends of the leases lie behind the end of the test
LEASE = "1 hour"
CONTENT = {"text": "x" * 1000}


@pytest.fixture
def reader(dsn: str) -> Iterator[Reader]:
    reader = Reader(dsn)
    yield reader
    reader.close()


def _follow(session: Session, queues: int, **options: Any) -> list[str]:
    names = [f"q{n}" for n in range(queues)]
    for name in names:
        session.create_queue(queue=name)
        subscribe(session, "t", name, **options)
    return names


def _least_wal(session: Session, call: Callable[[], Any]) -> int:
    """The bytes that a call writes when nothing is in its way."""
    found = []
    for _ in range(7):
        [(before,)] = session.execute("select pg_current_wal_insert_lsn()").fetchall()
        call()
        [(bytes_,)] = session.execute(
            "select (pg_current_wal_insert_lsn() - %s::pg_lsn)::bigint", [before]
        ).fetchall()
        found.append(bytes_)
    return int(min(found))


@pytest.mark.parametrize("filtered", [False, True])
def test_the_log_of_the_server(connection: Session, filtered: bool) -> None:
    """A batch of 100 messages of 1 KB to 8 queues: less than 2.5 times that of the publish."""

    def publish() -> None:
        connection.publish_batch(
            topic="t",
            payloads=[Jsonb({**CONTENT, "n": n}) for n in range(100)],
            headers=[{"h": str(n % 2)} for n in range(100)],
        )

    connection.create_topic(topic="t", partitions=1)
    alone = _least_wal(connection, publish)
    queues = _follow(connection, 8, **({"filter": {"h": ["0"]}} if filtered else {}))
    followed = _least_wal(connection, publish)
    assert alone > 100_000
    assert followed < 1.2 * alone
    for queue in queues:
        assert len(delivered(connection, queue)) == 7 * (50 if filtered else 100)


@pytest.mark.parametrize("max_jobs", [1, 20])
def test_ten_thousand_runs(reader: Reader, connection: Session, max_jobs: int) -> None:
    """A claim takes the first of them, and looks at no others; in a session that has met none."""
    connection.create_topic(topic="t", partitions=1)
    [queue] = _follow(connection, 1)
    reader.call("claim_job", queue=queue, max_jobs=max_jobs)
    connection.execute(
        """
        insert into pgq.job_extent
        select q.queue_id, clock_timestamp() - (10001 - n) * interval '1 second',
            nextval('pgq.job_id'), p.partition_id, n * 4, null, p.segment, 4, null
        from pgq.queue as q, pgq.partition as p, generate_series(1, 10000) as n
        """
    )
    for _turn in range(1, 4):
        assert len(reader.call("claim_job", queue=queue, max_jobs=max_jobs)) == max_jobs
        assert not reader.last.scanned
        assert reader.last.entries < 40 + 12 * max_jobs
    assert stats(connection, queue)["ready"] == 40_000 - 3 * max_jobs


def test_jobs_before_runs(reader: Reader, connection: Session) -> None:
    """Where enough jobs are due before the first run, no run is touched."""
    connection.create_topic(topic="t", partitions=1)
    [queue] = _follow(connection, 1)
    reader.call("enqueue_batch", queue=queue, payloads=[Jsonb(n) for n in range(1000)])
    connection.publish_batch(topic="t", payloads=[Jsonb(n) for n in range(100)])
    for _ in range(3):
        assert len(reader.call("claim_job", queue=queue, max_jobs=5)) == 5
        assert reader.last.entries < 200
    assert connection.execute("select count(*) from pgq.job_extent").fetchall() == [(1,)]


@pytest.mark.parametrize("number", [3, 40])
def test_a_held_snapshot(
    reader: Reader, connection: Session, connect: Connect, number: int
) -> None:
    """What was delivered and done must not be walked again by later claims."""
    connection.create_topic(topic="t", partitions=1)
    [queue] = _follow(connection, 1)
    holder = connect(isolation_level="repeatable read")
    holder.execute("select count(*) from pgq.job")
    work = []
    for _ in range(ROUNDS):
        for _ in range(25):
            reader.call("publish_batch", topic="t", payloads=[Jsonb(1)] * number)
            jobs = reader.call("claim_job", queue=queue, max_jobs=number, lease=LEASE)
            assert len(jobs) == number
            reader.call(
                "ack_batch", job_ids=[j.job_id for j in jobs], lease_token=jobs[0].lease_token
            )
        # the floor rises a few times a second at most
        for _ in range(3):
            time.sleep(0.055)
            reader.call("publish", topic="t", payload=Jsonb(1))
            [job] = reader.call("claim_job", queue=queue, lease=LEASE)
            reader.call("ack", job_id=job.job_id, lease_token=job.lease_token)
        reader.call("publish_batch", topic="t", payloads=[Jsonb(1)] * number)
        assert len(reader.call("claim_job", queue=queue, max_jobs=number, lease=LEASE)) == number
        work.append(reader.last.entries)
        assert not reader.last.scanned
        connection.purge_queue(queue=queue, all_jobs=True)
    refuse_growth(work)
