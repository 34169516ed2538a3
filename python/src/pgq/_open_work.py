"""A warning when work is lost because nobody committed it."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

from psycopg import AsyncConnection, Connection
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.pq.abc import PGconn

__all__ = ["warn_if_open", "watch"]

_watched: weakref.WeakSet[Any] = weakref.WeakSet()


def watch(connection: Connection[Any] | AsyncConnection[Any]) -> None:
    """Warn if this connection is forgotten, or the program ends, in a transaction.

    That of one that is closed in a transaction by its owner cannot be seen.
    """
    if not connection.autocommit and connection not in _watched:
        _watched.add(connection)
        weakref.finalize(connection, warn_if_open, connection.pgconn)


def warn_if_open(pgconn: PGconn) -> None:
    """Warn if a connection that ends now is in a transaction."""
    if pgconn.status == ConnStatus.OK and pgconn.transaction_status in (
        TransactionStatus.INTRANS,
        TransactionStatus.ACTIVE,
    ):
        warnings.warn(
            "a connection that pgq has used ends in a transaction, and nothing of it was committed:"
            " call commit(), or connect with autocommit=True",
            RuntimeWarning,
            stacklevel=3,
        )
