"""python -m pgq migrate: what it runs, what it refuses, and several at once."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg import IsolationLevel

import pgq.migrate
from build import version
from pgq.embedded import Server
from pgq.migrate import Migration, MigrationError, available_versions, migrate, plan
from support.command import PGQ
from support.waiting import wait_until_blocked


def test_installs_and_then_finds_nothing_to_do(server: Server, empty_database: str) -> None:
    dsn = server.dsn_for(empty_database)
    assert migrate(dsn) == Migration(None, version(), (f"pgq--{version()}",))
    assert migrate(dsn) == Migration(version(), version(), ())


def test_joins_the_transaction_of_a_connection(server: Server, empty_database: str) -> None:
    with psycopg.connect(server.dsn_for(empty_database)) as connection:
        connection.execute("set search_path = public, pg_catalog")
        migrate(connection)
        shown = connection.execute("show search_path").fetchone()
        assert shown == ("public, pg_catalog",)
        connection.rollback()
        assert connection.execute("select to_regnamespace('pgq')").fetchone() == (None,)


def test_racing_migrators_all_succeed(server: Server, empty_database: str) -> None:
    dsn = server.dsn_for(empty_database)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: migrate(dsn), range(8)))
    assert {result.after for result in results} == {version()}
    assert sum(len(result.scripts) for result in results) == 1


def test_a_migrator_waits_for_the_one_before(server: Server, empty_database: str) -> None:
    dsn = server.dsn_for(empty_database)
    with (
        psycopg.connect(dsn) as first,
        psycopg.connect(dsn) as second,
        psycopg.connect(dsn, autocommit=True) as observer,
        ThreadPoolExecutor(1) as pool,
    ):
        first.execute("select 1")  # a transaction that stays open
        migrate(first)
        waiting = pool.submit(migrate, second)
        wait_until_blocked(observer, second.info.backend_pid)
        first.commit()
        assert waiting.result(timeout=10) == Migration(version(), version(), ())


def test_refuses_where_the_extension_is_installed(server: Server, empty_database: str) -> None:
    server.run("psql", "-X", "-d", empty_database, "-c", "create extension pgq")
    dsn = server.dsn_for(empty_database)
    assert migrate(dsn) == Migration(version(), version(), ())  # it is current
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "create or replace function pgq.version() returns text language sql immutable"
            " parallel safe as $$ select '0.9.0' $$"
        )
    with pytest.raises(MigrationError, match="as an extension"):
        migrate(dsn)
    refused = subprocess.run(
        [*PGQ, "topics", "list", "--database", dsn], capture_output=True, text=True, check=False
    )
    assert refused.stderr.endswith("run alter extension pgq update\n")


@pytest.mark.parametrize("may_call", [False, True])
def test_another_role_is_told_the_owner(
    server: Server,
    empty_database: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    may_call: bool,
) -> None:
    role = "pgq_other_role"
    dsn = server.dsn_for(empty_database)
    migrate(dsn)
    (tmp_path / f"pgq--{version()}--99.0.0.sql").write_text("select 1;\n")
    monkeypatch.setattr(pgq.migrate, "_folder", lambda: tmp_path)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"create role {role} login".encode())
        try:
            if may_call:
                connection.execute(f"grant usage on schema pgq to {role}".encode())
                connection.execute(f"grant execute on function pgq.version to {role}".encode())
            said = f"the schema pgq belongs to role postgres, and this is role {role}: run pgq mig"
            with pytest.raises(MigrationError, match=said):
                migrate(dsn.replace("postgres@", f"{role}@"))
        finally:
            connection.execute(f"drop owned by {role}".encode())
            connection.execute(f"drop role {role}".encode())


def test_refuses_a_stale_snapshot(server: Server, empty_database: str) -> None:
    with psycopg.connect(server.dsn_for(empty_database)) as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        with pytest.raises(MigrationError, match="read committed"):
            migrate(connection)


def test_a_database_whose_default_is_serializable(server: Server, empty_database: str) -> None:
    server.run(
        "psql", "-X", "-c",
        f"alter database {empty_database} set default_transaction_isolation = 'serializable'",
    )  # fmt: skip
    assert migrate(server.dsn_for(empty_database)).after == version()


def test_refuses_to_go_back(
    server: Server, empty_database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dsn = server.dsn_for(empty_database)
    migrate(dsn)
    (tmp_path / "pgq--0.0.1.sql").write_text("select 1;\n")
    monkeypatch.setattr(pgq.migrate, "_folder", lambda: tmp_path)
    with pytest.raises(MigrationError, match=r"newer than 0\.0\.1"):
        migrate(dsn)


def test_runs_a_chain_in_one_transaction(
    server: Server, empty_database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base = pgq.migrate._folder() / f"pgq--{version()}.sql"
    (tmp_path / base.name).write_text(base.read_text())
    upgrade = (
        "\\echo Upgrading \\set ON_ERROR_STOP on\n"
        "create or replace function pgq.version() returns text language sql immutable"
        " as $$ select '99.0.0' $$;\n"
    )
    (tmp_path / f"pgq--{version()}--99.0.0.sql").write_text(upgrade)
    broken = tmp_path / "pgq--99.0.0--99.1.0.sql"
    broken.write_text("select 1 / 0;\n")
    monkeypatch.setattr(pgq.migrate, "_folder", lambda: tmp_path)
    dsn = server.dsn_for(empty_database)
    assert available_versions() == (version(), "99.0.0", "99.1.0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(dsn)
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select to_regnamespace('pgq')").fetchone() == (None,)

    broken.unlink()
    chain = (f"pgq--{version()}", f"pgq--{version()}--99.0.0")
    assert migrate(dsn) == Migration(None, "99.0.0", chain)


def test_tells_postgrest_to_look_again(server: Server, empty_database: str) -> None:
    dsn = server.dsn_for(empty_database)
    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute("listen pgrst")
        migrate(dsn)
        notice = next(listener.notifies(timeout=5))
        assert (notice.channel, notice.payload) == ("pgrst", "reload schema")


@pytest.mark.parametrize(
    ("before", "after", "chain"),
    [
        (None, "2.0", ["pgq--2.0"]),
        (None, "2.1", ["pgq--2.0", "pgq--2.0--2.1"]),
        ("1.0", "2.1", ["pgq--1.0--1.1", "pgq--1.1--2.0", "pgq--2.0--2.1"]),
        ("1.1", "2.1", ["pgq--1.1--2.0", "pgq--2.0--2.1"]),
        ("2.1", "2.1", []),
        (None, "1.10", ["pgq--1.10"]),
    ],
)
def test_plan(before: str | None, after: str, chain: list[str]) -> None:
    names = [
        "pgq--1.0",
        "pgq--1.0--1.1",
        "pgq--1.10",
        "pgq--1.1--2.0",
        "pgq--2.0",
        "pgq--2.0--2.1",
    ]
    assert plan(names, before, after) == tuple(chain)


def test_plan_without_a_way() -> None:
    with pytest.raises(MigrationError, match=r"no scripts lead from the installed version 0\.9"):
        plan(["pgq--1.0"], "0.9", "1.0")
