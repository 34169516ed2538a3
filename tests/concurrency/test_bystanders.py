"""Transactions that stay open and have an id, but no business with pgq, hold nothing up.

Floors of queues and segments wait for transactions that may write by what they have read before.
A transaction that has read nothing of pgq has no lock on its tables either, and will read what is
there by then. All of this stands and falls with the order: first the lock on a table, then the
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from support.bystanders import BYSTANDERS, end, furnish, idle, rises, undone
from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many
from support.session import Connect, Session
from support.subscription import publish_many, subscribe


@pytest.fixture
def elsewhere(dsn: str, connection: Session) -> Iterator[str]:
    """Another database of the server, without pgq."""
    name = f"{connection.info.dbname}_elsewhere"
    connection.execute(f"create database {name}".encode())
    yield make_conninfo(dsn, dbname=name)
    connection.execute(f"drop database {name} with (force)".encode())


@pytest.fixture
def work(connection: Session, clock: Clock) -> Session:
    """A database with a queue and a topic, where others have worked before."""
    return furnish(connection, clock)


@pytest.mark.parametrize("hold", BYSTANDERS)
def test_the_floorrises(
    connect: Connect,
    work: Session,
    clock: Clock,
    hold: Callable[[Connect, Session], Session],
) -> None:
    """What bystanders keep from vacuum, claims do not walk over."""
    session = hold(connect, work)
    assert rises(work, clock)
    end(session, work)


def test_the_floor_rises_beside_one_in_another_database(
    work: Session, clock: Clock, elsewhere: str
) -> None:
    """Ids of transactions are those of the whole server."""
    with psycopg.connect(elsewhere) as session:
        session.execute("create table note (n integer)")
        assert rises(work, clock)


def test_the_floor_rises_beside_one_that_publishes_and_consumes(
    connect: Connect, work: Session, clock: Clock
) -> None:
    """The log is not the queue."""
    work.create_group(topic="events", consumer_group="all")
    session = connect()
    session.publish(topic="events", payload=1)
    session.consume(topic="events", consumer_group="all")
    assert rises(work, clock)
    session.commit()


@pytest.mark.parametrize("call", ["enqueue", "claim", "list", "publish"])
def test_the_floor_waits_for_those_who_know_a_queue(
    connect: Connect, work: Session, clock: Clock, call: str
) -> None:
    """Whatever they did with it: they may have read the clock, and use it when they write."""
    work.create_topic(topic="followed", partitions=1)
    subscribe(work, "followed", "work")
    held = enqueue(work, "work", "held")
    session = connect()
    session.execute("select pg_current_xact_id()")
    if call == "enqueue":
        enqueue(session, "work", "late")
    elif call == "claim":
        assert claim_one(session, "work").job_id == held
    elif call == "list":
        session.list_queues()
    else:
        session.publish(topic="followed", payload=Jsonb("late"))
    if call != "claim":
        claim_one(work, "work")
    assert not rises(work, clock)
    session.commit()
    assert rises(work, clock)
    # who worked on took one job for each that they added, and first what came late
    assert len(claim(work, "work", 10)) == (call in ("enqueue", "publish"))


@pytest.mark.parametrize("hold", [idle, undone])
@pytest.mark.parametrize(
    "call", ["enqueue", "enqueue_batch", "publish", "publish_batch", "nack", "redrive", "lease"]
)
def test_a_bystander_that_begins_to_work(
    connect: Connect,
    work: Session,
    clock: Clock,
    hold: Callable[[Connect, Session], Session],
    call: str,
) -> None:
    """Its id is old, and below the floor nothing is written all the same."""
    work.create_topic(topic="followed", partitions=1)
    subscribe(work, "followed", "work")
    leased, dead = (enqueue(work, "work", what) for what in ("leased", "dead"))
    token = claim_one(work, "work").lease_token
    poison = claim_one(work, "work")
    assert work.reject_job(job_id=dead, lease_token=poison.lease_token)
    session = hold(connect, work)
    assert rises(work, clock)
    if call == "enqueue":
        enqueue(session, "work", "late")
    elif call == "enqueue_batch":
        enqueue_many(session, "work", 2)
    elif call == "publish":
        session.publish(topic="followed", payload=Jsonb("late"))
    elif call == "publish_batch":
        publish_many(session, "followed", 6)
    elif call == "nack":
        assert session.nack(job_id=leased, lease_token=token, delay="0")
    elif call == "redrive":
        assert session.redrive(queue="work", all_jobs=True).taken == 1
    else:
        assert session.extend_lease(job_id=leased, lease_token=token, lease="1 microsecond")
    # the others work on, and look at locks again
    for _ in range(3):
        rises(work, clock)
    session.commit()
    clock.advance("1 hour")
    expected = {
        "enqueue": ["late"],
        "enqueue_batch": [0, 1],
        "publish": ["late"],
        "publish_batch": [0, 1, 2, 3, 4, 5],
        "redrive": ["dead"],
    }
    found = [job.payload for job in claim(work, "work", 100)]
    assert sorted(map(str, found)) == sorted(map(str, [*expected.get(call, []), "leased"]))
