"""A primary is killed and its synchronous standby promoted, in the middle of the work."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pgq.embedded import Server
from pgq.worker import Worker
from support.house import install_script
from support.log import newest, offsets
from support.session import Session
from support.waiting import PATIENCE, aside, results, wait_until
from support.working import Started

StartServer = Callable[..., Server]

PARTITIONS = 3


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_promotion_loses_nothing_acknowledged(
    start_server: StartServer, start_standby: Callable[..., Server], seed: int
) -> None:
    """Messages, offsets, positions, effects, leases, jobs: all that was answered is there."""
    drawn = random.Random(seed)
    settings = {"fsync": "off", "max_wal_senders": "4"}
    primary = start_server(settings=settings)
    with Session.connect(primary.dsn, autocommit=True) as log:
        log.execute(install_script())
        log.execute(
            "create table work (partition int, log_offset bigint, payload jsonb,"
            " primary key (partition, log_offset))"
        )
        log.execute("create table done (number int)")
        log.create_topic(topic="load", partitions=PARTITIONS)
        log.create_group(topic="load", consumer_group="exact")
        log.create_group(topic="load", consumer_group="held")
        # a claim whose answer is lost is ended by its lease alone
        log.create_queue(queue="jobs", lease="10 seconds")
        log.create_queue(queue="held")
        log.publish_batch(topic="load", payloads=[0] * 9)
        log.enqueue(queue="held", payload=1)
    standby = start_standby(primary, **settings)
    with psycopg.connect(primary.dsn, autocommit=True) as above:
        above.execute("alter system set synchronous_standby_names = '*'")
        above.execute("select pg_reload_conf()")
        wait_until(
            lambda: (
                above.execute(
                    "select count(*) from pg_stat_replication where sync_state = 'sync'"
                ).fetchone()
                == (1,)
            ),
            what="for the standby to be synchronous",
        )
    both = (
        f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
        "?target_session_attrs=read-write&connect_timeout=2"
    )

    # leases that are held over the promotion
    with Session.connect(both, autocommit=True) as log:
        [*polled] = log.poll(topic="load", consumer_group="held", lease="5 minutes")
        [held] = log.claim_job(queue="held", lease="5 minutes")

    numbers = itertools.count(1)
    published: list[tuple[int, int, int]] = []
    consumed: list[tuple[int, int]] = []
    enqueued: dict[str, int] = {}
    acked: list[int] = []
    stop = threading.Event()

    def client(work: Callable[[Session], None]) -> None:
        while not stop.is_set():
            with (
                contextlib.suppress(psycopg.OperationalError),
                Session.connect(both) as connection,
            ):
                while not stop.is_set():
                    work(connection)

    def publish(log: Session) -> None:
        number = next(numbers)
        place = log.publish(topic="load", payload=number)
        log.commit()
        published.append((place.partition, place.log_offset, number))

    def consume(log: Session) -> None:
        rows = log.consume(topic="load", consumer_group="exact", max_messages=10)
        for row in rows:
            log.execute("insert into work values (%s, %s, %s)", [*row[:2], Jsonb(row.payload)])
        log.commit()
        consumed.extend((row.partition, row.log_offset) for row in rows)

    again: list[str] = []

    def enqueue(log: Session) -> None:
        # what has got no answer is sent again, under its key
        key = again.pop() if again else str(next(numbers))
        try:
            job = log.enqueue(queue="jobs", payload=int(key), idempotency_key=key)
            log.commit()
        except psycopg.Error:
            again.append(key)
            raise
        enqueued[key] = job.job_id

    worker = Worker(both, concurrency=2, poll=0.1)

    @worker.handler("jobs")
    def handle(payload: Any) -> None:
        acked.append(payload)

    started = Started(worker)
    threads = [aside(lambda work=work: client(work)) for work in (publish, consume, enqueue)]
    enough = drawn.randint(20, 80)
    wait_until(
        lambda: min(len(published), len(consumed), len(enqueued), len(acked)) > enough, PATIENCE
    )
    primary.kill()
    before = len(published), len(enqueued), len(acked)
    standby.run("psql", "-X", "-c", "select pg_promote()")
    wait_until(
        lambda: (
            len(published) > before[0] + 20
            and len(enqueued) > before[1] + 20
            and len(acked) > before[2] + 20
        ),
        PATIENCE,
        "for the work to go on",
    )
    stop.set()
    results(*threads)

    with Session.connect(both, autocommit=True) as log:
        there = {}
        for partition in range(PARTITIONS):
            last = newest(log, "load", partition)
            rows = log.fetch_range(
                topic="load", partition=partition, first_offset=1, last_offset=last
            )
            assert offsets(rows) == list(range(1, last + 1))
            there.update({(partition, row.log_offset): row.payload for row in rows})
        for partition, log_offset, number in published:
            assert there[partition, log_offset] == number
        # each number once, the first nine messages aside
        written = [number for number in there.values() if number]
        assert len(written) == len(set(written))
        while rows := log.consume(topic="load", consumer_group="exact", max_messages=1000):
            for row in rows:
                log.execute("insert into work values (%s, %s, %s)", [*row[:2], Jsonb(row.payload)])
        written_down = log.execute("select partition, log_offset, payload from work")
        assert {tuple(row[:2]): row[2] for row in written_down} == there
        assert len(consumed) == len(set(consumed))

        # leases and their tokens
        assert log.commit_offset(
            topic="load",
            consumer_group="held",
            partition=polled[0].partition,
            lease_token=polled[0].lease_token,
            committed_offset=polled[0].log_offset,
        )
        assert log.ack(job_id=held.job_id, lease_token=held.lease_token)

        # every job that was answered for is done; what was claimed at the kill may be done twice
        wait_until(
            lambda: log.execute("select count(*) from pgq.job").fetchone() == (0,),
            # what was leased at the kill comes again when its lease runs out
            4 * PATIENCE,
            "for the jobs to end",
        )
        assert {int(key) for key in enqueued} <= set(acked)
        assert len(set(enqueued.values())) == len(enqueued)
    started.stop()
    started.join()
