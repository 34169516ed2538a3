"""All of pgq replicated to another database, and the switch-over to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from pgq.embedded import Server
from support.house import ROOT, install_script
from support.session import Session, refused
from support.waiting import wait_until

StartServer = Callable[..., Server]

GUIDE = ROOT / "python" / "docs" / "replicas.md"
SETTINGS = {"fsync": "off", "wal_level": "logical", "max_logical_replication_workers": "8"}


def _block(heading: str) -> str:
    """The first block of SQL below a heading of the guide."""
    text = GUIDE.read_text().partition(f"## {heading}\n")[2]
    return text.partition("```sql\n")[2].partition("```")[0]


def _commands(beginning: str) -> str:
    """The indented block of the guide that begins so."""
    found = re.search(rf"^ +```\n +({beginning}[^`]+)```", GUIDE.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.fixture(params=["by psql", "as an extension"])
def route(request: pytest.FixtureRequest) -> str:
    """How pgq was installed in the publisher's database."""
    return str(request.param)


@pytest.fixture
def publisher(start_server: StartServer, route: str) -> Server:
    """A server with pgq, whose log can be decoded."""
    server = start_server(settings=SETTINGS)
    with psycopg.connect(server.dsn) as connection:
        script = "create extension pgq" if route == "as an extension" else install_script()
        connection.execute(script.encode())
    return server


@pytest.fixture
def subscriber(publisher: Server, start_server: StartServer, route: str) -> Server:
    """Another one, which has the tables and nothing in them: made as the guide says."""
    server = start_server(settings=SETTINGS)
    if route == "as an extension":
        section = GUIDE.read_text().partition("## Logical replication of a topic\n")[2]
        found = re.search(r"`(create extension \w+)` and then\s+`(truncate [^`]+)`", section)
        assert found is not None
        schema = ";".join(found.groups())
    else:
        schema = publisher.run("pg_dump", "--schema-only", "--schema=pgq").stdout
    server.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", input=schema)
    return server


def _rows(connection: psycopg.Connection[Any]) -> dict[str, list[str]]:
    """What stands in every table."""
    tables = connection.execute(
        "select relname from pg_class where relnamespace = 'pgq'::regnamespace and relkind = 'r'"
    ).fetchall()
    found = {}
    for (name,) in tables:
        query = sql.SQL("select t::text from pgq.{} as t order by 1").format(sql.Identifier(name))
        found[name] = [text for (text,) in connection.execute(query).fetchall()]
    return {name: rows for name, rows in found.items() if rows}


def _copied(below: Session) -> None:
    """Wait for the first copy of all tables that are subscribed to."""
    wait_until(
        lambda: (
            below.execute("select bool_and(srsubstate = 'r') from pg_subscription_rel").fetchone()
            == (True,)
        ),
        30,
        "for the first copy",
    )


def _add_leaves(above: Session, below: Session) -> None:
    """Make those that are missing below, as the guide says."""
    leaves = "select relname from pg_class where relname ~ '^message_[0-9]+$' order by 1"
    there = below.execute(leaves).fetchall()
    for (name,) in above.execute(leaves).fetchall():
        if (name,) not in there:
            below.execute(f"select pgq._create_leaf({name.partition('_')[2]})".encode())
    below.execute("alter subscription pgq_replica refresh publication")
    _copied(below)


def _arrived(above: Session, below: Session) -> None:
    """Wait until all that was committed above is applied below, and compare."""
    [place] = above.execute("select pg_current_wal_insert_lsn()").fetchone() or ()
    wait_until(
        lambda: (
            above.execute(
                "select confirmed_flush_lsn >= %s from pg_replication_slots"
                " where slot_name = 'pgq_replica'",
                [place],
            ).fetchone()
            == (True,)
        ),
        30,
        "for the subscriber",
    )
    assert _rows(below) == _rows(above)


