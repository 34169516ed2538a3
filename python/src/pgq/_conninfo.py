"""Connection strings as callers give them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from psycopg import AsyncConnection, Connection, OperationalError, ProgrammingError
from psycopg.conninfo import conninfo_to_dict

__all__ = ["check_encoding", "connecting", "parsed"]

_SCHEME = re.compile(r"[A-Za-z][\w+.-]*://")
_NAMED = "invalid URI query parameter", "invalid connection option"
"""What libpq says of an option that it does not know, by its name alone."""


def parsed(conninfo: str) -> dict[str, Any]:
    """The settings of a connection string; ProgrammingError: it is none.

    What libpq says of most of these has the string in it, and so the password.
    """
    try:
        found = conninfo_to_dict(conninfo)
    except ProgrammingError as error:
        if str(error).startswith(_NAMED):
            raise
    else:
        # of an @, a : or a / in a password, what follows it stands there
        port, host = (str(found.get(name) or "") for name in ("port", "host"))
        if re.fullmatch(r"[\d,]*", port) and "@" not in host[1:]:
            return found
    name = "DATABASE_URL" if conninfo == os.environ.get("DATABASE_URL") else "what was given"
    scheme = _SCHEME.match(conninfo)
    if scheme is None:
        wrong = "it is neither a URL nor of the form name=value"
    elif scheme[0] in ("postgres://", "postgresql://"):
        wrong = "in its user, its password or its options, %, @, : and / are written %25, %40, …"
    else:
        wrong = f"it begins with {scheme[0]}"
    raise ProgrammingError(
        f"{name} is no address of PostgreSQL: {wrong}; write postgresql://user@host/database"
    )


@contextmanager
def connecting(conninfo: str, options: Mapping[str, Any]) -> Iterator[None]:
    """Around a connect: its error says so where no address was given."""
    try:
        yield
    except OperationalError as error:
        if not conninfo and {"host", "hostaddr", "port", "service", "dbname"}.isdisjoint(options):
            known = os.environ.get("DATABASE_URL")
            hint = "no address was given: pass that of DATABASE_URL"
            hint = hint if known else "DATABASE_URL is not set, and no address was given"
            error.args = (f"{str(error).strip()}\nHINT:  {hint}", *error.args[1:])
        raise


def check_encoding(connection: Connection[Any] | AsyncConnection[Any]) -> None:
    """ProgrammingError: psycopg returns texts as bytes, so that no name would be found."""
    info = connection.info
    if connection.closed or info.encoding != "ascii":
        return
    if info.parameter_status("server_encoding") != "SQL_ASCII":
        raise ProgrammingError(
            "the client_encoding of the connection is SQL_ASCII, with which texts come as bytes; "
            "HINT: set it to UTF8"
        )
    raise ProgrammingError(
        "the database has the encoding SQL_ASCII, which cannot hold JSON escapes, and with which "
        "texts come as bytes; HINT: create database NAME encoding 'UTF8' template template0;"
    )
