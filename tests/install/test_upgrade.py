"""The script that leads from a released version to the next one, on a changed copy of sql/."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import upgrade
from catalog import describe
from pgq.embedded import Server
from support.install import ROUTES
from support.next_version import AFTER, BEFORE, BY_HAND, SAMPLES, changes_of, release, run

Connection = psycopg.Connection[Any]

# what is left of grants.sql, and what nobody granted
KEPT = """
select has_function_privilege('pgq_app', 'pgq.changes()', 'execute'),
    has_function_privilege('pgq_app', 'pgq.takes_less(text)', 'execute'),
    has_function_privilege('public', 'pgq.inform()', 'execute'),
    has_function_privilege('pgq_app', 'pgq.inform()', 'execute with grant option'),
    has_function_privilege('pgq_app', 'pgq.takes_other(text, text)', 'execute with grant option'),
    has_table_privilege('pgq_app', 'pgq.samples', 'select'),
    has_table_privilege('pgq_app', 'pgq.notes', 'select'),
    has_column_privilege('pgq_app', 'pgq.sample_ids', 'sample_id', 'select'),
    has_function_privilege('public', 'pgq.changes()', 'execute'),
    has_function_privilege('public', 'pgq._figure(bigint)', 'execute')
"""
NOT_GIVEN = """
select has_function_privilege('public', 'pgq.takes_other(text, text)', 'execute'),
    has_function_privilege('pgq_app', 'pgq.comes()', 'execute'),
    has_table_privilege('pgq_app', 'pgq.sample_ids', 'select'),
    to_regprocedure('pgq.goes()') is not null
"""


def _one(connection: Connection, query: str) -> tuple[Any, ...]:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row


@pytest.mark.parametrize("route", ROUTES)
def test_an_upgrade_gives_what_a_fresh_install_gives(
    running: Server, create: Callable[[], str], tree: Path, script: Path, route: str
) -> None:
    """But for what others were granted, which they keep."""
    upgraded, fresh = create(), create()
    ROUTES[route](running, upgraded, tree / "migrations" / f"pgq--{BEFORE}.sql")
    ROUTES[route](running, fresh, tree / "migrations" / f"pgq--{AFTER}.sql")
    with (
        psycopg.connect(running.dsn_for(upgraded), autocommit=True) as connection,
        psycopg.connect(running.dsn_for(fresh)) as other,
    ):
        connection.execute((SAMPLES / "grants.sql").read_bytes())
        connection.execute("insert into pgq.sample values (1, 'unused', 'kept')")
        ROUTES[route](running, upgraded, script)
        assert _one(connection, KEPT) == (True,) * 10
        assert _one(connection, NOT_GIVEN) == (False,) * 4
        assert _one(connection, "select count(*) from pgq.kept_grant") == (0,)
        assert _one(connection, "select * from pgq.sample") == (1, "kept", None)
        if route == "extension":
            assert _granted_in_a_dump(running, upgraded) == 7
        connection.execute("drop owned by pgq_app")
        connection.execute("revoke execute on function pgq.changes, pgq.inform from public")
        assert describe(connection) == describe(other)
        assert _members(connection) == _members(other)


def _granted_in_a_dump(server: Server, database: str) -> int:
    """How much was granted to the role; what counts as the extension's own is left out there."""
    dump = server.run("pg_dump", "--schema-only", database).stdout
    return len(re.findall(r"^GRANT .* TO pgq_app", dump, re.MULTILINE))


def _members(connection: Connection) -> list[tuple[Any, ...]]:
    """What belongs to the extension, and what of it a dump has the contents of."""
    return connection.execute(
        """
        select pg_describe_object(classid, objid, 0) as name from pg_depend
        where refclassid = 'pg_extension'::regclass and deptype = 'e'
        union all
        select 'contents of ' || t::regclass from pg_extension, unnest(extconfig) as t
        order by name
        """
    ).fetchall()


def test_what_fits_is_replaced_and_the_rest_made_anew(script: Path) -> None:
    text = script.read_text()
    dropped = re.findall(r"^drop (?:function|view) pgq[.](\w+);", text, re.MULTILINE)
    assert sorted(dropped) == [
        "_figure", "goes", "inform", "notes", "sample_ids", "samples", "takes_less", "takes_other",
    ]  # fmt: skip
    replaced = re.findall(r"^create or replace (\w+) pgq[.](\w+)", text, re.MULTILINE)
    assert {("function", "version"), ("function", "changes"), ("function", "publish")} < {*replaced}
    assert "view" not in {kind for kind, _ in replaced}
    assert len(replaced) == len(set(replaced))
    assert "cascade" not in text


@pytest.mark.parametrize(
    "place",
    [
        "execute on function pgq.gone",
        "select on table pgq.gone",
        "select (gone) on table pgq.topic",
    ],
)
def test_a_grant_on_what_is_gone_is_forgotten(connection: Connection, place: str) -> None:
    connection.execute("insert into pgq.kept_grant values (%s)", [f"grant {place} to public"])
    assert _one(connection, "select count(*) from pgq.kept_grant") == (0,)


# ---------------------------------------------------------------------------- what is refused


