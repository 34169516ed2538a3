"""plpgsql_check over every function, on a server that has the extension."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from pgq.embedded import Server
from pgq.embedded._binaries import system_folders
from support.house import load_pgq, refuse
from support.pg_cron import STAND_IN


@pytest.fixture
def checked_database(
    connection: psycopg.Connection[Any], start_server: Callable[..., Server]
) -> Iterator[psycopg.Connection[Any]]:
    """A database with pgq and plpgsql_check: the test's own, or one of another major's server."""
    if _has_extension(connection):
        _prepare(connection)
        yield connection
        return
    for folder in system_folders():
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
                    _prepare(other)
                    yield other
                    return
    pytest.skip("no server here has the extension plpgsql_check (postgresql-NN-plpgsql-check)")


def _prepare(connection: psycopg.Connection[Any]) -> None:
    """With all the leaves that statements name, of which an installation makes the first 16."""
    connection.execute("create extension plpgsql_check")
    connection.execute(STAND_IN.read_bytes())
    connection.execute("select pgq._create_leaf(n) from generate_series(16, 47) as n")


def _has_extension(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute(
        "select exists (select from pg_available_extensions where name = 'plpgsql_check')"
    ).fetchone()
    return bool(row and row[0])


BUILD_STATEMENTS = r"pgq\.(_merge_settings|_standard_settings|_write_queue|_fit_jobs)\("
"""Functions that build statements from names of declared settings or numbers of segments."""


def _is_meant(signature: str, level: str, message: str, detail: str | None) -> bool:
    """What plpgsql_check warns of and the house allows."""
    return (
        (level == "security" and re.match(BUILD_STATEMENTS, signature) is not None)
        # after an endless loop
        or message == "control reached end of function without RETURN"
        # a state is filled step by step, with nulls for what is not known yet
        or message == "too few attributes for composite variable"
        # the statements for later leaves fill a variable of a named type
        or message == "cannot determinate a result of dynamic SQL"
        or detail == "cannot to determine result of dynamic SQL"
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
    refuse(
        finding
        for finding in findings
        if not _is_meant(finding[0], finding[2], finding[3], finding[4])
    )


def _qualified_targets(definition: str) -> str:
    """The same with ``on conflict (x)`` as ``on conflict ((t.x))``: only columns can be meant."""

    def qualified(target: re.Match[str]) -> str:
        tables = re.findall(r"insert into pgq\.(\w+)(?: as (\w+))?", definition[: target.start()])
        name, alias = tables[-1]
        columns = (f"({alias or name}.{column})" for column in target[1].split(", "))
        return f"on conflict ({', '.join(columns)})"

    return re.sub(r"on conflict \((\w+(?:, \w+)*)\)", qualified, definition)


def _ambiguous(
    database: psycopg.Connection[Any], change: Callable[[str], str] = str
) -> list[tuple[str, str]]:
    """What changed bodies say without a qualifier that may be a variable as well as a column."""
    database.execute("set plpgsql.variable_conflict = 'error'")
    definitions = database.execute(
        """
        select pg_get_functiondef(p.oid)
        from pg_proc as p
        join pg_language as l on l.oid = p.prolang
        where p.pronamespace = 'pgq'::regnamespace
        and l.lanname = 'plpgsql'
        """
    ).fetchall()
    for (definition,) in definitions:
        without = definition.replace("#variable_conflict use_column", "")
        database.execute(change(without).encode())
    return database.execute(
        """
        select distinct p.proname, f.message
        from pg_proc as p
        join pg_language as l on l.oid = p.prolang
        cross join plpgsql_check_function_tb(p.oid, fatal_errors => false) as f
        where p.pronamespace = 'pgq'::regnamespace
        and l.lanname = 'plpgsql'
        and p.prorettype <> 'trigger'::regtype
        and f.level = 'error'
        """
    ).fetchall()


def test_no_variable_is_taken_for_a_column(checked_database: psycopg.Connection[Any]) -> None:
    """Where both have a name each is written with what it is of."""
    refuse(_ambiguous(checked_database, _qualified_targets))


def test_columns_win_only_where_a_conflict_names_one(
    checked_database: psycopg.Connection[Any],
) -> None:
    """The target of ``on conflict`` cannot be qualified; elsewhere PostgreSQL's default refuses."""
    declared = checked_database.execute(
        """
        select p.proname
        from pg_proc as p
        where p.pronamespace = 'pgq'::regnamespace
        and p.prosrc like '%#variable_conflict use_column%'
        """
    ).fetchall()
    needed = {name for name, _ in _ambiguous(checked_database)}
    assert {name for [name] in declared} == needed


def test_a_variable_that_is_taken_for_a_column_is_found(
    checked_database: psycopg.Connection[Any],
) -> None:
    checked_database.execute(
        """
        create function pgq._faulty() returns bigint language plpgsql as $$
        #variable_conflict use_column
        declare
            topic text := 'a';
            topic_id bigint;
        begin
            select t.topic_id into topic_id from pgq.topic as t where t.topic = topic;
            return topic_id;
        end
        $$
        """
    )
    found = _ambiguous(checked_database, _qualified_targets)
    assert ("_faulty", 'column reference "topic" is ambiguous') in found


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
