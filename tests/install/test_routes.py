"""Three ways to install and upgrade, one result, and nothing left after removing it."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from build import migration_path
from catalog import GOLDEN, describe
from pgq.embedded import Server
from pgq.migrate import migrate
from support.house import MIGRATIONS
from support.install import ROUTES
from upgrade import released_versions, upgrade_path


@pytest.mark.parametrize("route", ROUTES)
def test_catalog_is_the_one_that_is_committed(
    server: Server, create_database: Callable[[], str], route: str
) -> None:
    """After a fresh install, and after an upgrade from each released version."""
    for before in [*released_versions(), None]:
        database = create_database()
        if before:
            ROUTES[route](server, database, MIGRATIONS / f"pgq--{before}.sql")
        ROUTES[route](server, database, upgrade_path(before) if before else None)
        with psycopg.connect(server.dsn_for(database)) as connection:
            assert describe(connection, bodies=False) == GOLDEN.read_text()


def test_all_routes_give_the_same_catalog(
    server: Server, create_database: Callable[[], str]
) -> None:
    found = {}
    for route, install in ROUTES.items():
        database = create_database()
        install(server, database)
        with psycopg.connect(server.dsn_for(database)) as connection:
            found[route] = describe(connection)
    assert found["psql"] == found["extension"]
    assert found["python"] == found["extension"]
    assert "body pgq.claim_offsets" in found["extension"]


@pytest.mark.parametrize("route", ROUTES)
def test_an_ordinary_owner_of_the_database_can_install(
    server: Server, empty_database: str, route: str
) -> None:
    role = f"owner_of_{empty_database}"
    server.run("psql", "-X", "-c", f"create role {role} login")
    try:
        server.run("psql", "-X", "-c", f"alter database {empty_database} owner to {role}")
        dsn = server.dsn_for(empty_database).replace("postgres@", f"{role}@")
        if route == "python":
            migrate(dsn)
        elif route == "psql":
            server.run("psql", "-X", "-q", "-1", "-d", dsn, "-f", migration_path())
        else:
            server.run("psql", "-X", "-d", dsn, "-c", "create extension pgq")
        with psycopg.connect(dsn) as connection:
            connection.execute("select pgq.create_topic(topic => 'readings')")
            connection.execute("select pgq.publish(topic => 'readings', payload => '1')")
    finally:
        server.run("psql", "-X", "-c", f"drop database {empty_database}")
        server.run("psql", "-X", "-c", f"drop role {role}")


@pytest.mark.parametrize(
    ("route", "removal"),
    [
        ("extension", "drop extension pgq cascade"),
        ("psql", "drop schema pgq cascade"),
        ("python", "drop schema pgq cascade"),
    ],
)
def test_removing_leaves_nothing(
    server: Server, empty_database: str, route: str, removal: str
) -> None:
    with psycopg.connect(server.dsn_for(empty_database), autocommit=True) as connection:
        before = _objects(connection)
        ROUTES[route](server, empty_database)
        connection.execute("select pgq.create_topic(topic => 'readings')")
        connection.execute("select pgq.create_queue(queue => 'work')")
        connection.execute("select pgq.publish(topic => 'readings', payload => '1')")
        connection.execute("select pgq.enqueue(queue => 'work', payload => '1')")
        connection.execute("select pgq.cleanup()")
        assert _objects(connection) != before
        connection.execute(removal.encode())
        assert _objects(connection) == before


def _objects(connection: psycopg.Connection[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Every object, whatever its kind, that is not PostgreSQL's own; roles as well."""
    return connection.execute(
        """
        select 'relation', oid::regclass::text from pg_class where oid >= 16384
        union all select 'function', oid::regprocedure::text from pg_proc where oid >= 16384
        union all select 'type', oid::regtype::text from pg_type where oid >= 16384
        union all select 'schema', nspname::text from pg_namespace where oid >= 16384
        union all select 'extension', extname::text from pg_extension where oid >= 16384
        union all select 'operator', oid::regoperator::text from pg_operator where oid >= 16384
        union all select 'cast', oid::text from pg_cast where oid >= 16384
        union all select 'event trigger', evtname::text from pg_event_trigger
        union all select 'role', rolname::text from pg_roles
        order by 1, 2
        """
    ).fetchall()


@pytest.mark.parametrize("route", ROUTES)
def test_a_foreign_schema_pgq_is_left_alone(
    server: Server, empty_database: str, route: str
) -> None:
    with psycopg.connect(server.dsn_for(empty_database), autocommit=True) as connection:
        # what Skytools' PgQ begins with, as far as names go
        connection.execute(
            """
            create schema pgq;
            create table pgq.queue (queue_id serial primary key, queue_name text not null);
            create function pgq.version() returns text language sql as $$ select '3.5.1' $$
            """
        )
        before = _objects(connection)
        with pytest.raises(RuntimeError, match=r"Skytools|not made by this package"):
            ROUTES[route](server, empty_database)
        assert _objects(connection) == before


def test_a_second_install_by_psql_changes_nothing(server: Server, empty_database: str) -> None:
    ROUTES["psql"](server, empty_database)
    with psycopg.connect(server.dsn_for(empty_database), autocommit=True) as connection:
        before = describe(connection)
        with pytest.raises(
            RuntimeError,
            match=r"pgq [\d.]+ is already installed.*\n.*HINT:  The same version needs nothing",
        ):
            ROUTES["psql"](server, empty_database)
        assert describe(connection) == before
