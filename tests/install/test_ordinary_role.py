"""A role that may create schemas in one database, and nothing else, is enough for everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from build import migration_path
from catalog import describe
from pgq.embedded import Server
from pgq.migrate import migrate
from support.calls import GIVEN, given, prepare
from support.house import refuse
from support.session import Session

pytestmark = pytest.mark.slow


@pytest.fixture
def role(server: Server, create_database: Callable[[], str]) -> Iterator[str]:
    """A role without any right but that to log in."""
    name = "pgq_ordinary"
    server.run("psql", "-X", "-c", f"create role {name} login")
    yield name
    for database in _databases(server):
        server.run("psql", "-X", "-d", database, "-c", f"drop owned by {name} cascade")
    server.run("psql", "-X", "-c", f"drop role {name}")


def _databases(server: Server) -> list[str]:
    shown = server.run(
        "psql", "-X", "-At", "-c", "select datname from pg_database where datname ~ '^install_'"
    )
    return shown.stdout.split()


def _may_create(server: Server, database: str, role: str) -> str:
    server.run("psql", "-X", "-c", f"grant create on database {database} to {role}")
    return server.dsn_for(database).replace("postgres@", f"{role}@")


def _by_psql(server: Server, dsn: str) -> None:
    server.run("psql", "-X", "-q", "-1", "-d", dsn, "-f", migration_path())


def _by_python(server: Server, dsn: str) -> None:
    migrate(dsn)


@pytest.mark.parametrize("install", [_by_psql, _by_python])
def test_all_is_done_by_it(
    server: Server,
    create_database: Callable[[], str],
    role: str,
    tmp_path: Path,
    install: Callable[[Server, str], None],
) -> None:
    """It installs, calls every function, cleans up, dumps and restores."""
    dsn = _may_create(server, create_database(), role)
    install(server, dsn)
    with Session.connect(dsn, autocommit=True) as session:
        assert session.execute(
            "select rolsuper or rolcreatedb or rolcreaterole or rolreplication or exists ("
            " select from pg_database where datname = current_database() and datdba = r.oid)"
            " from pg_roles as r where rolname = current_user"
        ).fetchone() == (False,)
        known = prepare(session)
        wrong = []
        for name in GIVEN:
            with session.transaction(force_rollback=True):
                try:
                    session.call(name, **given(name, known))
                except psycopg.Error as error:
                    wrong.append(f"{name}: {error}")
        refuse(wrong)
        session.cleanup()
        session.execute("update pgq.segment set opened_at = opened_at - interval '1 year'")
        for _ in range(4):
            session.cleanup()
        before = _contents(session)
        catalog = describe(session)

    dump = tmp_path / "dump"
    server.run("pg_dump", "-d", dsn, "--format=custom", "--schema=pgq", "-f", dump)
    restored = _may_create(server, create_database(), role)
    server.run("pg_restore", "--exit-on-error", "--jobs=2", "-d", restored, dump)
    with Session.connect(restored, autocommit=True) as session:
        assert describe(session) == catalog
        assert _contents(session) == before
        session.publish(topic="t", payload=1)
        session.cleanup()


def _contents(session: Session) -> list[Any]:
    return [
        session.list_topics(),
        session.list_groups(),
        session.list_queues(),
        session.execute("select * from pgq.dead_letters").fetchall(),
        session.execute("select count(*) from pgq.messages").fetchall(),
        session.execute("select count(*) from pgq.job").fetchall(),
    ]


def test_without_the_right_it_is_refused(
    server: Server, create_database: Callable[[], str], role: str
) -> None:
    """By PostgreSQL's own error, with nothing left behind."""
    dsn = server.dsn_for(create_database()).replace("postgres@", f"{role}@")
    with pytest.raises(
        psycopg.errors.InsufficientPrivilege, match="permission denied for database"
    ):
        migrate(dsn)
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select to_regnamespace('pgq')").fetchone() == (None,)
