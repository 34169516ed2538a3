"""A server that is killed with -9 while messages are published and consumed."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from pgq.embedded import Server
from support.house import install_script
from support.log import committed_offsets, newest, offsets
from support.session import Session
from support.waiting import PATIENCE, aside, wait_until

StartServer = Callable[..., Server]

PARTITIONS = 3


def test_nothing_acknowledged_is_lost(start_server: StartServer) -> None:
    """Publishers and all kinds of consumers at work, the server crashes and comes back.

    What a commit was acknowledged for is there: messages, effects and positions. The offsets have
    no gap; what was in flight is there wholly or not at all. Then all of it is consumed to the end.
    """
    server = start_server()
    with Session.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        connection.execute(
            "create table work (partition int, log_offset bigint, payload jsonb,"
            " primary key (partition, log_offset))"
        )
        log = connection
        log.create_topic(topic="load", partitions=PARTITIONS)
        for group in ("exact", "leased", "manual"):
            log.create_group(topic="load", consumer_group=group)

    numbers = itertools.count(1)
    published: list[tuple[int, int, int]] = []
    batches: list[set[int]] = []
    consumed: list[tuple[int, int]] = []
    committed: list[tuple[str, int, int]] = []
    stop = threading.Event()

    def client(work: Callable[[Session], None]) -> None:
        with contextlib.suppress(psycopg.OperationalError):
            connection = Session.connect(server.dsn)
            while not stop.is_set():
                work(connection)

    def publish_one(log: Session) -> None:
        number = next(numbers)
        place = log.publish(topic="load", payload=number)
        log.commit()
        published.append((place.partition, place.log_offset, number))

    def publish_many(log: Session) -> None:
        batch = [next(numbers) for _ in range(7)]
        batches.append({*batch})
        keys = [f"k{number}" for number in batch]
        ranges = log.publish_batch(topic="load", payloads=batch, keys=keys)
        rows = [
            (row.partition, row.log_offset, row.payload)
            for found in ranges
            for row in log.fetch_range(
                topic="load",
                partition=found.partition,
                first_offset=found.first_offset,
                last_offset=found.last_offset,
            )
        ]
        log.commit()
        published.extend(rows)

    def consume_exactly(log: Session) -> None:
        rows = log.consume(topic="load", consumer_group="exact", max_messages=10)
        for row in rows:
            log.execute("insert into work values (%s, %s, %s)", [*row[:2], Jsonb(row.payload)])
        log.commit()
        consumed.extend((row.partition, row.log_offset) for row in rows)

    def consume_leased(log: Session) -> None:
        rows = log.poll(topic="load", consumer_group="leased", max_messages=10)
        log.commit()
        if rows:
            last = rows[-1]
            log.commit_offset(
                topic="load",
                consumer_group="leased",
                partition=last.partition,
                committed_offset=last.log_offset,
                lease_token=last.lease_token,
            )
            log.commit()
            committed.append(("leased", last.partition, last.log_offset))

    def consume_by_hand(log: Session) -> None:
        rows = log.fetch(topic="load", consumer_group="manual", max_messages=10, partition=0)
        if rows:
            log.commit_offset(
                topic="load",
                consumer_group="manual",
                partition=0,
                committed_offset=offsets(rows)[-1],
            )
        log.commit()
        if rows:
            committed.append(("manual", 0, offsets(rows)[-1]))

    writing = [publish_one, publish_many, publish_many]
    reading = [consume_exactly, consume_exactly, consume_leased, consume_leased, consume_by_hand]
    clients = [aside(lambda task=task: client(task)) for task in (*writing, *reading)]
    wait_until(
        lambda: len(published) > 300 and len(consumed) > 100 and len(committed) > 20,
        PATIENCE,
        "for work to be done",
    )
    server.kill()
    stop.set()
    for ended in clients:
        ended.result(PATIENCE)

    server.start()
    with Session.connect(server.dsn, autocommit=True) as connection:
        log = connection
        last_offsets = [newest(log, "load", partition) for partition in range(PARTITIONS)]
        stored = {}
        for partition, highest in enumerate(last_offsets):
            rows = log.fetch_range(
                topic="load", partition=partition, first_offset=1, last_offset=highest
            )
            assert offsets(rows) == list(range(1, highest + 1))
            stored.update({(partition, row.log_offset): row.payload for row in rows})
        for partition, offset, number in published:
            assert stored[partition, offset] == number
        assert len(set(stored.values())) == len(stored)
        for batch in batches:
            assert batch <= {*stored.values()} or batch.isdisjoint(stored.values())

        exact = work_done(log)
        assert {*consumed} <= {*exact}
        for partition, done_with in enumerate(committed_offsets(log, "load", "exact")):
            done = sorted(offset for number, offset in exact if number == partition)
            assert done == list(range(1, done_with + 1))
        for group, partition, offset in committed:
            assert committed_offsets(log, "load", group)[partition] >= offset

        # and on it goes
        log.publish_batch(topic="load", payloads=[0] * 5, partition=0)
        while rows := log.consume(topic="load", consumer_group="exact"):
            for row in rows:
                log.execute("insert into work values (%s, %s, %s)", [*row[:2], Jsonb(row.payload)])
        assert len(work_done(log)) == len(stored) + 5


def work_done(log: Session) -> list[Any]:
    """The places of the messages that have had their effect."""
    return log.execute("select partition, log_offset from work").fetchall()
