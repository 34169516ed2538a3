"""The connections of the page's server, and what becomes of their errors."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.types.json import set_json_loads

from pgq import Client, errors
from pgq._conninfo import parsed
from pgq.cli._errors import one_line
from pgq.cli._output import Raw

__all__ = ["Problem", "Source"]

MOST = 4
"""Connections at a time."""

_PATIENCE: dict[str, Any] = {
    "connect_timeout": 5,
    "tcp_user_timeout": 10000,
    "fallback_application_name": "pgq ui",
}
_UNKNOWN = (
    errors.UnknownTopic,
    errors.UnknownQueue,
    errors.UnknownGroup,
    errors.UnknownPartition,
    errors.UnknownSchedule,
    errors.UnknownSubscription,
)

_OTHER_SCHEMA = (
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedTable,
)


@dataclass(slots=True, eq=False)
class Problem(Exception):
    """What cannot be done, for the one who looks at the page."""

    status: int
    message: str
    hint: str | None = None
    sqlstate: str | None = None

    @classmethod
    def of(cls, error: psycopg.Error) -> Problem:
        """What an error of the database means for the page."""
        primary = error.diag.message_primary
        if primary is None:  # no server has said this
            if isinstance(error, psycopg.DataError):
                return cls(400, str(error))
            return cls(503, f"the database does not answer: {one_line(error)}")
        if isinstance(error, psycopg.errors.QueryCanceled):
            return cls(504, primary, "ask for less at a time", error.sqlstate)
        status = 400
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            status = 403
        elif isinstance(error, _UNKNOWN):
            status = 404
        elif isinstance(error, psycopg.OperationalError) and not isinstance(error, errors.PgqError):
            status = 503
        elif isinstance(error, _OTHER_SCHEMA):
            return cls(503, one_line(error), None, error.sqlstate)
        detail = error.diag.message_detail
        message = f"{primary} ({detail.rstrip('.')})" if detail else primary
        return cls(status, message, error.diag.message_hint, error.sqlstate)


class Source:
    """A few connections, made when they are needed and made again when they are lost."""

    def __init__(self, database: str, *, read_only: bool = False, timeout: float = 30) -> None:
        self.read_only = read_only
        self._database = make_conninfo(**{**_PATIENCE, **parsed(database)})
        self._timeout = f"set local statement_timeout = {int(timeout * 1000)}".encode()
        self._idle: deque[psycopg.Connection[Any]] = deque()
        self._turns = threading.BoundedSemaphore(MOST)

    def close(self) -> None:
        """Give back the connections that nobody uses."""
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def reading(self) -> Iterator[Client]:
        """A client in a transaction that writes nothing; Problem where it cannot be had."""
        with self._client(read_only=True) as client:
            yield client

    @contextmanager
    def acting(self) -> Iterator[Client]:
        """A client in a transaction; Problem where it cannot be had."""
        if self.read_only:
            raise Problem(403, "this page only shows: it was started with --read-only")
        with self._client(read_only=False) as client:
            yield client

    @contextmanager
    def _client(self, *, read_only: bool) -> Iterator[Client]:
        try:
            with self._turns, ExitStack() as stack:
                connection = self._begun(stack, read_only)
                yield Client(connection)
        except psycopg.Error as error:
            raise Problem.of(error) from None

    def _begun(self, stack: ExitStack, read_only: bool) -> psycopg.Connection[Any]:
        """A connection with a transaction open, both of which the stack ends."""
        while True:
            try:
                connection, known = self._idle.pop(), True
            except IndexError:
                connection, known = self._connect(), False
            with ExitStack() as own:
                own.callback(self._give_back, connection)
                try:
                    connection.read_only = read_only
                    own.enter_context(connection.transaction())
                    # for this transaction alone, so that it holds behind a pooler too
                    connection.execute(self._timeout)
                except psycopg.Error:
                    # one that was lost while nobody used it shows itself now
                    if not (known and connection.broken):
                        raise
                    continue
                stack.push(own.pop_all())
                return connection

    def _connect(self) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] = psycopg.connect(
            self._database,
            autocommit=True,
            client_encoding="utf8",  # that of JSON
            prepare_threshold=None,  # so that a pooler in transaction mode may stand between
        )
        set_json_loads(Raw.of, connection)
        return connection

    def _give_back(self, connection: psycopg.Connection[Any]) -> None:
        if connection.closed:
            connection.close()
        else:
            self._idle.append(connection)
