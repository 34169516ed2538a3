"""Databases with pgq in them, copied from one in which it was installed once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from types import TracebackType
from typing import Any

from psycopg import sql
from psycopg.conninfo import make_conninfo
from pytest_postgresql.janitor import DatabaseJanitor

from support.coverage import collect
from support.house import load_pgq

__all__ = ["Databases"]


class Databases:
    """Makes databases on one server, as a context manager; ``place`` is how to connect to it.

    Their names tell the processes of a run apart. ``PGQ_TEST_TEMPLATE`` names a database to copy
    that others have made.
    """

    def __init__(self, place: Mapping[str, Any]) -> None:
        self._place = {
            "host": place.get("host", "localhost"),
            "port": place.get("port", 5432),
            "user": place.get("user", "postgres"),
            "password": place.get("password"),
        }
        self._prefix = "pgq_test" + os.environ.get("PYTEST_XDIST_WORKER", "")
        self._numbers = count(1)
        self._given = os.environ.get("PGQ_TEST_TEMPLATE")
        self._template = DatabaseJanitor(
            dbname=self._given or self.name("template"), as_template=True, **self._place
        )

    def __enter__(self) -> Databases:
        if not self._given:
            self._template.drop()
            self._template.init()
            self._template.load(load_pgq)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._given:
            self._template.drop()

    def dsn_of(self, name: str) -> str:
        """The connection string of a database of the server."""
        known = {key: value for key, value in self._place.items() if value is not None}
        return make_conninfo("", **{**known, "dbname": name})

    def name(self, purpose: str) -> str:
        """The name of a database for a purpose."""
        return f"{self._prefix}_{purpose}"

    @contextmanager
    def copy(self, purpose: str | None = None) -> Iterator[str]:
        """A database with pgq while in the block, in the place of one that a killed run left."""
        janitor = DatabaseJanitor(
            dbname=self.name(purpose or str(next(self._numbers))), **self._place
        )
        janitor.drop()
        with janitor.cursor() as cursor:
            # Copied as files: block by block through the log, which the janitor would leave it to,
            # hundreds of small tables and indexes take five times the work.
            files = cursor.connection.info.server_version >= 150000
            cursor.execute(
                sql.SQL("create database {} template {} {}").format(
                    sql.Identifier(janitor.dbname),
                    sql.Identifier(self._template.dbname),
                    sql.SQL("strategy file_copy" if files else ""),
                )
            )
        try:
            yield self.dsn_of(janitor.dbname)
        finally:
            collect(self.dsn_of(janitor.dbname))
            janitor.drop()
