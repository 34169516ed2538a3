"""A primary is lost before its asynchronous standby had everything: what the guide says of that."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import psycopg
import pytest

from pgq.consumer import Consumer
from pgq.embedded import Server
from support.house import install_script
from support.log import newest, offsets
from support.session import Session, refused
from support.waiting import PATIENCE, wait_until
from support.working import Started

StartServer = Callable[..., Server]

NOWHERE = "host=127.0.0.1 port=9 connect_timeout=1"


def _cut_off(primary: Server, standby: Server) -> None:
    """Let the standby have what was committed so far, and nothing of what comes."""
    with (
        psycopg.connect(primary.dsn, autocommit=True) as above,
        psycopg.connect(standby.dsn, autocommit=True) as below,
    ):
        [place] = above.execute("select pg_current_wal_insert_lsn()").fetchone() or ()
        wait_until(
            lambda: (
                below.execute("select pg_last_wal_replay_lsn() >= %s", [place]).fetchone()
                == (True,)
            ),
            what="for the standby",
        )
        below.execute(f"alter system set primary_conninfo = '{NOWHERE}'")
        below.execute("select pg_reload_conf()")
        wait_until(
            lambda: (
                above.execute("select count(*) from pg_stat_replication").fetchone() == (0,)
                and below.execute("select count(*) from pg_stat_wal_receiver").fetchone() == (0,)
            ),
            what="for the replication to end",
        )


def test_what_a_promotion_loses_is_sent_again(
    start_server: StartServer, start_standby: Callable[..., Server]
) -> None:
    """Under its key nothing is written twice; the offsets are given again, to other messages."""
    primary = start_server(settings={"fsync": "off", "max_wal_senders": "4"})
    with psycopg.connect(primary.dsn) as connection:
        connection.execute(install_script())
    standby = start_standby(primary)

    with Session.connect(primary.dsn, autocommit=True) as log:
        log.create_topic(topic="load", partitions=1)
        for group in ("exact", "leased"):
            log.create_group(topic="load", consumer_group=group)
        log.create_queue(queue="jobs")
        for number in (1, 2, 3):
            log.publish(topic="load", payload=number, idempotency_key=f"k{number}")
        log.enqueue(queue="jobs", payload=1, idempotency_key="k1")
        _cut_off(primary, standby)
        for number in (4, 5, 6):
            log.publish(topic="load", payload=number, idempotency_key=f"k{number}")
        log.enqueue(queue="jobs", payload=2, idempotency_key="k2")
        assert len(log.consume(topic="load", consumer_group="exact", max_messages=9)) == 6
        [*polled] = log.poll(topic="load", consumer_group="leased", max_messages=9)
        [job] = log.claim_job(queue="jobs")
    primary.kill()
    standby.run("psql", "-X", "-c", "select pg_promote()")

    with Session.connect(standby.dsn, autocommit=True) as log:
        assert newest(log, "load", 0) == 3
        # who keeps its position elsewhere has read up to 6
        failed = refused(
            "MQ004", log.fetch_range, topic="load", partition=0, first_offset=7, last_offset=9
        )
        assert failed.diag.message_detail == (
            "First available offset: 1; last available offset: 3."
        )
        # positions and leases went back together with the messages
        rows = log.consume(topic="load", consumer_group="exact", max_messages=9)
        assert [row.payload for row in rows] == [1, 2, 3]
        refused(
            "MQ006",
            log.commit_offset,
            topic="load",
            consumer_group="leased",
            partition=0,
            committed_offset=6,
            lease_token=polled[0].lease_token,
        )
        assert not log.ack(job_id=job.job_id, lease_token=job.lease_token)
        [again] = log.claim_job(queue="jobs")
        assert again.job_id == job.job_id

        # the senders send what they have not seen confirmed for sure: all of it
        sent = [
            log.publish(topic="load", payload=number, idempotency_key=f"k{number}")
            for number in (2, 6, 5, 3, 4)
        ]
        assert [row.duplicate for row in sent] == [True, False, False, True, False]
        assert offsets(sent) == [2, 4, 5, 3, 6]
        assert log.enqueue(queue="jobs", payload=1, idempotency_key="k1").duplicate
        assert not log.enqueue(queue="jobs", payload=2, idempotency_key="k2").duplicate
        # a position of before is in range again, and means other messages
        rows = log.fetch_range(topic="load", partition=0, first_offset=4, last_offset=6)
        assert [row.payload for row in rows] == [6, 5, 4]
        log.publish(topic="load", payload=7)
        [row] = log.fetch_range(topic="load", partition=0, first_offset=7, last_offset=7)
        assert row.payload == 7


def test_a_consumer_goes_on(
    start_server: StartServer,
    start_standby: Callable[..., Server],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What it was handling is missing after the promotion: its lease is lost, and it reads on."""
    primary = start_server(settings={"fsync": "off", "max_wal_senders": "4"})
    with psycopg.connect(primary.dsn) as connection:
        connection.execute(install_script())
    standby = start_standby(primary)
    both = (
        f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
        "?target_session_attrs=read-write&connect_timeout=2"
    )
    handled: list[int] = []
    promoted = threading.Event()
    consumer = Consumer("g", conninfo=both, concurrency=1, poll=0.1)

    @consumer.handler("load")
    def handle(payload: int) -> None:
        handled.append(payload)
        if payload == 2:
            assert promoted.wait(PATIENCE)

    with Session.connect(primary.dsn, autocommit=True) as log:
        log.create_topic(topic="load", partitions=1)
        log.create_group(topic="load", consumer_group="g")
        log.publish(topic="load", payload=1)
        started = Started(consumer)
        wait_until(
            lambda: log.execute("select lag from pgq.group_lag").fetchone() == (0,),
            PATIENCE,
            "for the first message",
        )
        _cut_off(primary, standby)
        log.publish(topic="load", payload=2)
        wait_until(lambda: handled == [1, 2], PATIENCE, "for the second message")
    primary.kill()
    standby.run("psql", "-X", "-c", "select pg_promote()")
    with caplog.at_level(logging.WARNING):
        promoted.set()
        wait_until(lambda: "was lost" in caplog.text, PATIENCE, "for the consumer to notice")
    assert "could not commit, the lease" not in caplog.text
    with Session.connect(standby.dsn, autocommit=True) as log:
        log.publish(topic="load", payload=3)
    wait_until(lambda: handled == [1, 2, 3], PATIENCE, "for the consumer to go on")
    started.stop()
    started.join()
