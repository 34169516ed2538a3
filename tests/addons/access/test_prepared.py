"""Transactions that a role prepares, and others end when its access is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from support.session import Connect, Session, refused, row
from support.waiting import blocked

APP = "pgq_test_preparer"
GID = "pgq_test_access"


@pytest.fixture
def house(connection: Session, connect: Connect) -> Iterator[Session]:
    """A database, and a role that may publish to all in it and consume it."""
    if row(connection, "show max_prepared_transactions") == ("0",):
        pytest.skip("the server has no prepared transactions (max_prepared_transactions = 0)")
    try:
        connection.execute(f"create role {APP}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    connection.execute(f"grant usage on schema pgq to {APP}")
    connection.execute(f"grant execute on all functions in schema pgq to {APP}")
    connection.create_topic(topic="t", partitions=1)
    connection.create_topic(topic="late", partitions=1, deferred=True)
    connection.create_queue(queue="q", lease="1 hour")
    connection.create_group(topic="t", consumer_group="g")
    connection.publish(topic="t", payload=0)
    connection.enqueue(queue="q", payload=0)
    for target in ({"topic": "t"}, {"topic": "late"}, {"queue": "q"}):
        for access in ("publish", "consume"):
            connection.grant_access(role=APP, access=access, **target)
    try:
        yield connection
    finally:
        connection.rollback()
        for (gid,) in connection.execute("select gid from pg_prepared_xacts").fetchall():
            if gid.startswith(GID):
                connection.execute(f"rollback prepared '{gid}'")
        connection.execute(f"drop owned by {APP}")
        connection.execute(f"drop role {APP}")


def prepared(connect: Connect, *calls: Callable[[Session], Any], gid: str = GID) -> list[Any]:
    """What the calls of the role answer; their transaction is prepared, and the session gone."""
    with connect() as session:
        session.execute(f"set local role {APP}")
        answers = [call(session) for call in calls]
        session.execute(f"prepare transaction '{gid}'")
        session.execute("rollback")
    return answers


def test_a_revoke_waits_for_a_prepared_publish(house: Session, connect: Connect) -> None:
    """As for an open transaction: it is ended first, by whoever may, and then nobody publishes."""
    prepared(connect, lambda s: s.publish(topic="t", payload=1))
    other, app = connect(autocommit=True), connect(autocommit=True)
    app.execute(f"set role {APP}")
    revoking = blocked(house, other, lambda: other.revoke_access(role=APP, topic="t"))
    house.execute(f"commit prepared '{GID}'")
    assert revoking.result() is True
    assert row(house, "select count(*) from pgq.messages where topic = 't'") == (2,)
    refused("MQ001", app.publish, topic="t", payload=2)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_what_was_written_before_the_revoke(ending: str, house: Session, connect: Connect) -> None:
    """An enqueue and a deferred publish hold up no revoke; what they wrote counts when it commits.

    Only the one who has prepared it, or a superuser, may end it.
    """
    prepared(
        connect,
        lambda s: s.enqueue(queue="q", payload=1),
        lambda s: s.publish(topic="late", payload=1),
    )
    assert house.revoke_access(role=APP, queue="q") is True
    assert house.revoke_access(role=APP, topic="late") is True
    with connect(autocommit=True) as app:
        app.execute("create role pgq_test_passer_by")
        try:
            app.execute("set role pgq_test_passer_by")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                app.execute(f"commit prepared '{GID}'")
            app.execute("reset role")
        finally:
            app.execute("drop role pgq_test_passer_by")
        app.execute(f"set role {APP}")
        app.execute(f"{ending} prepared '{GID}'")
        refused("MQ002", app.enqueue, queue="q", payload=2)
        refused("MQ001", app.publish, topic="late", payload=2)
    house.assign_offsets(topic="late")
    arrived = 1 if ending == "commit" else 0
    assert row(house, "select count(*) from pgq.messages where topic = 'late'") == (arrived,)
    assert len(house.claim_job(queue="q", max_jobs=9)) == 1 + arrived


def test_a_prepared_claim(house: Session, connect: Connect) -> None:
    """The job is nobody else's meanwhile; then its token is good, though access is gone."""
    [[job]] = prepared(connect, lambda s: s.claim_job(queue="q"))
    assert house.revoke_access(role=APP, queue="q") is True
    assert house.claim_job(queue="q") == []
    house.execute(f"commit prepared '{GID}'")
    with connect(autocommit=True) as app:
        app.execute(f"set role {APP}")
        refused("MQ002", app.claim_job, queue="q")
        assert app.get_job(job_id=job.job_id) is None
        assert app.ack(job_id=job.job_id, lease_token=job.lease_token) is True


