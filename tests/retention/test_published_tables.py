"""A database whose tables are all published, as logical replication and change capture do it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.types.json import Jsonb

from pgq.embedded import Server
from support import servers
from support.bulk import begin, numbers, stage
from support.clock import Clock
from support.house import load_pgq
from support.queue import ack, claim, claim_one, enqueue_many
from support.session import Session, row
from support.storage import actions, clean

FOREVER = ["job_ttl", "retention"]


@pytest.fixture(scope="module")
def published() -> Iterator[Session]:
    """A session to one; at the end, what happened is read as a subscriber would."""
    server = Server(settings={"fsync": "off", "wal_level": "logical"})
    try:
        servers.start(server)
        load_pgq(conninfo=server.dsn)
        Clock(server.dsn).install()
        with Session.connect(server.dsn, autocommit=True) as connection:
            connection.execute("select pg_create_logical_replication_slot('all', 'pgoutput')")
            connection.execute("create publication everything for all tables")
            yield connection
            [changes] = row(
                connection,
                "select count(*) from pg_logical_slot_get_binary_changes("
                "'all', null, null, 'proto_version', '1', 'publication_names', 'everything')",
            )
            assert changes > 1000
    finally:
        server.stop()


@pytest.fixture
def clock(published: Session) -> Clock:
    """Its clock."""
    return Clock(published.info.dsn)


def write(session: Session, **target: object) -> None:
    """A bulk write, committed."""
    write_id = begin(session, **target)
    stage(session, write_id, numbers(1, 3), json=True)
    session.commit_write(write_id=write_id)


def test_the_whole_life_of_messages(published: Session, clock: Clock) -> None:
    published.create_topic(topic="t", partitions=2, retention="1 hour")
    published.create_topic(topic="kept", partitions=1, no_limit=["retention"])
    for topic in ("t", "kept"):
        published.create_group(topic=topic, consumer_group="g")
        published.publish(topic=topic, payload=1, key="k")
        published.publish_batch(topic=topic, payloads=[1, 2], keys=["k", "l"])
    assert published.consume(topic="t", consumer_group="g")
    [leased, *_] = published.poll(topic="kept", consumer_group="g")
    place = {"topic": "kept", "consumer_group": "g", "partition": 0}
    held = {**place, "lease_token": leased.lease_token}
    assert published.extend_poll(**held)
    published.commit_offset(**held, committed_offset=1)
    published.release_poll(**held)
    published.seek(**place, log_offset=1)
    published.alter_group(topic="t", consumer_group="g", out_of_range="skip")
    published.alter_topic(topic="t", partitions=3, max_bytes=10**9)
    for _ in range(1200):
        published.seek(**place, start="earliest")  # the journal is trimmed
    done = []
    for _ in range(8):
        clock.advance("30 minutes")
        published.publish(topic="t", payload=2, key="k")
        done += clean(published)
    published.drop_group(topic="t", consumer_group="g")
    for topic in ("t", "kept"):
        published.drop_topic(topic=topic)
    done += clean(published)  # what was kept goes row by row
    assert {
        "positions trimmed",
        "segment sealed",
        "segment closed",
        "segment truncated",
        "dropped messages deleted",
    } <= set(done)
    assert "busy" not in done


def test_the_whole_life_of_jobs(published: Session, clock: Clock) -> None:
    published.create_queue(queue="q", max_attempts=2, job_ttl="12 hours", retention="1 hour")
    published.create_queue(queue="kept", no_limit=FOREVER)
    for queue in ("q", "kept"):
        enqueue_many(published, queue, 12, labels=["l"] * 12)
        ack(published, claim_one(published, queue, label="l"))
        job, other, late = claim(published, queue, 3)
        published.extend_lease(job_id=job.job_id, lease_token=job.lease_token, lease="1 minute")
        published.archive_job(job_id=job.job_id, lease_token=job.lease_token, result=Jsonb({}))
        published.nack(job_id=other.job_id, lease_token=other.lease_token, delay="0")
        [following] = published.finish_and_claim(
            queue=queue, job_ids=[late.job_id], lease_token=late.lease_token
        )
        published.ack_batch(job_ids=[following.job_id], lease_token=following.lease_token)
    for _ in range(2):
        for job in claim(published, "q", 8):
            published.nack(job_id=job.job_id, lease_token=job.lease_token, delay="0")
    assert published.redrive(queue="q", all_jobs=True).taken
    published.pause_queue(queue="q")
    published.resume_queue(queue="q")
    done = []
    for _ in range(10):
        clock.advance("30 minutes")
        done += clean(published)
        claim(published, "q", lease="1 minute")
    assert {"payloads moved", "segment truncated"} <= set(done)
    published.alter_queue(queue="kept", job_ttl="1 hour")
    clock.advance("12 hours")
    assert "jobs expired" in clean(published)
    enqueue_many(published, "q", 2)
    published.purge_queue(queue="q", all_jobs=True)
    for queue in ("q", "kept"):
        published.drop_queue(queue=queue)
    done = clean(published)
    assert "dropped messages deleted" in done
    assert "busy" not in done


def test_bulk_writes(published: Session, clock: Clock) -> None:
    """Also one after which older ones are forgotten, and then their producer."""
    published.create_topic(topic="t")
    published.create_queue(queue="q")
    for seq, atomic in enumerate((True, False)):
        for target in ({"topic": "t"}, {"queue": "q"}):
            write(published, **target, producer="p", seq=seq, atomic=atomic)
    published.execute(
        "insert into pgq.bulk_write ("
        " topic_id, producer, seq, atomic, write_id, begun_at, expires_at, committed_at)"
        " select w.topic_id, 'p', n, true, gen_random_uuid(), w.begun_at, w.begun_at, w.begun_at"
        " from pgq.bulk_write as w, generate_series(10, 1010) as n"
        " where w.topic_id is not null and w.seq = 0"
    )
    for seq in (2000, 2001):
        write(published, topic="t", producer="p", seq=seq)
    assert row(published, "select count(*) from pgq.bulk_producer") == (1,)
    for atomic in (True, False):
        published.abort_write(write_id=begin(published, topic="t", atomic=atomic))
        write_id = begin(published, queue="q", atomic=atomic, timeout="1 hour")
        stage(published, write_id, numbers(1, 3), json=True)
    clock.advance("2 days")
    assert "busy" not in actions(published)
    published.drop_topic(topic="t")
    published.drop_queue(queue="q")
    assert "busy" not in clean(published)
    assert row(published, "select count(*) from pgq.bulk_producer") == (0,)


def test_what_an_upgrade_notes(published: Session) -> None:
    published.execute(
        "insert into pgq.kept_grant values ('grant select on table pgq.messages to public')"
    )
    assert row(published, "select count(*) from pgq.kept_grant") == (0,)
