"""metrics: what holds back cleanup and vacuum, by name."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from support.metrics import figures, key_of
from support.session import Connect, Session
from support.waiting import wait_until

NAME = 'a "test" \\ of holders'


def held(connection: Session, kind: str, name: str) -> dict[str, tuple[dict[str, str], float]]:
    """The figures of one holder, by metric."""
    return {
        metric: (dict(labels), value)
        for (metric, labels), value in figures(connection).items()
        if ("kind", kind) in labels and ("name", name) in labels
    }


def test_the_oldest_transaction(connect: Connect, connection: Session) -> None:
    holder = connect(application_name=NAME)
    holder.execute("select pg_current_xact_id()")
    later = connect(application_name="later")
    connection.execute("select pg_current_xact_id()")
    later.execute("select pg_current_xact_id()")
    found = held(connection, "transaction", NAME)
    labels, seconds = found["pgq_held_seconds"]
    assert labels["pid"] == str(holder.pid)
    assert labels["role"] == holder.info.user
    assert labels["database"] == holder.info.dbname
    assert seconds > 0
    assert found["pgq_held_transactions"][1] >= 2
    assert held(connection, "transaction", "later") == {}
    holder.rollback()
    assert held(connection, "transaction", NAME) == {}


def test_a_snapshot_counts_as_well(connect: Connect, connection: Session) -> None:
    holder = connect(application_name=NAME, isolation_level=psycopg.IsolationLevel.REPEATABLE_READ)
    holder.execute("select 1")
    assert {*held(connection, "transaction", NAME)} == {
        "pgq_held_seconds",
        "pgq_held_transactions",
    }


def test_a_prepared_transaction(connect: Connect, connection: Session) -> None:
    if connection.execute("show max_prepared_transactions").fetchone() == ("0",):
        pytest.skip("the server allows no prepared transactions")
    session = connect()
    session.execute("select pg_current_xact_id()")
    session.execute(f"prepare transaction '{NAME}'")
    session.rollback()
    try:
        found = held(connection, "prepared transaction", NAME)
        assert {*found} == {"pgq_held_seconds", "pgq_held_transactions"}
        assert found["pgq_held_seconds"][0]["database"] == connection.info.dbname
    finally:
        connection.execute(f"rollback prepared '{NAME}'")


@pytest.fixture
def slot(connection: Session) -> Iterator[str]:
    """A replication slot that keeps write-ahead log, and no dead rows."""
    name = "pgq_test_metrics"
    try:
        connection.execute("select pg_create_physical_replication_slot(%s, true)", [name])
    except psycopg.Error as error:
        pytest.skip(str(error))
    yield name
    connection.execute("select pg_drop_replication_slot(%s)", [name])


def test_a_replication_slot(connection: Session, slot: str) -> None:
    connection.execute("select pg_logical_emit_message(false, 'x', repeat('x', 100000))")
    retained = key_of("pgq_slot_retained_bytes", name=slot, database="", active="false")
    # as soon as it has been written, which the commits here do not wait for
    wait_until(lambda: figures(connection)[retained] > 100_000)
    assert held(connection, "replication slot", slot) == {}
