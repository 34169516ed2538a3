"""plpgsql_check over every function, on a server that has the extension."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from pgq.embedded import Server, _system_folders
from support import load_pgq, refuse


@pytest.fixture
def checked_database(
    connection: psycopg.Connection[Any], start_server: Callable[..., Server]
) -> Iterator[psycopg.Connection[Any]]:
    """A database with pgq and plpgsql_check: the test's own, or one of another major's server."""
    if _has_extension(connection):
        connection.execute("create extension plpgsql_check")
        yield connection
        return
    for folder in _system_folders():
        # beside the programs, or as Debian has it in /usr/share/postgresql/NN
        places = (
            folder.parent / "share",
            folder.parents[3] / "share/postgresql" / folder.parent.name,
        )
        if any(next(place.glob("**/plpgsql_check.control"), None) for place in places):
            server = start_server(bin_dir=folder, settings={"fsync": "off"})
            with psycopg.connect(server.dsn, autocommit=True) as other:
                if _has_extension(other):
                    load_pgq(conninfo=server.dsn)
                    other.execute("create extension plpgsql_check")
                    yield other
                    return
    pytest.skip("no server here has the extension plpgsql_check (postgresql-NN-plpgsql-check)")


def _has_extension(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute(
        "select exists (select from pg_available_extensions where name = 'plpgsql_check')"
    ).fetchone()
    return bool(row and row[0])


def _is_meant(message: str, detail: str | None) -> bool:
    """What plpgsql_check warns of and the house allows."""
    return (
        # after an endless loop
        message == "control reached end of function without RETURN"
        # a state is filled step by step, with nulls for what is not known yet
        or message == "too few attributes for composite variable"
        # the statements for later leaves fill a variable of a named type
        or message == "cannot determinate a result of dynamic SQL"
        or (
            message == "target type is different type than source type"
            and (detail or "").startswith('cast "text" value')
        )
    )


def test_bodies(checked_database: psycopg.Connection[Any]) -> None:
    findings = checked_database.execute(
        """
        select p.oid::regprocedure::text, f.lineno, f.level, f.message, f.detail, f.hint
        from pg_proc as p
        join pg_language as l on l.oid = p.prolang
        cross join plpgsql_check_function_tb(
            p.oid, security_warnings => true, compatibility_warnings => true
        ) as f
        where p.pronamespace = 'pgq'::regnamespace
        and l.lanname = 'plpgsql'
        and p.prorettype <> 'trigger'::regtype
        """
    ).fetchall()
    refuse(finding for finding in findings if not _is_meant(finding[3], finding[4]))


def test_the_check_finds_a_fault(checked_database: psycopg.Connection[Any]) -> None:
    checked_database.execute(
        """
        create function public.faulty() returns void language plpgsql as $$
        begin
            perform no_such_column from pgq.topic;
        end
        $$
        """
    )
    found = checked_database.execute(
        "select message from plpgsql_check_function_tb('public.faulty()')"
    ).fetchall()
    assert any("no_such_column" in message for (message,) in found)
