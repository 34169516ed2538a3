"""Servers that are killed, promoted or replaced while messages have no offsets yet."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest

from pgq.embedded import Server
from support.house import install_script
from support.log import newest, offsets
from support.queue import claim
from support.session import Session, refused, row
from support.waiting import PATIENCE, aside, wait_until

StartServer = Callable[..., Server]

KEYS = 4


def install(server: Server) -> None:
    """pgq, and a deferred topic with a group and a subscribed queue."""
    with Session.connect(server.dsn, autocommit=True) as log:
        log.execute(install_script())
        log.create_topic(topic="t", partitions=2, deferred=True)
        log.create_group(topic="t", consumer_group="g")
        log.create_queue(queue="q")
        log.subscribe(subscription="s", topic="t", queue="q")


def everything(log: Session) -> dict[str, list[int]]:
    """What is stored of each key in the order of its offsets, which have no gap."""
    found = defaultdict(list)
    for partition in range(2):
        highest = newest(log, "t", partition)
        rows = []
        if highest:
            rows = log.fetch_range(
                topic="t", partition=partition, first_offset=1, last_offset=highest
            )
        assert offsets(rows) == list(range(1, highest + 1))
        for message in rows:
            found[message.key].append(message.payload)
    assert row(log, "select count(*) from pgq.message where partition_id < 0") == (0,)
    return found


@pytest.mark.slow
def test_a_crash(start_server: StartServer) -> None:
    """Publishers, members and workers at work, and the server crashes, twice.

    What a commit was acknowledged for is there, once, in the order of its key; what was in flight
    is there or not. Then all is consumed and worked off to the end.
    """
    server = start_server()
    install(server)
    numbers = [itertools.count(1) for _ in range(KEYS)]
    published: dict[str, list[int]] = defaultdict(list)
    tried: dict[str, set[int]] = defaultdict(set)
    consumed: list[int] = []
    worked: list[int] = []

    def publish(stop: threading.Event, number: int, log: Session) -> None:
        key = f"k{number}"
        content = number * 1_000_000 + next(numbers[number])
        tried[key].add(content)
        if content % 3:
            log.publish(topic="t", payload=content, key=key)
        else:
            log.publish_batch(topic="t", payloads=[content], keys=[key])
        log.commit()
        published[key].append(content)

    def consume(stop: threading.Event, log: Session) -> None:
        rows = log.consume(topic="t", consumer_group="g", max_messages=7)
        log.commit()
        consumed.extend(message.payload for message in rows)

    def work(stop: threading.Event, log: Session) -> None:
        jobs = claim(log, "q", 7)
        for job in jobs:
            log.ack(job_id=job.job_id, lease_token=job.lease_token)
        log.commit()
        worked.extend(job.payload for job in jobs)

    def client(stop: threading.Event, task: Callable[[threading.Event, Session], None]) -> None:
        with contextlib.suppress(psycopg.OperationalError):
            session = Session.connect(server.dsn)
            while not stop.is_set():
                task(stop, session)

    for _ in range(2):
        stop = threading.Event()
        before = len(consumed), len(worked)
        tasks: list[Any] = [lambda s, log, n=n: publish(s, n, log) for n in range(KEYS)]
        tasks += [consume, consume, work, work]
        clients = [aside(partial(client, stop, task)) for task in tasks]
        wait_until(
            lambda: len(consumed) > before[0] + 100 and len(worked) > before[1] + 100,  # noqa: B023
            PATIENCE,
            "for work to be done",
        )
        server.kill()
        stop.set()
        for ended in clients:
            ended.result(PATIENCE)
        server.start()

    with Session.connect(server.dsn, autocommit=True) as log:
        while rows := log.consume(topic="t", consumer_group="g"):
            consumed.extend(message.payload for message in rows)
        while jobs := claim(log, "q", 1000):
            worked.extend(job.payload for job in jobs)
        log.assign_offsets(topic="t")
        stored = everything(log)
        for key, mine in stored.items():
            assert mine == sorted(mine)
            assert set(published[key]) <= set(mine) <= tried[key]
        all_of_it = sorted(content for mine in stored.values() for content in mine)
        # a commit that was not acknowledged may have been one; nothing comes twice
        for done in (consumed, worked):
            assert len(set(done)) == len(done)
            assert len(set(all_of_it) - set(done)) <= 4 * 7
            assert set(done) <= set(all_of_it)


@pytest.mark.slow
def test_a_standby(start_server: StartServer) -> None:
    """It shows what has an offset, gives none, and goes on with that when it is promoted."""
    primary = start_server(settings={"fsync": "off", "max_wal_senders": "4"})
    install(primary)
    with Session.connect(primary.dsn, autocommit=True) as log:
        log.publish(topic="t", payload=1, key="k")
        log.assign_offsets(topic="t")
    folder = primary.directory / "standby"
    primary.run(
        "pg_basebackup",
        *("-D", folder / "data", "--write-recovery-conf", "--checkpoint=fast"),
        as_owner=True,
    )
    folder.chmod(0o755)
    standby = start_server(folder, settings={"fsync": "off", "hot_standby": "on"})
    with (
        Session.connect(primary.dsn) as above,
        Session.connect(standby.dsn, autocommit=True) as below,
    ):
        open_one = Session.connect(primary.dsn)
        open_one.publish(topic="t", payload=-1, key="other")
        for n in (2, 3):
            above.publish(topic="t", payload=n, key="k")
            above.commit()
        [written] = row(above, "select pg_current_wal_lsn()")
        above.commit()
        caught_up = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
        wait_until(lambda: row(below, caught_up, [written])[0])
        [partition] = {message.partition for message in below.fetch(topic="t", consumer_group="g")}
        for name, options in {
            "assign_offsets": {"topic": "t"},
            "consume": {"topic": "t", "consumer_group": "g"},
            "claim_job": {"queue": "q"},
            "cleanup": {},
        }.items():
            refused("25006", below.call, name, **options)
        assert newest(below, "t", partition) == 1
        above.assign_offsets(topic="t")
        above.commit()
        wait_until(lambda: newest(below, "t", partition) == 3)
        found = below.fetch_range(topic="t", partition=partition, first_offset=1, last_offset=3)
        assert [message.payload for message in found] == [1, 2, 3]
        above.publish(topic="t", payload=4, key="k")
        above.commit()
        place = row(above, "select pg_current_wal_lsn()")
        above.rollback()
        wait_until(
            lambda: row(below, "select pg_last_wal_replay_lsn() >= %s", [place[0]]) == (True,)
        )
        primary.kill()
        below.execute("select pg_promote()")
        wait_until(lambda: row(below, "select pg_is_in_recovery()") == (False,))
        below.publish(topic="t", payload=5, key="k")
        assert sorted(job.payload for job in claim(below, "q", 100)) == [1, 2, 3]
        assert [job.payload for job in claim(below, "q", 100)] == [4, 5]
        assert everything(below) == {"k": [1, 2, 3, 4, 5]}


@pytest.mark.slow
@pytest.mark.parametrize("older", ["source", "replica"])
def test_a_logical_replica(start_server: StartServer, older: str) -> None:
    """Each message that had no offset gets one there, though its transaction means nothing.

    Whichever of the two has used up more ids of transactions.
    """
    settings = {"fsync": "off", "wal_level": "logical"}
    source, replica = start_server(settings=settings), start_server(settings=settings)
    install(source)
    with (
        Session.connect(source.dsn, autocommit=True) as above,
        Session.connect(replica.dsn, autocommit=True) as below,
    ):
        below.execute(install_script())
        (above if older == "source" else below).execute(
            "do $$ begin for n in 1..3000 loop perform pg_current_xact_id(); commit;"
            " end loop; end $$"
        )
        tables = row(
            below,
            "select string_agg(format('pgq.%%I', c.relname), ', ') from pg_class as c"
            " where c.relnamespace = 'pgq'::regnamespace and c.relkind in ('r', 'p')"
            " and not c.relispartition",
        )
        below.execute(f"truncate {tables[0]}".encode())
        above.publish(topic="t", payload=1, key="k")
        above.assign_offsets(topic="t")
        above.execute("create publication p for all tables")
        below.execute(f"create subscription s connection '{source.dsn}' publication p".encode())
        wait_until(
            lambda: (
                row(below, "select bool_and(srsubstate = 'r') from pg_subscription_rel") == (True,)
            ),
            PATIENCE,
            "for the copy",
        )
        open_one = Session.connect(source.dsn)
        open_one.publish(topic="t", payload=2, key="k")
        above.publish(topic="t", payload=1001, key="l")
        above.assign_offsets(topic="t")
        above.publish(topic="t", payload=1002, key="l")
        open_one.commit()
        for n in (3, 4):
            above.publish(topic="t", payload=n, key="k")
        above.assign_offsets(topic="t")
        for n in (5, 6):
            above.publish(topic="t", payload=n, key="k")
        above.publish(topic="t", payload=1003, key="l")
        count = "select count(*) from pgq.message"
        wait_until(lambda: row(below, count) == row(above, count), what="for the replica")
        staged = "select count(*) from pgq.message where partition_id < 0"
        wait_until(lambda: row(below, staged) == (3,), what="for the replica")
        for statement in (
            "alter subscription s disable",
            "alter subscription s set (slot_name = none)",
            "drop subscription s",
        ):
            below.execute(statement.encode())
        for name, value in above.execute(
            "select format('%I.%I', schemaname, sequencename), last_value from pg_sequences"
            " where schemaname = 'pgq' and last_value is not null"
        ).fetchall():
            below.execute("select setval(%s::regclass, %s)", [name, value])
        # who publishes there goes on behind
        below.publish(topic="t", payload=7, key="k")
        below.publish(topic="t", payload=1004, key="l")
        below.assign_offsets(topic="t")
        assert everything(below) == {"k": list(range(1, 8)), "l": list(range(1001, 1005))}
        read = below.consume(topic="t", consumer_group="g", max_messages=100)
        read += below.consume(topic="t", consumer_group="g", max_messages=100)
        assert len(read) == 11
        below.publish(topic="t", payload=8, key="k")
        below.assign_offsets(topic="t")
        assert everything(below)["k"] == list(range(1, 9))
        assert sorted(job.payload for job in claim(below, "q", 1000)) == [
            *range(1, 9),
            *range(1001, 1005),
        ]
