"""Null means the default, for every argument that may be left out; the others refuse it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest

from support.calls import GIVEN, Arguments, given, prepare
from support.databases import Databases
from support.house import refuse
from support.session import Session

SIGNATURES = """
    select p.proname, p.proargnames[:p.pronargs], p.pronargs - p.pronargdefaults
    from pg_proc as p
    where p.pronamespace = 'pgq'::regnamespace
        and p.proname !~ '^_'
        and p.pronargs > 0
"""


@pytest.fixture(scope="module")
def session(databases: Databases) -> Iterator[Session]:
    """A database in which the clock stands still, with something of all that there is."""
    with (
        databases.copy("nulls") as dsn,
        Session.connect(dsn, autocommit=True) as connection,
    ):
        connection.execute(
            "create or replace function pgq._clock() returns timestamptz language sql volatile"
            " parallel safe as $$ select '2030-01-01 00:00+00'::timestamptz $$"
        )
        yield connection


@pytest.fixture(scope="module")
def known(session: Session) -> Arguments:
    """What the calls name."""
    return prepare(session)


def signature(session: Session, function: str) -> tuple[list[str], list[str]]:
    """The names of the arguments that are required, and of those that are not."""
    [(_, names, required)] = session.execute(
        f"{SIGNATURES} and p.proname = %s", [function]
    ).fetchall()
    return names[:required], names[required:]


# ----------------------------------------------------------------------------- two calls compared


@contextmanager
def rolled_back(session: Session, level: str) -> Iterator[None]:
    """A transaction that leaves nothing behind, not even in the sequences."""
    numbers = session.execute(
        "select format('pgq.%I', sequencename), last_value from pg_sequences"
        " where schemaname = 'pgq'"
    ).fetchall()
    with session.transaction(force_rollback=True):
        session.execute(f"set transaction isolation level {level}".encode())
        yield
    for name, last in numbers:
        session.execute("select setval(%s, %s, %s)", [name, last or 1, last is not None])


def stored(session: Session) -> dict[str, list[str]]:
    """All rows of all tables, but for what is drawn by lot, and numbers of transactions."""
    columns = session.execute(
        "select c.relname, array_agg(quote_ident(a.attname))"
        " from pg_class as c inner join pg_attribute as a on a.attrelid = c.oid"
        " where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'r' and a.attnum > 0"
        " and not a.attisdropped and a.atttypid not in ('uuid'::regtype, 'xid8'::regtype)"
        " group by c.relname order by c.relname"
    ).fetchall()
    found = {}
    for table, names in columns:
        rows = session.execute(
            f"select row({', '.join(names)})::text from pgq.{table} order by 1".encode()
        ).fetchall()
        found[table] = [text for (text,) in rows]
    return found


def outcome(session: Session, level: str, function: str, arguments: Arguments) -> Any:
    """What a call answers and leaves behind, or its error; it is rolled back."""
    with rolled_back(session, level):
        try:
            with session.transaction():
                answer = session.call(function, **arguments)
        except psycopg.Error as error:
            return error.sqlstate
        if not isinstance(answer, list):
            answer = [answer if isinstance(answer, tuple) else (answer,)]
        told = [[None if isinstance(value, UUID) else value for value in row] for row in answer]
        return told, stored(session)


@pytest.mark.parametrize("level", ["read committed", "repeatable read"])
@pytest.mark.parametrize("function", GIVEN)
def test_null_is_the_default(session: Session, known: Arguments, function: str, level: str) -> None:
    """All that may be left out given as null is the same call as without it."""
    arguments = given(function, known)
    _, optional = signature(session, function)
    nulls = dict.fromkeys(name for name in optional if name not in arguments)
    expected = outcome(session, level, function, arguments)
    if level == "read committed":
        assert not isinstance(expected, str), expected
    assert outcome(session, level, function, {**arguments, **nulls}) == expected


@pytest.mark.parametrize("function", GIVEN)
def test_null_for_what_is_required(session: Session, known: Arguments, function: str) -> None:
    """It is refused as such, never taken for nothing or for everything."""
    arguments = given(function, known)
    required, _ = signature(session, function)
    found = {
        name: outcome(session, "read committed", function, {**arguments, name: None})
        for name in required
    }
    refuse(f"{function}({name} => null): {told}" for name, told in found.items() if told != "22004")


def test_every_function_is_among_these(session: Session) -> None:
    """With what it requires; but for create_roles, whose roles are of the whole server."""
    rows = session.execute(SIGNATURES).fetchall()
    assert {name for name, _, _ in rows} == GIVEN.keys() | {"create_roles"}
    refuse(
        f"{function}: {name}"
        for function, names, required in rows
        for name in names[:required]
        if name not in GIVEN.get(function, {})
    )
