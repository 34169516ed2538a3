"""Databases with pgq in them, copied from one in which it was installed once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from types import TracebackType
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from support import load_pgq

__all__ = ["Databases"]


class Databases:
    """Makes databases on one server, as a context manager; ``place`` is how to connect to it.

    Their names tell the processes of a run apart.
    """

    def __init__(self, place: Mapping[str, Any]) -> None:
        self._place = dict(place)
        self._prefix = "pgq_test" + os.environ.get("PYTEST_XDIST_WORKER", "")
        self._numbers = count(1)
        self._admin = psycopg.connect(self.dsn_of("postgres"), autocommit=True)
        self._template = self.name("template")

    def __enter__(self) -> Databases:
        self.drop(self._template)
        self._run("create database {}", self._template)
        load_pgq(conninfo=self.dsn_of(self._template))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.drop(self._template)
        self._admin.close()

    def dsn_of(self, name: str) -> str:
        """The connection string of a database of the server."""
        return make_conninfo("", **{**self._place, "dbname": name})

    def name(self, purpose: str) -> str:
        """The name of a database for a purpose."""
        return f"{self._prefix}_{purpose}"

    @contextmanager
    def copy(self, purpose: str | None = None) -> Iterator[str]:
        """A database with pgq while in the block, in the place of one that a killed run left."""
        name = self.name(purpose or str(next(self._numbers)))
        self.drop(name)
        # Copied as files: through the log, which the server would do by itself, it takes five
        # times the work.
        how = " strategy file_copy" if self._admin.info.server_version >= 150000 else ""
        self._run("create database {} template {}" + how, name, self._template)
        try:
            yield self.dsn_of(name)
        finally:
            self.drop(name)

    def drop(self, name: str) -> None:
        """Remove a database, whoever is still connected to it."""
        self._run("drop database if exists {} with (force)", name)

    def _run(self, statement: str, *names: str) -> None:
        self._admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
