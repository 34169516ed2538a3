"""Databases that refuse for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from support.waiting import wait_until
from support.working import kill_backends

__all__ = ["read_only", "read_only_at_once"]


@contextmanager
def read_only(observer: psycopg.Connection[Any], name: str) -> Iterator[None]:
    """Sessions that begin in the block refuse to write, and keep to that behind it.

    Connections of that name are ended at its begin; those of the observer write on.
    """
    database = sql.Identifier(observer.info.dbname)
    observer.execute(
        sql.SQL("alter database {} set default_transaction_read_only = on").format(database)
    )
    try:
        kill_backends(observer, name)
        yield
    finally:
        observer.execute(
            sql.SQL("alter database {} reset default_transaction_read_only").format(database)
        )


def _default(observer: psycopg.Connection[Any]) -> str:
    """What the configuration says, whatever the session has set."""
    found = observer.execute(
        "select reset_val from pg_settings where name = 'default_transaction_read_only'"
    ).fetchone()
    assert found is not None
    return str(found[0])


@contextmanager
def read_only_at_once(observer: psycopg.Connection[Any]) -> Iterator[None]:
    """All sessions of the server refuse to write in the block, but the observer's."""
    observer.execute("set default_transaction_read_only = off")
    observer.execute("alter system set default_transaction_read_only = on")
    try:
        observer.execute("select pg_reload_conf()")
        # all sessions are told at once, and look before their next command
        wait_until(lambda: _default(observer) == "on", what="for the server to read its settings")
        yield
    finally:
        observer.execute("alter system reset default_transaction_read_only")
        observer.execute("select pg_reload_conf()")
