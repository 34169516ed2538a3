"""Roles with different access to one topic and one queue, and a database with something of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql

from support.calls import Arguments, prepare
from support.databases import Databases
from support.session import Session

LEVELS = ("publish", "consume", "monitor", "admin")
STRANGER = "pgq_test_stranger"
VIEWS = (
    "messages",
    "topic_stats",
    "group_lag",
    "queue_stats",
    "dead_letters",
    "archived_jobs",
    "effects",
)


def role_of(level: str) -> str:
    """The role that has this access, and no other."""
    return f"pgq_test_{level}"


@contextmanager
def acting(session: Session, role: str) -> Iterator[None]:
    """A transaction as another role, which leaves nothing behind."""
    with session.transaction(force_rollback=True):
        session.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
        yield


@pytest.fixture(scope="module")
def roles(databases: Databases) -> Iterator[Session]:
    """A database in which all roles may call everything, as far as EXECUTE goes."""
    names = [STRANGER, *map(role_of, LEVELS)]
    with databases.copy("access") as dsn, Session.connect(dsn, autocommit=True) as session:
        for name in names:
            try:
                session.execute(f"create role {name}")
            except psycopg.errors.InsufficientPrivilege:
                pytest.skip("the tests' user may not create roles")
            session.execute(f"grant usage on schema pgq to {name}")
            session.execute(f"grant execute on all functions in schema pgq to {name}")
            for view in VIEWS:
                session.execute(f"grant select on pgq.{view} to {name}")
            session.execute(
                f"grant insert on pgq.publish_rows, pgq.enqueue_rows, pgq.write_chunks to {name}"
            )
        try:
            yield session
        finally:
            for name in names:
                session.execute(f"drop owned by {name}")
                session.execute(f"drop role {name}")


@pytest.fixture(scope="module")
def known(roles: Session) -> Arguments:
    """The topic t and the queues q and followers, with all that calls name, are restricted."""
    roles.execute(
        "create or replace function pgq._clock() returns timestamptz language sql volatile"
        " parallel safe as $$ select '2030-01-01 00:00+00'::timestamptz $$"
    )
    names = prepare(roles)
    for target in ({"topic": "t"}, {"queue": "q"}, {"queue": "followers"}):
        for level in LEVELS:
            roles.grant_access(role=role_of(level), access=level, **target)
    return names
