"""doctor beside real slots and a real standby: what they hold back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus

from pgq.__main__ import main
from pgq.embedded import Server
from pgq.migrate import migrate
from support.waiting import wait_until

Doctor = Callable[..., list[dict[str, Any]]]

SWITCHES = """
do $$
begin
    while pg_wal_lsn_diff(pg_current_wal_lsn(), '{}') <= {} loop
        perform pg_logical_emit_message(false, 'test', '');
        perform pg_switch_wal();
    end loop;
end
$$
"""
TRANSACTIONS = """
do $$
begin
    for n in 1..100100 loop
        perform pg_current_xact_id();
        commit;
    end loop;
end
$$
"""
GIGABYTE = 1 << 30


@pytest.fixture
def primary(start_server: Callable[..., Server]) -> Server:
    server = start_server(
        settings={
            "fsync": "off",
            "synchronous_commit": "off",
            "wal_init_zero": "off",  # so that a gigabyte takes no room
            "wal_sender_timeout": "0",
            "max_wal_senders": "4",
        }
    )
    migrate(server.dsn)
    return server


@pytest.fixture
def connection(primary: Server) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(primary.dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def doctor(primary: Server, capfd: pytest.CaptureFixture[str]) -> Doctor:
    def examine(*checks: str) -> list[dict[str, Any]]:
        capfd.readouterr()
        main(["doctor", "--json", "--database", primary.dsn])
        out, err = capfd.readouterr()
        assert err == ""
        return [one for one in json.loads(out)["findings"] if one["check"] in checks]

    return examine


def slot_at(connection: psycopg.Connection[Any], name: str) -> str:
    row = connection.execute(
        "select restart_lsn::text from pg_replication_slots where slot_name = %s", [name]
    ).fetchone()
    assert row is not None
    return str(row[0])


def test_a_slot_that_keeps_a_gigabyte(connection: psycopg.Connection[Any], doctor: Doctor) -> None:
    """Unused, it is an error from there on; in use, as long as its consumer does not read."""
    connection.execute("select pg_create_physical_replication_slot('unused', true)")
    begun = slot_at(connection, "unused")
    connection.execute(SWITCHES.format(begun, GIGABYTE - (64 << 20)).encode())
    [one] = doctor("replication slots")
    assert one["severity"] == "warning"
    connection.execute(SWITCHES.format(begun, GIGABYTE).encode())
    [one] = doctor("replication slots")
    assert one["severity"] == "error"
    assert one["what"].startswith(
        "physical replication slot unused is used by nobody; it keeps 1,0"
    )
    assert "pg_drop_replication_slot('unused')" in one["fix"]
    connection.execute("select pg_drop_replication_slot('unused')")
    assert doctor("replication slots") == []


def test_a_slot_whose_consumer_is_behind(
    primary: Server, connection: psycopg.Connection[Any], doctor: Doctor
) -> None:
    """Its connection is there, but reads nothing."""
    connection.execute("select pg_create_physical_replication_slot('slow', true)")
    begun = slot_at(connection, "slow")
    receiver = psycopg.pq.PGconn.connect(f"{primary.dsn}?replication=true".encode())
    try:
        result = receiver.exec_(f"START_REPLICATION SLOT slow PHYSICAL {begun}".encode())
        assert result.status == ExecStatus.COPY_BOTH, receiver.error_message
        assert doctor("replication slots") == []
        connection.execute(SWITCHES.format(begun, GIGABYTE).encode())
        [one] = doctor("replication slots")
        assert one["severity"] == "warning"
        process = receiver.backend_pid
        assert one["what"].startswith(f"physical replication slot slow (process {process}) is 1,0")
        assert one["what"].endswith(" MB behind")
        assert one["fix"] == "look at its consumer"
    finally:
        receiver.finish()


def test_a_standby_that_holds_rows(
    primary: Server,
    connection: psycopg.Connection[Any],
    start_standby: Callable[..., Server],
    doctor: Doctor,
) -> None:
    """Its feedback alone is no finding, with a slot or without one; a snapshot there is."""
    standby = start_standby(primary, hot_standby_feedback="on", wal_receiver_status_interval="1s")
    with psycopg.connect(standby.dsn, autocommit=True) as below:

        def told(check: str, holder: str) -> None:
            """A snapshot on the standby is told once it is old, and until it ends."""
            wait_until(lambda: connection.execute(holder).fetchone())
            assert doctor("sessions", "replication slots") == []
            below.execute("begin isolation level repeatable read")
            below.execute("select 1")
            connection.execute(TRANSACTIONS)
            [one] = doctor("sessions", "replication slots")
            assert (one["check"], one["severity"]) == (check, "warning")
            row = connection.execute(holder).fetchone()
            assert row is not None
            assert f"process {row[0]}" in one["what"]
            assert re.search(r"10\d,\d{3} transactions", one["what"])
            assert "hot_standby_feedback = off there" in one["fix"]
            below.execute("rollback")
            connection.execute("select pg_current_xact_id()")
            wait_until(lambda: doctor("sessions", "replication slots") == [])

        told(
            "sessions",
            "select pid from pg_stat_activity"
            " where backend_type = 'walsender' and backend_xmin is not null",
        )
        connection.execute("select pg_create_physical_replication_slot('reader')")
        below.execute("alter system set primary_slot_name = 'reader'")
        below.execute("select pg_reload_conf()")
        told(
            "replication slots",
            "select active_pid from pg_replication_slots where active and xmin is not null",
        )
