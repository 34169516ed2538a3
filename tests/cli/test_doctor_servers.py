"""doctor on servers of its own: one that is as it should be, and one that is set up badly."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgq.__main__ import main
from pgq.embedded import Server
from pgq.migrate import migrate

pytestmark = pytest.mark.slow

Doctor = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def doctor(capfd: pytest.CaptureFixture[str]) -> Doctor:
    def examine(server: Server, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
        capfd.readouterr()
        status = main(["doctor", "--json", "--database", server.dsn, *arguments])
        out, err = capfd.readouterr()
        assert err == ""
        return status, json.loads(out)["findings"]

    return examine


@pytest.fixture
def slot(start_server: Callable[..., Server]) -> Iterator[tuple[Server, psycopg.Connection[Any]]]:
    server = start_server(settings={"wal_level": "logical"})
    migrate(server.dsn)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(
            "alter database postgres set idle_in_transaction_session_timeout = '1min'"
        )
        yield server, connection


def test_a_server_as_it_should_be(
    slot: tuple[Server, psycopg.Connection[Any]], doctor: Doctor
) -> None:
    server, connection = slot
    assert doctor(server, "--strict") == (0, [])
    connection.execute("select pg_create_logical_replication_slot('forgotten', 'pgoutput')")
    status, [finding] = doctor(server)
    assert status == 0
    assert finding["what"].startswith("logical replication slot forgotten is used by nobody")
    assert doctor(server, "--strict")[0] == 1
    connection.execute("select pg_drop_replication_slot('forgotten')")
    assert doctor(server) == (0, [])


def test_settings_of_the_server(start_server: Callable[..., Server], doctor: Doctor) -> None:
    wrong = {
        "fsync": "off",
        "full_page_writes": "off",
        "autovacuum": "off",
        "track_counts": "off",
        "max_connections": "10",
        "max_locks_per_transaction": "10",
        "max_wal_senders": "0",
    }
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        place = Path(folder) / "server"
        server = start_server(place)
        migrate(server.dsn)
        assert doctor(server)[0] == 0
        server.stop()
        server = start_server(place, settings=wrong)
        status, findings = doctor(server)
        server.stop()
    assert status == 1
    told = {one["what"]: one["fix"] for one in findings if one["check"] == "settings"}
    for name in ("fsync", "full_page_writes", "autovacuum", "track_counts"):
        assert told[f"{name} is off"].startswith(f"alter system set {name} = on;")
    [locks] = [one for one in findings if one["check"] == "locks"]
    assert locks["what"].startswith("there is room for 100 locks")
    assert "max_locks_per_transaction = 128" in locks["fix"]


def test_a_standby(start_server: Callable[..., Server], doctor: Doctor) -> None:
    """It reads only, and can be looked at like any other."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        place = Path(folder) / "server"
        server = start_server(place)
        migrate(server.dsn)
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("select pg_create_physical_replication_slot('unused', true)")
        server.stop()
        [data] = [
            path.parent
            for path in place.rglob("PG_VERSION")
            if path.parent.name != "base" and (path.parent / "postgresql.conf").exists()
        ]
        (data / "standby.signal").touch()
        shutil.chown(data / "standby.signal", data.owner(), data.group())
        server = start_server(place)
        status, findings = doctor(server)
        server.stop()
    assert (status, {one["check"] for one in findings}) == (0, {"replication slots", "settings"})