@pytest.fixture
def old(running: Server, create: Callable[[], str], tree: Path) -> Iterator[Connection]:
    """A database with the version before."""
    database = create()
    ROUTES["psql"](running, database, tree / "migrations" / f"pgq--{BEFORE}.sql")
    with psycopg.connect(running.dsn_for(database)) as connection:
        yield connection


def test_a_database_of_another_version(
    running: Server, create: Callable[[], str], tree: Path, script: Path
) -> None:
    database = create()
    ROUTES["psql"](running, database, tree / "migrations" / f"pgq--{AFTER}.sql")
    with pytest.raises(RuntimeError, match=f"from pgq {BEFORE} to {AFTER}, and here is {AFTER}"):
        ROUTES["psql"](running, database, script)


def test_outside_of_a_transaction(
    running: Server, create: Callable[[], str], tree: Path, script: Path
) -> None:
    database = create()
    ROUTES["psql"](running, database, tree / "migrations" / f"pgq--{BEFORE}.sql")
    with pytest.raises(RuntimeError, match="an upgrade has to be one transaction"):
        running.run("psql", "-X", "-d", database, "-f", script)


def test_by_psql_where_it_is_an_extension(
    running: Server, create: Callable[[], str], tree: Path, script: Path
) -> None:
    database = create()
    ROUTES["extension"](running, database, tree / "migrations" / f"pgq--{BEFORE}.sql")
    with pytest.raises(RuntimeError, match="Run alter extension pgq update"):
        ROUTES["psql"](running, database, script)


def test_by_a_role_that_does_not_own_it(old: Connection, script: Path) -> None:
    old.execute("create role pgq_other superuser")
    old.execute("set role pgq_other")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="only the owner of pgq, postg"):
        old.execute(script.read_text().partition("\n")[2].encode())


def test_by_an_ordinary_role_that_owns_it(
    running: Server, create: Callable[[], str], tree: Path, script: Path
) -> None:
    database = create()
    running.run("psql", "-X", "-c", "create role pgq_ordinary login")
    running.run("psql", "-X", "-c", f"grant create on database {database} to pgq_ordinary")
    dsn = running.dsn_for(database).replace("postgres@", "pgq_ordinary@")
    for step in (tree / "migrations" / f"pgq--{BEFORE}.sql", script):
        running.run("psql", "-X", "-q", "-1", "-d", dsn, "-f", step)
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert _one(connection, "select pgq.version()") == (AFTER,)
        connection.execute("drop owned by pgq_ordinary cascade")
    running.run("psql", "-X", "-c", f"drop database {database}")
    running.run("psql", "-X", "-c", "drop role pgq_ordinary")


@contextmanager
def _edited(path: Path, text: str) -> Iterator[None]:
    before = path.read_text()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(before)


def test_what_fails_for_want_of_changes(
    running: Server, create: Callable[[], str], tree: Path, script: Path
) -> None:
    database = create()
    ROUTES["psql"](running, database, tree / "migrations" / f"pgq--{BEFORE}.sql")
    with _edited(script, ""), _edited(changes_of(tree), ""):
        assert run(upgrade, tree) == 0
        with pytest.raises(RuntimeError, match='column "extra" of relation'):
            ROUTES["psql"](running, database, script)


def test_what_was_forgotten_in_changes_shows_in_the_catalog(
    running: Server, create: Callable[[], str], tree: Path, script: Path
) -> None:
    database = create()
    ROUTES["psql"](running, database, tree / "migrations" / f"pgq--{BEFORE}.sql")
    forgetful = BY_HAND.replace("alter table pgq.sample drop column unused;", "")
    with _edited(script, ""), _edited(changes_of(tree), forgetful):
        assert run(upgrade, tree) == 0
        ROUTES["psql"](running, database, script)
    with psycopg.connect(running.dsn_for(database)) as connection:
        assert "column sample.02 unused" in describe(connection)


def test_an_object_of_the_users_that_is_in_the_way(
    running: Server, create: Callable[[], str], tree: Path, script: Path
) -> None:
    """It is named, and nothing has changed."""
    database = create()
    ROUTES["psql"](running, database, tree / "migrations" / f"pgq--{BEFORE}.sql")
    with psycopg.connect(running.dsn_for(database), autocommit=True) as connection:
        connection.execute("create view mine as select pgq.takes_less() as less")
        before = describe(connection)
        with pytest.raises(RuntimeError, match=r"view mine depends on function pgq\.takes_less"):
            ROUTES["psql"](running, database, script)
        assert describe(connection) == before


def test_a_released_script_is_frozen(
    script: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tree / "CHANGELOG.md"
    with _edited(log, log.read_text()), _edited(script, "-- frozen\n"):
        release(tree)
        assert run(upgrade, tree) == 0
        assert script.read_text() == "-- frozen\n"
        script.unlink()
        assert run(upgrade, tree) == 1
    assert "is missing" in capsys.readouterr().err


def test_only_a_released_version_is_led_on(tree: Path, script: Path) -> None:
    log = tree / "CHANGELOG.md"
    with (
        _edited(log, log.read_text().replace("2026-01-01", "unreleased")),
        _edited(script, "-- x\n"),
    ):
        assert run(upgrade, tree) == 0
        assert script.read_text() == "-- x\n"
