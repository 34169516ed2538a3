"""The script that leads from a released version to the next one, on a changed copy of sql/."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest

import build
import upgrade
from catalog import describe
from pgq.embedded import Server
from support.house import ROOT
from support.install import ROUTES

Connection = psycopg.Connection[Any]

BEFORE, AFTER = "7.0.0", "7.1.0"

_numbers = count(1)

SAMPLES = Path(__file__).parent / "upgrade"
BY_HAND = (SAMPLES / "changes.sql").read_text()

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


def _write_version(tree: Path, version: str, name: str) -> None:
    """Make the tree one of a version that is not released yet."""
    (tree / "pgq.control").write_text(
        re.sub(r"'\d+\.\d+\.\d+'", f"'{version}'", (ROOT / "pgq.control").read_text())
    )
    own = tree / "sql" / "shared" / "version.sql"
    own.write_text(re.sub(r"'\d+\.\d+\.\d+'", f"'{version}'", own.read_text()))
    for part in ("", "_privileges"):
        shutil.copyfile(SAMPLES / f"{name}{part}.sql", tree / "sql" / f"sample{part}.sql")
    log = tree / "CHANGELOG.md"
    log.write_text(f"## {version} (unreleased)\n" + (log.read_text() if log.exists() else ""))
    assert _run(build, tree) == 0


def _run(tool: ModuleType, tree: Path, *arguments: str) -> int:
    """Run a tool as if the tree were this repository; the rest of the run still means this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "ROOT", tree)
        patch.setattr(build, "CONTROL", tree / "pgq.control")
        patch.setattr(build, "MANIFEST", tree / "sql" / "install.sql")
        patch.setattr("sys.argv", [f"{tool.__name__}.py", *arguments])
        status: int = tool.main()
    return status


def _release(tree: Path) -> None:
    log = tree / "CHANGELOG.md"
    log.write_text(log.read_text().replace("(unreleased)", "(2026-01-01)"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose version 7.0.0 is released, and 7.1.0 under way."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "sql", tree / "sql")
    shutil.copyfile(SAMPLES / "both.sql", tree / "sql" / "both.sql")
    manifest = tree / "sql" / "install.sql"
    text = manifest.read_text().replace(
        "\\ir functions.sql\n", "\\ir functions.sql\n\\ir sample.sql\n\\ir both.sql\n"
    )
    manifest.write_text(f"{text}\\ir sample_privileges.sql\n")
    _write_version(tree, BEFORE, "before")
    _release(tree)
    _write_version(tree, AFTER, "after")
    return tree


def _changes(tree: Path) -> Path:
    return tree / "migrations" / "changes" / AFTER / "01-sample.sql"


@pytest.fixture(scope="module")
def script(tree: Path) -> Path:
    """The script from one to the other."""
    changes = _changes(tree)
    changes.parent.mkdir(parents=True)
    changes.write_text(BY_HAND)
    assert _run(upgrade, tree) == 0
    return tree / "migrations" / f"pgq--{BEFORE}--{AFTER}.sql"


@pytest.fixture(scope="module")
def running(tree: Path, script: Path) -> Iterator[Server]:
    """A server that knows both versions and the way between them."""
    with Server(settings={"fsync": "off"}) as server:
        server.install_extension(
            tree / "pgq.control", sorted((tree / "migrations").glob("pgq--*.sql"))
        )
        server.run("psql", "-X", "-c", "create role pgq_app")
        yield server


@pytest.fixture
def create(running: Server) -> Callable[[], str]:
    """Make an empty database and return its name."""

    def database() -> str:
        name = f"upgrade_{next(_numbers)}"
        running.run("psql", "-X", "-c", f"create database {name}")
        return name

    return database


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
        "_figure", "goes", "inform", "sample_ids", "samples", "takes_less", "takes_other",
    ]  # fmt: skip
    replaced = re.findall(r"^create or replace (?:function|view) pgq[.](\w+)", text, re.MULTILINE)
    assert replaced == ["version", "changes", "notes"]


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


@contextmanager
def _edited(path: Path, text: str) -> Iterator[None]:
    before = path.read_text()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(before)


@pytest.mark.parametrize(
    ("by_hand", "complaint"),
    [
        (
            BY_HAND.replace("alter table pgq.sample drop column unused;", ""),
            "-column sample.02 unused",
        ),
        ("", 'it fails: column "extra" of relation'),
    ],
)
def test_what_is_not_written_by_hand_is_named(
    script: Path, tree: Path, capsys: pytest.CaptureFixture[str], by_hand: str, complaint: str
) -> None:
    with _edited(script, ""), _edited(_changes(tree), by_hand):
        assert _run(upgrade, tree) == 1
        assert script.read_text() == ""
    told = capsys.readouterr().err
    assert f"belongs into migrations/changes/{AFTER} " in told
    assert complaint in told


@pytest.mark.slow  # the script is made again
def test_a_stale_script_is_noticed(
    script: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(upgrade, tree, "--check") == 0
    with _edited(script, "-- stale\n"):
        assert _run(upgrade, tree, "--check") == 1
        assert script.read_text() == "-- stale\n"
    assert "run make build" in capsys.readouterr().err


def test_a_released_script_is_frozen(
    script: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tree / "CHANGELOG.md"
    with _edited(log, log.read_text()), _edited(script, "-- frozen\n"):
        _release(tree)
        assert _run(upgrade, tree) == 0
        assert script.read_text() == "-- frozen\n"
        script.unlink()
        assert _run(upgrade, tree) == 1
    assert "is missing" in capsys.readouterr().err


def test_only_a_released_version_is_led_on(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tree / "CHANGELOG.md"
    with _edited(log, log.read_text().replace("2026-01-01", "unreleased")):
        assert _run(upgrade, tree) == 1
    assert f"pgq--{BEFORE}.sql is of no released version" in capsys.readouterr().err
