"""Deferred topics keep 27 bits of the ids of transactions: what passes a multiple of 2^27."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgq.embedded import Server
from pgq.embedded._account import Account
from support.house import install_script
from support.session import Session

SLOTS = 1 << 27
PER_FILE = 1 << 20
"""Transactions in a file of pg_xact."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the account of a server can reach."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        Account.current().own(path)
        yield path


@pytest.fixture
def server_at_the_end(folder: Path, start_server: Any) -> Server:
    """A server whose next transactions are the last ones before 2^27."""
    account = Account.current()
    server = start_server(folder)
    data: Path = server.data_directory
    server.stop()
    status = data / "pg_xact" / f"{(SLOTS - 1) // PER_FILE:04X}"
    status.write_bytes(bytes(PER_FILE // 4))
    account.own(status)
    subprocess.run(
        [server._source / "pg_resetwal", "-x", str(SLOTS - 200), data],
        check=True,
        capture_output=True,
        cwd=folder,
        **account.process_options(),
    )
    return server.start()


def xid(session: Session) -> int:
    [(found,)] = session.execute("select pg_current_xact_id()::text::bigint").fetchall()
    return int(found)


@pytest.mark.slow
def test_a_transaction_from_before(server_at_the_end: Server) -> None:
    """Its messages get their offsets once, and so do those of later ones."""
    dsn = server_at_the_end.dsn
    with Session.connect(dsn, autocommit=True) as session, Session.connect(dsn) as late:
        session.execute(install_script())
        session.create_topic(topic="d", partitions=1, deferred=True)
        session.create_queue(queue="q")
        session.subscribe(subscription="s", topic="d", queue="q")
        for number in range(3):
            late.publish(topic="d", payload=number)
        assert xid(late) < SLOTS
        while xid(session) < SLOTS:
            pass
        session.publish(topic="d", payload=3)
        session.execute("select from pgq.assign_offsets('d')")
        late.commit()
        for number in (4, 5):
            session.execute("select from pgq.assign_offsets('d')")
            session.publish(topic="d", payload=number)
        session.execute("select from pgq.assign_offsets('d')")
        stored = session.execute(
            "select log_offset, payload from pgq.messages order by log_offset"
        ).fetchall()
        assert [offset for offset, _ in stored] == [1, 2, 3, 4, 5, 6]
        assert sorted(payload for _, payload in stored) == [0, 1, 2, 3, 4, 5]
        jobs = session.claim_job(queue="q", max_jobs=100)
        assert [job.payload for job in jobs] == [payload for _, payload in stored]
