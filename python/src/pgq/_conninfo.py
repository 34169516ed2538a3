"""Connection strings as callers give them."""

from __future__ import annotations

import os
import re
from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

__all__ = ["parsed"]

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
