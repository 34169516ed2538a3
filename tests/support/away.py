"""Databases that refuse for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

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


@contextmanager
def read_only_at_once(observer: psycopg.Connection[Any]) -> Iterator[None]:
    """All sessions of the server refuse to write in the block, but the observer's."""
    observer.execute("set default_transaction_read_only = off")
    observer.execute("alter system set default_transaction_read_only = on")
    try:
        observer.execute("select pg_reload_conf()")
        yield
    finally:
        observer.execute("alter system reset default_transaction_read_only")
        observer.execute("select pg_reload_conf()")
