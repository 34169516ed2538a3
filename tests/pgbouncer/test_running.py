"""Workers, consumers, producers and push workers behind PgBouncer in transaction mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgq import Client
from pgq.consumer import AsyncConsumer, Consumer
from pgq.producer import Producer
from pgq.worker import AsyncWorker, Worker
from support.house import install_script
from support.pooler import PgBouncer
from support.session import Session
from support.waiting import PATIENCE, wait_until
from support.working import working


@pytest.fixture
def client(dsn: str) -> Iterator[Client]:
    """One that no pooler stands before."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield Client(connection)


def prepared(client: Client, pgbouncer: PgBouncer) -> int:
    """How many statements are prepared in the sessions that PgBouncer has."""
    with psycopg.connect(pgbouncer.dsn, autocommit=True, prepare_threshold=None) as one:
        [(count,)] = one.execute("select count(*) from pg_prepared_statements").fetchall()
    return int(count)


def listens(client: Client) -> int:
    rows = client.connection.execute(
        "select count(*) from pg_stat_activity where query ilike 'listen %'"
    ).fetchall()
    return int(rows[0][0])


@pytest.mark.parametrize("kind", [Worker, AsyncWorker], ids=["threads", "tasks"])
def test_a_worker(pgbouncer: PgBouncer, client: Client, kind: Any) -> None:
    """Each job once, on two sessions that many slots share; what comes later is seen by looks."""
    client.admin.create_queue("work", notify=True)
    client.enqueue_batch("work", [*range(200)])
    done: Counter[int] = Counter()
    worker = kind(pgbouncer.dsn, concurrency=6, poll=0.2)

    def plain(payload: int) -> None:
        done[payload] += 1

    async def task(payload: int) -> None:
        done[payload] += 1

    worker.handler("work", lease=6)(plain if kind is Worker else task)
    with working(worker):
        wait_until(lambda: len(done) == 200, 2 * PATIENCE)
        client.enqueue("work", 200)
        wait_until(lambda: len(done) == 201, PATIENCE)
        assert listens(client) == 0
        assert prepared(client, pgbouncer) == 0
    assert {*done.values()} == {1}
    assert client.monitor.queue_stats("work")[0].leased == 0


@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer], ids=["threads", "tasks"])
def test_a_consumer_and_a_producer(pgbouncer: PgBouncer, client: Client, kind: Any) -> None:
    client.admin.create_topic("events", partitions=4, notify=True)
    client.admin.create_group("events", "all")
    seen: Counter[int] = Counter()
    consumer = kind("all", conninfo=pgbouncer.dsn, concurrency=3, poll=0.2)

    def plain(payload: int) -> None:
        seen[payload] += 1

    async def task(payload: int) -> None:
        seen[payload] += 1

    consumer.handler("events")(plain if kind is Consumer else task)
    with working(consumer):
        with Producer("events", conninfo=pgbouncer.dsn) as producer:
            answers = [producer.publish(number) for number in range(100)]
            for answer in answers:
                answer.result(PATIENCE)
        wait_until(lambda: len(seen) == 100, 2 * PATIENCE)
        assert listens(client) == 0
        assert prepared(client, pgbouncer) == 0
    assert {*seen.values()} == {1}


def test_what_prepares_is_for_the_caller_to_say(dsn: str, pgbouncer: PgBouncer) -> None:
    """Without a pooler the usual threshold stands; with one it can be given."""
    from pgq._runtime._sync._pool import connect

    for place, options, expected in (
        (dsn, {}, 5),
        (pgbouncer.dsn, {}, None),
        (pgbouncer.dsn, {"prepare_threshold": 7}, 7),
    ):
        with connect(place, options, "test") as connection:
            assert connection.prepare_threshold == expected


def test_the_hint_of_deferred_topics(
    dsn: str, connection: Session, pgbouncer: PgBouncer, client: Client
) -> None:
    """A session notes which topic it found to be deferred, and serves others then.

    Another client, another database, the same name as another kind of topic: nothing comes of it.
    """
    other = f"{connection.info.dbname}_other"
    connection.execute(sql.SQL("create database {}").format(sql.Identifier(other)))
    places = [pgbouncer.dsn, make_conninfo(pgbouncer.dsn, dbname=other)]
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": None}
    try:
        with psycopg.connect(make_conninfo(dsn, dbname=other), autocommit=True) as one:
            one.execute(install_script())
        clients = [[Client(psycopg.connect(p, **options)) for _ in range(3)] for p in places]
        for deferred, (first, second, third) in zip((True, False), clients, strict=True):
            first.admin.create_topic("t", partitions=1, deferred=deferred)
            first.admin.create_topic("u", partitions=1, deferred=not deferred)
            first.admin.create_group("t", "g")
            first.admin.create_group("u", "g")
            for number in range(6):
                for one in (first, second, third):
                    one.publish("t", number)
                    one.publish("u", number)
            for topic in ("t", "u"):
                assert len(second.consume(topic, "g")) == 18
            third.admin.drop_topic("t")
            third.admin.drop_topic("u")
            second.admin.create_topic("t", partitions=1, deferred=not deferred)
            second.admin.create_group("t", "g")
            answers = [one.publish("t", 0) for one in (first, second, third) for _ in range(3)]
            assert all((answer.log_offset is None) == (not deferred) for answer in answers)
            assert [m.log_offset for m in third.consume("t", "g")] == [*range(1, 10)]
        for group in clients:
            for one in group:
                one.connection.close()
    finally:
        pgbouncer.kill()
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(other)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Worker, AsyncWorker], ids=["threads", "tasks"])
def test_it_is_killed_while_a_worker_works(pgbouncer: PgBouncer, client: Client, kind: Any) -> None:
    """The worker waits for it and goes on: nothing is lost; a lease that is lost repeats a job."""
    client.admin.create_queue("work", no_limit=["max_attempts"])
    done: Counter[int] = Counter()
    worker = kind(pgbouncer.dsn, concurrency=4, poll=0.2)

    def plain(payload: int) -> None:
        done[payload] += 1

    async def task(payload: int) -> None:
        done[payload] += 1

    worker.handler("work", lease=6)(plain if kind is Worker else task)
    with working(worker):
        for kill in range(1, 4):
            client.enqueue_batch("work", [*range(100 * (kill - 1), 100 * kill)])
            wait_until(lambda enough=100 * kill - 80: len(done) > enough, 120)
            pgbouncer.kill()
            pgbouncer.start()
        wait_until(lambda: len(done) == 300, 120)
    assert sum(done.values()) <= 300 + 3 * 4
    [stats] = client.monitor.queue_stats("work")
    assert (stats.ready, stats.leased, stats.dead) == (0, 0, 0)
