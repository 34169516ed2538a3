"""A role sets something up while its access is taken away: one of both sees the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

from support.session import Connect, Session, refused
from support.waiting import blocked

EVE = "pgq_test_eve"
LEVELS = (
    IsolationLevel.READ_COMMITTED,
    IsolationLevel.REPEATABLE_READ,
    IsolationLevel.SERIALIZABLE,
)
TICK = {"schedule": "s", "payload": 1, "every": "1 hour"}
LETTERS = {"topic": "src", "consumer_group": "g", "max_attempts": 1, "dead_letter_topic": "t"}
SETS_UP: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "subscribe, topic": (
        "subscribe",
        {"subscription": "s", "topic": "t", "queue": "q"},
        {"topic": "t"},
    ),
    "subscribe, queue": (
        "subscribe",
        {"subscription": "s", "topic": "t", "queue": "q"},
        {"queue": "q"},
    ),
    "create_schedule, topic": ("create_schedule", {**TICK, "topic": "t"}, {"topic": "t"}),
    "create_schedule, queue": ("create_schedule", {**TICK, "queue": "q"}, {"queue": "q"}),
    "alter_schedule": ("alter_schedule", {"schedule": "own", "topic": "t"}, {"topic": "t"}),
    "resume_schedule": ("resume_schedule", {"schedule": "paused"}, {"queue": "q"}),
    "create_group": ("create_group", LETTERS, {"topic": "t"}),
    "alter_group": ("alter_group", {**LETTERS, "consumer_group": "own"}, {"topic": "t"}),
}


@pytest.fixture
def eve(connection: Session, connect: Connect) -> Iterator[Session]:
    """A session of a role with a grant of its own for the topic t and the queue q."""
    try:
        connection.execute(f"create role {EVE}")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("the tests' user may not create roles")
    connection.execute(f"grant usage on schema pgq to {EVE}")
    connection.execute(f"grant execute on all functions in schema pgq to {EVE}")
    session = connect()
    session.execute(f"set role {EVE}")
    session.commit()
    connection.create_topic(topic="t", partitions=2)
    connection.create_topic(topic="src", partitions=1)
    connection.create_topic(topic="other", partitions=1)
    connection.create_queue(queue="q")
    for target in ({"topic": "t"}, {"queue": "q"}):
        connection.grant_access(role=EVE, access="publish", **target)
        connection.grant_access(role=EVE, access="consume", **target)
    session.create_schedule(schedule="own", topic="other", payload=1, every="1 hour")
    session.create_schedule(schedule="paused", queue="q", payload=1, every="1 hour")
    session.pause_schedule(schedule="paused")
    session.create_group(topic="src", consumer_group="own")
    session.commit()
    try:
        yield session
    finally:
        session.close()
        connection.execute(f"drop owned by {EVE}")
        connection.execute(f"drop role {EVE}")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", SETS_UP)
def test_it_is_set_up_first(
    way: str, level: IsolationLevel, connection: Session, connect: Connect, eve: Session
) -> None:
    """The revoke waits, and then sees it, or has a snapshot that is too old."""
    function, arguments, target = SETS_UP[way]
    owner = connect()
    owner.isolation_level = level
    owner.execute("select 1 from pg_class limit 1")
    eve.call(function, **arguments)
    revoking = blocked(connection, owner, lambda: owner.revoke_access(role=EVE, **target))
    eve.commit()
    refused("2BP01" if level == LEVELS[0] else "40001", revoking.result)
    owner.rollback()
    refused("2BP01", owner.revoke_access, role=EVE, **target)
    owner.rollback()
    assert owner.revoke_access(role=EVE, **target, end_dependents=True) is True
    owner.commit()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", SETS_UP)
def test_access_is_taken_first(
    way: str, level: IsolationLevel, connection: Session, connect: Connect, eve: Session
) -> None:
    """What is set up waits, and then is refused."""
    function, arguments, target = SETS_UP[way]
    owner = connect()
    eve.isolation_level = level
    eve.execute("select 1 from pg_class limit 1")
    assert owner.revoke_access(role=EVE, **target) is True
    setting_up = blocked(connection, eve, lambda: eve.call(function, **arguments))
    owner.commit()
    hidden = "MQ009" if function == "resume_schedule" else "MQ002" if "queue" in target else "MQ001"
    refused(hidden if level == LEVELS[0] else "40001", setting_up.result)
    eve.rollback()
    refused(hidden, eve.call, function, **arguments)
    eve.rollback()
