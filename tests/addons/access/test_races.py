"""Access that changes while others publish and consume."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import IsolationLevel

from support.session import Connect, Session, refused
from support.waiting import blocked

APP = "pgq_test_racer"
LEVELS = (IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE)


@pytest.fixture
def app(connection: Session, connect: Connect) -> Iterator[Session]:
    """A session of a role that may publish to t and consume it."""
    try:
        connection.execute(f"create role {APP}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    connection.execute(f"grant usage on schema pgq to {APP}")
    connection.execute(f"grant execute on all functions in schema pgq to {APP}")
    connection.create_topic(topic="t", partitions=2)
    connection.create_topic(topic="late", partitions=2, deferred=True)
    connection.create_queue(queue="q")
    connection.create_group(topic="t", consumer_group="g")
    for target in ({"topic": "t"}, {"topic": "late"}, {"queue": "q"}):
        for access in ("publish", "consume"):
            connection.grant_access(role=APP, access=access, **target)
    session = connect()
    session.execute(f"set role {APP}")
    session.commit()
    try:
        yield session
    finally:
        session.close()
        connection.execute(f"drop owned by {APP}")
        connection.execute(f"drop role {APP}")


def revoke_all(session: Session) -> None:
    for target in ({"topic": "t"}, {"topic": "late"}, {"queue": "q"}):
        session.revoke_access(role=APP, **target)


def test_a_revoke_waits_for_open_publishers(
    connection: Session, connect: Connect, app: Session
) -> None:
    """So when it has committed, nobody is publishing any more who may not."""
    app.publish(topic="t", payload=1)
    other = connect(autocommit=True)
    revoking = blocked(connection, other, lambda: other.revoke_access(role=APP, topic="t"))
    assert app.publish(topic="t", payload=2).duplicate is False
    app.commit()
    assert revoking.result() is True
    refused("MQ001", app.publish, topic="t", payload=3)


@pytest.mark.parametrize("level", LEVELS)
def test_an_old_snapshot_does_not_bring_it_back(
    level: IsolationLevel, connection: Session, app: Session
) -> None:
    """Who has a snapshot from before a revoke writes nothing: 40001."""
    writes = {
        "publish": {"topic": "t", "payload": 1},
        "publish_batch": {"topic": "t", "payloads": [1], "keys": ["k"]},
        "enqueue": {"queue": "q", "payload": 1},
        "enqueue_batch": {"queue": "q", "payloads": [1]},
    }
    app.isolation_level = level
    for function, arguments in (*writes.items(), ("publish", {"topic": "late", "payload": 1})):
        connection.execute("select 1")
        app.execute("select 1 from pg_class limit 1")
        revoke_all(connection)
        refused("40001", app.call, function, **arguments)
        app.rollback()
        for target in ({"topic": "t"}, {"topic": "late"}, {"queue": "q"}):
            for access in ("publish", "consume"):
                connection.grant_access(role=APP, access=access, **target)


@pytest.mark.parametrize("level", LEVELS)
def test_grants_with_an_old_snapshot(
    level: IsolationLevel, connection: Session, connect: Connect, app: Session
) -> None:
    """What another one has granted or revoked since would be lost: 40001."""
    other = connect()
    other.isolation_level = level
    for attempt in (
        {"function": "grant_access", "role": "public", "access": "monitor", "topic": "t"},
        {"function": "grant_access", "role": "public", "access": "monitor", "topic": "*"},
        {"function": "revoke_access", "role": APP, "queue": "q"},
        {"function": "create_topic", "topic": "new", "restricted": True},
        {"function": "alter_topic", "topic": "t", "restricted": False},
        {"function": "alter_topic", "topic": "t", "partitions": 4},
    ):
        arguments = dict(attempt)
        function = arguments.pop("function")
        other.execute("select 1 from pg_class limit 1")
        connection.grant_access(role=APP, access="monitor", topic="t")
        connection.revoke_access(role=APP, access="monitor", topic="t")
        refused("40001", other.call, function, **arguments)
        other.rollback()


def test_all_topics_and_a_new_one(connection: Session, connect: Connect, app: Session) -> None:
    """A topic that is restricted while a grant on * is under way has that grant, too."""
    granter, maker = connect(), connect()
    granter.grant_access(role=APP, access="publish", topic="*")
    making = blocked(connection, maker, lambda: maker.create_topic(topic="new", restricted=True))
    granter.commit()
    making.result()
    maker.commit()
    assert app.publish(topic="new", payload=1).duplicate is False
    app.rollback()


def test_two_changes_at_once(connection: Session, connect: Connect, app: Session) -> None:
    """They are one after the other, in whichever order they name things."""
    first, second = connect(), connect()
    first.grant_access(role="public", access="monitor", topic="t")
    granting = blocked(
        connection,
        second,
        lambda: second.grant_access(role="public", access="monitor", queue="q"),
    )
    first.grant_access(role="public", access="monitor", queue="q")
    first.commit()
    granting.result()
    second.grant_access(role="public", access="publish", topic="t")
    second.commit()
    assert app.publish(topic="t", payload=1).duplicate is False
    app.rollback()


@pytest.mark.parametrize("way", ["grant_access", "revoke_access"])
@pytest.mark.parametrize("target", [{"topic": "t"}, {"queue": "q"}])
def test_what_is_dropped_meanwhile(
    connection: Session, connect: Connect, app: Session, way: str, target: dict[str, str]
) -> None:
    """It waits for the drop, and is refused: no grant is left, which would be one on all."""
    dropper, other = connect(), connect(autocommit=True)
    dropper.call("drop_queue" if "queue" in target else "drop_topic", **target)
    changing = blocked(
        connection, other, lambda: other.call(way, role=APP, access="consume", **target)
    )
    dropper.commit()
    refused("MQ002" if "queue" in target else "MQ001", changing.result)
    everywhere = "select from pgq.access_grant where topic_id is null and queue_id is null"
    assert connection.execute(everywhere).fetchall() == []
