"""list_cleanup_failures: who sees what cleanup cannot do, and messages that cannot be shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.failing import failing, many_queues
from support.session import Connect, Session, row

ADMIN, OTHER = "pgq_test_admin", "pgq_test_other"


@pytest.fixture
def roles(connection: Session) -> Iterator[Session]:
    """A role that administers the queue that fails, and one that may only call the functions."""
    for role in (ADMIN, OTHER):
        connection.execute(f"create role {role}".encode())
        connection.execute(f"grant usage on schema pgq to {role}".encode())
        connection.execute(
            f"grant execute on function pgq.cleanup, pgq.list_cleanup_failures to {role}".encode()
        )
    try:
        yield connection
    finally:
        connection.execute("reset role")
        for role in (ADMIN, OTHER):
            connection.execute(f"drop owned by {role}; drop role {role}".encode())


def shown_to(session: Session, role: str | None) -> list[tuple[str | None, str | None]]:
    """Targets and messages."""
    if role is not None:
        session.execute(f"set role {role}".encode())
    found = [(each.target, each.error) for each in session.list_cleanup_failures()]
    session.execute("reset role")
    return found


@pytest.mark.parametrize("restricted", [False, True])
def test_who_sees_the_message(roles: Session, clock: Clock, restricted: bool) -> None:
    """Who was granted access as an administrator, or has made what is not restricted."""
    bad, _ = many_queues(roles, clock, 2)
    if restricted:
        roles.grant_access(role=ADMIN, access="admin", queue="q1")
    else:
        roles.execute("update pgq.queue set made_by = %s where queue = 'q1'", [ADMIN])
    # a topic of that name is another object
    roles.create_topic(topic="q1")
    roles.grant_access(role=OTHER, access="admin", topic="q1")
    warnings: list[tuple[Any, Any]] = []
    roles.add_notice_handler(
        lambda said: warnings.append((said.message_primary, said.message_detail))
    )
    with failing(roles, "delete on pgq.job", f"old.queue_id = {bad}"):
        named = {None: "q1", ADMIN: "q1", OTHER: "(restricted)" if restricted else "q1"}
        for role, name in named.items():
            if role is not None:
                roles.execute(f"set role {role}".encode())
            done = [tuple(each) for each in roles.cleanup()]
            roles.execute("reset role")
            assert ("failed", f"jobs of {name}: 22P02", 1) in done
            message, detail = warnings.pop()
            assert warnings == []
            assert f'"jobs of {name}"' in message
            assert ("secret" in detail) == (role != OTHER)
            [(target, error)] = shown_to(roles, role)
            assert target == name
            assert (error is None) == (role == OTHER)
            assert error is None or error.startswith("secret. ")


def test_a_segment_is_of_the_owner(roles: Session, clock: Clock) -> None:
    """Who administers one queue sees nothing of what belongs to all."""
    many_queues(roles, clock, 2)
    roles.grant_access(role=ADMIN, access="admin", queue="q1")
    roles.execute("alter function pgq._clean_jobs rename to pgq_test_gone")
    try:
        roles.cleanup()
    finally:
        roles.execute("alter function pgq.pgq_test_gone rename to _clean_jobs")
    [(target, error)] = shown_to(roles, None)
    assert target is None
    assert "_clean_jobs" in str(error)
    assert shown_to(roles, ADMIN) == [(None, None)]


def test_a_message_that_the_client_cannot_have(
    connection: Session, connect: Connect, clock: Clock
) -> None:
    """Its encoding has no such character: the call works, and another client can read it."""
    bad, _ = many_queues(connection, clock, 2)
    narrow = connect(autocommit=True, client_encoding="latin1")
    said: list[Any] = []
    narrow.add_notice_handler(lambda each: said.append((each.sqlstate, each.message_detail)))
    with failing(connection, "delete on pgq.job", f"old.queue_id = {bad}", "secret →"):
        assert ("failed", "jobs of q1: 22P02", 1) in [tuple(each) for each in narrow.cleanup()]
    assert said == [("22P02", "SQLSTATE 22P02; pgq.list_cleanup_failures tells more.")]
    [failure] = connection.list_cleanup_failures()
    assert failure.error.startswith("secret →. ")
    [failure] = narrow.list_cleanup_failures()
    assert failure.error.startswith("secret ?. ")
    assert row(connection, "select count(*) from pgq.job") == (1,)


@pytest.mark.parametrize("message", ["", "x" * 100_000])
def test_a_message_that_is_odd(connection: Session, clock: Clock, message: str) -> None:
    bad, _ = many_queues(connection, clock, 2)
    with failing(connection, "delete on pgq.job", f"old.queue_id = {bad}", message):
        connection.cleanup()
    [failure] = connection.list_cleanup_failures()
    assert (failure.target, failure.error_code) == ("q1", "22P02")
    assert failure.error.startswith(f"{message}. "[:2000])
    assert len(failure.error) <= 2000
    assert row(connection, "select count(*) from pgq.job") == (1,)


def test_two_calls_at_once(connection: Session, connect: Connect, clock: Clock) -> None:
    """None waits for the other, and there is one failure."""
    bad, _ = many_queues(connection, clock, 2)
    other = connect()
    with failing(connection, "delete on pgq.job", f"old.queue_id = {bad}"):
        other.execute("set lock_timeout = 0")
        other.cleanup()
        connection.cleanup()
        other.commit()
        [failure] = connection.list_cleanup_failures()
        assert failure.target == "q1"
        clock.advance("1 minute")
        connection.cleanup()
        assert len(connection.list_cleanup_failures()) == 1
        assert row(connection, "select count(*) from pgq.cleanup_failure") == (1,)
    connection.cleanup()
    assert row(connection, "select count(*) from pgq.cleanup_failure") == (0,)


def test_no_table_is_open(roles: Session) -> None:
    roles.execute(f"set role {OTHER}".encode())
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        roles.execute("select error from pgq.cleanup_failure")


def test_the_metric(connection: Session, clock: Clock) -> None:
    """A figure for each part that fails, and none where all works."""

    def figures() -> list[tuple[dict[str, str], float]]:
        return [
            (each.labels, each.value)
            for each in connection.metrics()
            if each.name == "pgq_cleanup_failures"
        ]

    bad, worse, _ = many_queues(connection, clock, 3)
    assert figures() == []
    with failing(connection, "delete on pgq.job", f"old.queue_id in ({bad}, {worse})"):
        connection.cleanup()
        assert figures() == [({"part": "jobs"}, 2)]
    connection.cleanup()
    assert figures() == []