def test_a_prepared_claim_that_is_rolled_back(house: Session, connect: Connect) -> None:
    """It has not happened: another one gets the job, and the token is good for nothing."""
    [[job]] = prepared(connect, lambda s: s.claim_job(queue="q"))
    house.revoke_access(role=APP, queue="q")
    house.execute(f"rollback prepared '{GID}'")
    assert house.ack(job_id=job.job_id, lease_token=job.lease_token) is False
    [again] = house.claim_job(queue="q")
    assert (again.job_id, again.attempt) == (job.job_id, 1)


def test_a_prepared_read(house: Session, connect: Connect) -> None:
    """A revoke does not wait for readers; the position moves with the commit."""
    [[message]] = prepared(connect, lambda s: s.consume(topic="t", consumer_group="g"))
    assert house.revoke_access(role=APP, topic="t") is True
    house.execute(f"commit prepared '{GID}'")
    assert house.consume(topic="t", consumer_group="g") == []
    assert message.log_offset == 1


def test_a_prepared_change_of_access(house: Session, connect: Connect) -> None:
    """It is in force when it is committed; until then nobody changes access or publishes there."""
    with connect() as session:
        session.revoke_access(role=APP, topic="t")
        session.execute(f"prepare transaction '{GID}'")
        session.execute("rollback")
    app = connect(autocommit=True)
    app.execute(f"set role {APP}")
    assert app.enqueue(queue="q", payload=1).duplicate is False
    publishing = blocked(house, app, lambda: refused("MQ001", app.publish, topic="t", payload=1))
    house.execute(f"commit prepared '{GID}'")
    publishing.result()
    assert [g.topic for g in house.list_access() if g.topic is not None] == ["late", "late"]


def test_what_cannot_be_prepared(house: Session, connect: Connect) -> None:
    """PostgreSQL refuses notices and temporary objects, and nothing of it stays."""
    house.alter_topic(topic="t", notify=True)
    for call in (
        lambda s: s.publish(topic="t", payload=1),
        lambda s: s.execute("create temp table mine as select 1"),
    ):
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            prepared(connect, call)
    assert house.execute("select from pg_prepared_xacts").fetchall() == []
    assert row(house, "select count(*) from pgq.messages where topic = 't'") == (1,)


def test_who_prepares_what_is_refused(house: Session, connect: Connect) -> None:
    """A refused call fails its transaction, so that there is nothing to prepare."""
    house.revoke_access(role=APP, queue="q")
    with connect() as session:
        session.execute(f"set local role {APP}")
        refused("MQ002", session.enqueue, queue="q", payload=1)
        session.execute(f"prepare transaction '{GID}'")  # a rollback, says PostgreSQL
    assert house.execute("select from pg_prepared_xacts").fetchall() == []
    assert len(house.claim_job(queue="q", max_jobs=9)) == 1


def test_a_session_that_listens(house: Session, connect: Connect) -> None:
    """It can prepare what has asked for access, as a role and as superuser; it goes on hearing."""
    with connect(autocommit=True) as session:
        session.execute("listen elsewhere")
        for role in (APP, "none"):
            session.execute(f"set role {role}")
            session.execute("begin")
            session.publish(topic="t", payload=2)
            session.enqueue(queue="q", payload=2)
            session.consume(topic="t", consumer_group="g")
            session.claim_job(queue="q")
            session.execute(f"prepare transaction '{GID}'")
            session.execute(f"rollback prepared '{GID}'")
        assert row(session, "select pg_listening_channels()") == ("elsewhere",)


def test_a_statement_of_the_name_that_is_tried(house: Session, connect: Connect) -> None:
    """The caller is found by a statement that is not there; one that is there changes nothing."""
    with connect(autocommit=True) as session:
        session.execute(f"set role {APP}")
        session.execute('prepare "pgq: who calls" as select 1')
        session.publish(topic="t", payload=2)
        session.execute("set role none")
        session.execute('prepare "pgq: who calls" as select 1')
        session.publish(topic="t", payload=2)
