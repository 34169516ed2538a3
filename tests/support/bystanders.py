"""What tests of bystanders share: transactions that stay open and have nothing to do with pgq."""

from __future__ import annotations

import psycopg
import pytest

from support.clock import Clock
from support.queue import claim_one, enqueue
from support.session import Connect, Session, row

__all__ = ["BYSTANDERS", "end", "furnish", "idle", "rises", "undone"]


def idle(connect: Connect, connection: Session) -> Session:
    """A session in a transaction that has an id, and tables of its own."""
    session = connect()
    session.execute("create table public.note (n integer)")
    return session


def prepared(connect: Connect, connection: Session) -> Session:
    """A prepared transaction."""
    if row(connection, "show max_prepared_transactions") == ("0",):
        pytest.skip("the server has no prepared transactions (max_prepared_transactions = 0)")
    session = connect(autocommit=True)
    session.execute("begin; create table public.note (n integer); prepare transaction 'bystander'")
    return session


def undone(connect: Connect, connection: Session) -> Session:
    """One that has undone what it did with pgq."""
    session = connect()
    session.execute("select pg_current_xact_id(); savepoint before")
    enqueue(session, "work")
    session.publish(topic="events", payload=1)
    session.execute("rollback to before")
    return session


BYSTANDERS = [idle, prepared, undone]


def end(session: Session, connection: Session) -> None:
    """End the transaction of a bystander."""
    if session.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        connection.execute("rollback prepared 'bystander'")
    else:
        session.commit()


def _work(connection: Session) -> None:
    enqueue(connection, "work")
    job = claim_one(connection, "work")
    assert connection.ack(job_id=job.job_id, lease_token=job.lease_token)


def rises(connection: Session, clock: Clock) -> bool:
    """Whether the floor follows the time, over some seconds."""
    [begun] = row(connection, "select pgq._clock()")
    for _ in range(40):
        clock.advance("100 milliseconds")
        _work(connection)
    [risen] = row(
        connection,
        "select f.safe_at > %s from pgq.queue_floor as f order by f.seq desc limit 1",
        [begun],
    )
    return bool(risen)


def furnish(connection: Session, clock: Clock) -> Session:
    """A queue and a topic in a database, where others have worked before."""
    connection.create_queue(queue="work", lease="1 hour", retention="2 days")
    connection.create_topic(topic="events", partitions=1, retention="1 day")
    assert rises(connection, clock)
    return connection
