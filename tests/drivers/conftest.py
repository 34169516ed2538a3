"""What programs connect to, and those that are compiled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.node import compiled
from support.pooler import POOL, PgBouncer
from support.session import Session


@pytest.fixture
def pgbouncer(dsn: str) -> Iterator[PgBouncer]:
    """One that leads to the database of the test, each transaction by the next connection.

    So what a driver left in a session is missing in the next transaction, as it would be at times
    where many clients share the connections.
    """
    pgbouncer = PgBouncer(dsn, "server_round_robin = 1")
    try:
        pgbouncer.start()
        # transactions that are open at once open all server connections
        clients = [Session.connect(pgbouncer.dsn, prepare_threshold=None) for _ in range(POOL)]
        backends = {client.execute("select pg_backend_pid()").fetchone() for client in clients}
        for client in clients:
            client.rollback()
            client.close()
        assert len(backends) == POOL
        yield pgbouncer
    finally:
        pgbouncer.close()


@pytest.fixture(scope="session")
def programs() -> Iterator[Path]:
    """The folder with the compiled programs of tests/drivers/node."""
    with compiled() as folder:
        yield folder
