"""Helpers give nothing away: who may only look up names in the schema gets no figures by them.

Views need functions that their readers may call; what these tell has to depend on the right to the
view, or on what the reader could know without it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import InsufficientPrivilege

from support.house import refuse
from support.session import Session

HARMLESS = {"_clock"}
"""Helpers that tell what anybody knows."""

VIEWS = ["group_lag", "topic_stats", "queue_stats", "dead_letters", "archived_jobs", "effects"]

# for each type what would bring something to light, if anything does
GUESSES = {
    "bigint": ["1", "2", "4"],
    "integer": ["0", "1", "3"],
    "smallint": ["0"],
    "text": ["'readings'", "'averages'", "'work'"],
    "text[]": ["array['readings']"],
    "bigint[]": ["array[1, 2, 3]"],
    "integer[]": ["array[0, 1]"],
    "timestamp with time zone": ["'-infinity'", "'infinity'", "now()"],
    "interval": ["'1 hour'"],
    "boolean": ["true"],
    "uuid": ["gen_random_uuid()"],
    "jsonb": ["'1'"],
}


@pytest.fixture
def onlooker(connection: Session) -> Iterator[str]:
    """A role that may use the schema, in a database with messages, jobs and finished jobs."""
    for statement in (
        "pgq.create_topic('readings', partitions => 2)",
        "pgq.create_group('readings', 'averages')",
        "pgq.publish_batch('readings', array['1', '2', '3']::jsonb[], partition => 0)",
        "pgq.publish_batch('readings', array['1', '2', '3']::jsonb[], partition => 1)",
        "pgq.create_queue('work', max_attempts => 1)",
        "pgq.enqueue_batch('work', array['1', '2', '3']::jsonb[])",
    ):
        connection.execute(f"select * from {statement}".encode())
    for finish in ("ack", "nack"):
        connection.execute(
            "select pgq.begin_effect(job_id, lease_token, 'mail'),"
            f" pgq.{finish}(job_id, lease_token) from pgq.claim_job('work')"
        )
    connection.execute("create role pgq_stranger")
    connection.execute("grant usage on schema pgq to pgq_stranger")
    yield "pgq_stranger"
    connection.execute("reset role")
    connection.execute("drop owned by pgq_stranger")
    connection.execute("drop role pgq_stranger")


def open_helpers(connection: Session, role: str) -> list[tuple[Any, ...]]:
    """The helpers that a role may call, with the types of their arguments."""
    return connection.execute(
        "select p.proname, array(select format_type(t, null)"
        " from unnest(p.proargtypes::oid[]) with ordinality as a (t, place) order by place)"
        " from pg_proc as p where p.pronamespace = 'pgq'::regnamespace"
        " and starts_with(p.proname, '_') and has_function_privilege(%s, p.oid, 'execute')",
        [role],
    ).fetchall()


def calls(name: str, types: list[str]) -> Iterator[str]:
    """Calls of a function with all the arguments that may tell something."""
    guesses = [GUESSES.get(kind, ["null"]) for kind in types]
    for values in itertools.islice(itertools.product(*guesses), 500):
        arguments = ", ".join(f"{value}::{kind}" for value, kind in zip(values, types, strict=True))
        yield f"select * from pgq.{name}({arguments})"


def test_helpers_tell_a_stranger_nothing(connection: Session, onlooker: str) -> None:
    """42501, or an answer that is empty."""
    told = []
    for name, types in open_helpers(connection, onlooker):
        if name in HARMLESS:
            continue
        for statement in calls(name, types):
            with connection.transaction(force_rollback=True):
                connection.execute(sql.SQL("set local role {}").format(sql.Identifier(onlooker)))
                try:
                    rows = connection.execute(statement.encode()).fetchall()
                except InsufficientPrivilege:
                    continue
                except psycopg.Error as error:
                    told.append(f"{statement}: {error.sqlstate}")
                    continue
            if any(value is not None for row in rows for value in row):
                told.append(f"{statement}: {rows}")
    refuse(told[:5])


def test_the_clock_is_all_that_is_harmless(connection: Session, onlooker: str) -> None:
    """It tells the time, and takes nothing that could be used to ask for more."""
    harmless = [(name, types) for name, types in open_helpers(connection, onlooker)]
    assert [types for name, types in harmless if name in HARMLESS] == [[]] * len(HARMLESS)


@pytest.mark.parametrize("view", VIEWS)
def test_who_has_a_view_gets_all_its_figures(connection: Session, onlooker: str, view: str) -> None:
    """The same as the owner, columns that need a helper too."""
    steady = {"queue_stats": "queue, ready, leased, delayed, expired, dead, paused"}.get(view, "*")
    query = f"select {steady} from pgq.{view} order by 1, 2, 3"
    expected = connection.execute(query).fetchall()
    assert expected
    connection.execute(f"grant select on pgq.{view} to {onlooker}")
    connection.execute(f"set role {onlooker}")
    assert connection.execute(query).fetchall() == expected
    if view == "topic_stats":
        assert connection.execute(
            "select published_last_minute from pgq.topic_stats"
        ).fetchall() == [(3,), (3,)]


@pytest.mark.parametrize("view", [*VIEWS, "messages"])
def test_a_view_is_closed_without_a_grant(connection: Session, onlooker: str, view: str) -> None:
    connection.execute(f"set role {onlooker}")
    with pytest.raises(InsufficientPrivilege):
        connection.execute(f"select from pgq.{view}")
