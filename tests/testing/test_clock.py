"""The clock of a database, moved for a test and put back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pgq import Client
from pgq.testing import move_clock, reset_clock
from support.session import Connect

Connection = psycopg.Connection[Any]

DEFINITION = "select pg_get_functiondef('pgq._clock()'::regprocedure)"


def ahead(connection: Connection) -> timedelta:
    row = connection.execute("select pgq._clock() - clock_timestamp()").fetchone()
    assert row is not None
    return timedelta(seconds=round(row[0].total_seconds()))


def definition(connection: Connection) -> str:
    row = connection.execute(DEFINITION).fetchone()
    assert row is not None
    return str(row[0])


def test_moves_add_up_and_are_seen_by_all(connection: Connection, connect: Connect) -> None:
    other = connect(autocommit=True)
    client = Client(other)
    client.admin.create_queue("mail")
    client.enqueue("mail", {}, delay=timedelta(hours=2))
    assert move_clock(connection, timedelta(hours=1)) == timedelta(hours=1)
    assert client.claim_job("mail") == []
    assert move_clock(Client(connection), 3600) == timedelta(hours=2)
    assert move_clock(connection, timedelta(microseconds=-1)) < timedelta(hours=2)
    assert ahead(other) == timedelta(hours=2)
    move_clock(connection, 1)
    assert len(client.claim_job("mail")) == 1


def test_reset_leaves_what_was_installed(connection: Connection) -> None:
    before = definition(connection)
    move_clock(connection, timedelta(days=-400))
    assert ahead(connection) == timedelta(days=-400)
    assert definition(connection) != before
    reset_clock(connection)
    assert ahead(connection) == timedelta(0)
    assert definition(connection) == before
    move_clock(connection, 5)
    assert move_clock(connection, -5) == timedelta(0)
    assert definition(connection) == before


def test_a_rollback_undoes_it(connection: Connection, connect: Connect) -> None:
    before = definition(connection)
    inner = connect()
    move_clock(inner, timedelta(hours=1))
    assert ahead(inner) == timedelta(hours=1)
    assert ahead(connection) == timedelta(0)
    inner.rollback()
    assert definition(inner) == before


def test_it_takes_the_owner(connection: Connection, connect: Connect) -> None:
    role = f"no_owner_{connection.info.dbname}"
    connection.execute(f"create role {role}".encode())
    try:
        connection.execute(f"grant usage, create on schema pgq to {role}".encode())
        other = connect(autocommit=True)
        other.execute(f"set role {role}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be owner"):
            move_clock(other, 1)
    finally:
        connection.execute(f"drop owned by {role}".encode())
        connection.execute(f"drop role {role}".encode())


@pytest.mark.parametrize("by", ["1 hour", True, None])
def test_bad_input(connection: Connection, by: Any) -> None:
    with pytest.raises(TypeError, match=r"by is .*: give a timedelta or seconds"):
        move_clock(connection, by)
