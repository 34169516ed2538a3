"""A server that is away for a while: it restarts, or another one takes over. Who asks it waits."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping

__all__ = ["RETRY", "Patience", "connected", "is_lost", "is_lost_by_spark"]

RETRY = 60.0
"""For how many seconds a lost server is asked again."""

_log = logging.getLogger("pgq.spark")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0

_ANSWERS = 3
"""How often a server that is up may refuse: the first time it may just have come up."""

_LOST = re.compile("08...|57P0[123]|53300")

# The JVM's errors reach Python as text, but for those of the driver's own connections.
_LOST_BY_SPARK = re.compile(
    r"PSQLException: (Connection to .* refused|The connection attempt failed"
    r"|An I/O error occurred|This connection has been closed|FATAL: )"
)

Result = TypeVar("Result")


class Patience:
    """How long to try again; the time begins with the first failure."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.reset()

    def reset(self) -> None:
        """All is well again: the next failure is a first one."""
        self._deadline: float | None = None
        self._pause = _FIRST_PAUSE

    def again(self, error: BaseException) -> bool:
        """Wait a little, longer each time; False when the time is over."""
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._seconds
        left = self._deadline - now
        if left <= 0:
            return False
        _log.warning("the database is lost, trying again for %.0f s: %s", left, error)
        time.sleep(min(left, self._pause * random.uniform(0.5, 1)))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True


def connected(
    connect: Callable[[], psycopg.Connection[Any]], conninfo: str, seconds: float
) -> psycopg.Connection[Any]:
    """Connect, and wait for a server that is away; a wrong password is an error at once."""
    patience, answers = Patience(seconds), 0
    while True:
        try:
            return connect()
        except psycopg.OperationalError as error:
            # libpq has no SQLSTATE of a connection that failed
            answers = answers + 1 if _answers(conninfo) else 0
            if answers >= _ANSWERS or not patience.again(error):
                raise


def _answers(conninfo: str) -> bool:
    """Whether the server takes connections, so that it refused this one for a reason."""
    if "target_session_attrs" in conninfo_to_dict(conninfo):
        return False  # another server becomes the primary
    # without TLS: what is wrong with that is a reason, too
    place = make_conninfo(conninfo, sslmode="disable", gssencmode="disable")
    return PGconn.ping(place.encode()) == Ping.OK


def is_lost(error: BaseException, connection: psycopg.Connection[Any] | None = None) -> bool:
    """Whether an error is that of a server that is away, and not of what it was asked."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    if connection is not None:
        return connection.closed
    return _LOST.fullmatch(error.sqlstate or "") is not None


def is_lost_by_spark(error: BaseException) -> bool:
    """The same of an error of a Spark job, or of the driver's JDBC connection."""
    return is_lost(error) or _LOST_BY_SPARK.search(str(error)) is not None
