"""Through PgBouncer in transaction mode: every transaction may get another server session.

pgq keeps nothing in a session, so all of it works. The client must not prepare statements: of the
versions of PgBouncer about, many do not know them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgq import Client, LeaseLost
from support.pooler import POOL, PgBouncer
from support.session import Session

Connection = psycopg.Connection[Any]
Open = Callable[..., Connection]


@pytest.fixture
def open_client(pgbouncer: PgBouncer) -> Iterator[Open]:
    opened: list[Connection] = []

    def connect(autocommit: bool = True) -> Connection:
        connection = Session.connect(pgbouncer.dsn, autocommit=autocommit, prepare_threshold=None)
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


def _backends(connections: list[Connection]) -> set[int]:
    rows = [connection.execute("select pg_backend_pid()").fetchone() for connection in connections]
    return {row[0] for row in rows if row is not None}


def test_clients_share_server_connections(open_client: Open) -> None:
    assert 1 <= len(_backends([open_client() for _ in range(8)])) <= POOL


def test_log(open_client: Open) -> None:
    writer, reader, other = (Client(open_client()) for _ in range(3))
    writer.admin.create_topic("readings", partitions=2)
    reader.admin.create_group("readings", "meters")
    for number in range(10):
        writer.publish("readings", {"n": number}, key=str(number))
    writer.publish_batch("readings", [{"n": n} for n in range(10, 20)])

    seen = [m.payload["n"] for m in reader.fetch("readings", "meters")]
    assert sorted(seen) == list(range(20))
    with reader.connection.transaction():
        taken = reader.bulk.claim_offsets("readings", "meters", max_messages=3)
        assert taken is not None
        first = reader.bulk.fetch_range(
            "readings", taken.partition, taken.first_offset, taken.last_offset
        )
    assert len(first) == 3

    # a lease belongs to its token, not to a session
    polled = reader.poll("readings", "meters", lease=timedelta(minutes=1))
    place = ("readings", "meters", polled[0].partition)
    assert other.extend_poll(*place, polled[0].lease_token)
    last = polled[-1].log_offset
    with pytest.raises(LeaseLost):
        other.commit_offset(*place, last)
    assert other.commit_offset(*place, last, lease_token=polled[0].lease_token) == last
    rest = other.consume("readings", "meters")
    numbers = [m.payload["n"] for m in (*first, *polled, *rest)]
    assert sorted(numbers) == list(range(20))
    assert all(row.lag == 0 for row in writer.monitor.group_lag("readings"))
    reader.admin.seek("readings", "meters", start="earliest")
    assert len(reader.fetch("readings", "meters")) == 20


def test_rollback_gives_messages_back(open_client: Open) -> None:
    client = Client(open_client())
    client.admin.create_topic("readings", partitions=1)
    client.admin.create_group("readings", "meters")
    client.publish_batch("readings", [1, 2, 3])
    with client.connection.transaction(force_rollback=True):
        assert len(client.consume("readings", "meters")) == 3
    assert [m.payload for m in client.consume("readings", "meters")] == [1, 2, 3]


def test_queue(open_client: Open) -> None:
    producer, worker, other = (Client(open_client()) for _ in range(3))
    producer.admin.create_queue("work", max_attempts=2, backoff=timedelta(0))
    ids = [added.job_id for added in producer.enqueue_batch("work", list(range(6)))]
    jobs = worker.claim_job("work", max_jobs=4)
    assert [job.job_id for job in jobs] == ids[:4]
    token = jobs[0].lease_token
    assert [job.job_id for job in other.claim_job("work", max_jobs=4)] == ids[4:]
    assert other.ack(ids[0], token)
    assert worker.extend_lease(ids[1], token)
    for _ in range(2):
        assert worker.run_once(jobs[1], "mail", lambda: ["sent"]) == ["sent"]
    assert worker.archive_job(ids[1], token, result={"sum": 1})
    assert worker.nack(ids[2], token, delay=timedelta(0), error="no")
    (again,) = other.claim_job("work")
    assert (again.job_id, again.attempt) == (ids[2], 2)
    assert not worker.ack(ids[2], token)
    assert other.nack(ids[2], again.lease_token, error="never")
    (letter,) = producer.jobs.dead_letters("work")
    assert (letter.job_id, letter.last_error) == (ids[2], "never")
    assert producer.jobs.redrive("work", all_jobs=True).taken == 1
    assert worker.ack_batch(ids, token) == [ids[3]]
    producer.admin.cleanup()
    (stats,) = producer.monitor.queue_stats("work")
    assert (stats.ready, stats.leased, stats.dead) == (1, 2, 0)


def test_many_workers_on_few_sessions(open_client: Open) -> None:
    """Eight workers on two sessions: every job and every message once."""
    setup = Client(open_client())
    setup.admin.create_queue("work")
    setup.admin.create_topic("readings", partitions=4)
    setup.admin.create_group("readings", "meters")
    setup.enqueue_batch("work", list(range(200)))
    for number in range(20):
        setup.publish_batch("readings", [number * 10 + n for n in range(10)], partition=number % 4)
    jobs: Counter[int] = Counter()
    messages: Counter[int] = Counter()
    failures: list[BaseException] = []
    lock = threading.Lock()

    def work(client: Client) -> None:
        try:
            while True:
                with client.connection.transaction():
                    taken = client.consume("readings", "meters", max_messages=5)
                claimed = client.claim_job("work", max_jobs=3)
                for job in claimed:
                    assert client.ack(job.job_id, job.lease_token)
                with lock:
                    jobs.update(job.payload for job in claimed)
                    messages.update(message.payload for message in taken)
                    if sum(messages.values()) >= 200 and sum(jobs.values()) >= 200:
                        return
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(Client(open_client()),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures, failures
    assert jobs == Counter(range(200))
    assert messages == Counter(range(200))