def _tour(session: Session) -> None:
    """Write, update, delete and truncate in every part."""
    session.create_topic(topic="readings", partitions=2, retention="1 day")
    session.create_topic(topic="late", partitions=1, deferred=True)
    session.create_queue(queue="mail", ordered=True, unique_until="removed", max_attempts=1)
    session.create_queue(queue="few", max_leased=2, max_leased_per_key=1)
    session.create_queue(queue="followers")
    session.subscribe(subscription="s", topic="readings", queue="followers")
    for topic in ("readings", "late"):
        session.create_group(topic=topic, consumer_group="g")
    for number in range(5):
        session.publish(topic="readings", payload=number, idempotency_key=f"k{number}")
        session.publish(topic="late", payload=number)
        session.enqueue(queue="mail", payload=number, key="a", unique_key=f"u{number}")
        session.enqueue(queue="few", payload=number, key=f"{number % 2}")
    session.consume(topic="readings", consumer_group="g")
    session.consume(topic="late", consumer_group="g", max_messages=3)
    [job] = session.claim_job(queue="mail")
    session.begin_effect(job_id=job[0], lease_token=job[1], effect="e")
    session.ack(job_id=job[0], lease_token=job[1])
    [job] = session.claim_job(queue="mail")
    session.nack(job_id=job[0], lease_token=job[1])
    [job] = session.claim_job(queue="few")
    session.archive_job(job_id=job[0], lease_token=job[1])
    session.claim_job(queue="few", max_jobs=2)
    session.claim_job(queue="followers", max_jobs=2)
    session.redrive(queue="mail", all_jobs=True)
    write = session.begin_write(topic="readings", producer="job", seq=1)
    session.write_chunk(
        write_id=write[0],
        task=0,
        task_attempt="a",
        chunk=0,
        lengths=[1, 1],
        packed_payloads=b"12",
        last_chunk=True,
    )
    session.commit_write(write_id=write[0])
    session.create_schedule(schedule="hourly", queue="followers", payload=1, every="1 hour")
    session.run_schedules()
    session.create_topic(topic="gone")
    session.publish(topic="gone", payload=1)
    session.drop_topic(topic="gone")
    session.cleanup()


def test_all_tables_are_replicated_and_then_taken_over(
    publisher: Server, subscriber: Server
) -> None:
    with (
        Session.connect(publisher.dsn, autocommit=True) as above,
        Session.connect(subscriber.dsn, autocommit=True) as below,
    ):
        above.create_topic(topic="before")
        above.publish(topic="before", payload=0)
        above.execute("create table elsewhere (id integer primary key)")
        publication = _commands("create publication")
        if above.info.server_version < 150000:  # tells of all tables: that one has to be there
            publication = publication.replace("for tables in schema pgq", "for all tables")
            below.execute("create table elsewhere (id integer primary key)")
        above.execute(publication.encode())
        below.execute(
            sql.SQL("create subscription pgq_replica connection {} publication pgq_replica").format(
                sql.Literal(publisher.dsn)
            )
        )
        _copied(below)
        _tour(above)
        _arrived(above, below)

        # more leaves than the installation made
        for days in range(20, 40):
            above.create_topic(topic=f"kept-{days}", partitions=1, retention=f"{days} days")
            above.publish(topic=f"kept-{days}", payload=days)
        missing = re.search(r'relation "pgq.message_16" does not exist', GUIDE.read_text())
        assert missing is not None
        wait_until(
            lambda: missing[0] in subscriber.log_file.read_text(), 30, "for a leaf to be missed"
        )
        _add_leaves(above, below)
        _arrived(above, below)

        # a segment is sealed, closed and truncated
        above.execute("update pgq.segment set opened_at = opened_at - interval '1 year'")
        for _ in range(4):
            above.cleanup()
        assert above.execute(
            "select count(*) from pgq.segment where state <> 'open'"
        ).fetchone() != (0,)
        _add_leaves(above, below)  # for the segments that were opened in their place
        _arrived(above, below)

        # reads work there, also a range
        [first] = below.fetch(topic="late", consumer_group="g", max_messages=1)
        assert first.payload == 3

        # the other one is given up
        below.execute("alter subscription pgq_replica disable")
        below.execute("alter subscription pgq_replica set (slot_name = none)")
        below.execute("drop subscription pgq_replica")
        highest = below.execute("select max(job_id) from pgq.job").fetchone()
        refused("23505", below.create_topic, topic="new")
        below.execute(_block("Switching over to a logical replica").encode())
        below.create_topic(topic="new")
        below.create_queue(queue="new")
        below.create_group(topic="new", consumer_group="g")
        added = below.enqueue(queue="mail", payload=99)
        assert highest is not None
        assert added.job_id > highest[0]
        assert below.publish(topic="readings", payload=99, idempotency_key="k1").duplicate
        place = below.publish(topic="late", payload=99)
        assert place.log_offset is None
        rows = [row for _ in range(2) for row in below.consume(topic="late", consumer_group="g")]
        assert [(row.log_offset, row.payload) for row in rows] == [(4, 3), (5, 4), (6, 99)]
        below.begin_write(topic="new")
        below.cleanup()
