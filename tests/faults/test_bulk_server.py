"""A server that is killed with -9 in the middle of bulk writes, or replaced by its standby."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from pgq.embedded import Server
from support.bulk import begin, contents_of, numbers, stage, staged
from support.house import install_script
from support.session import Session, refused
from support.waiting import wait_until

StartServer = Callable[..., Server]

TARGET = {"topic": "t", "producer": "job", "seq": 1}


@pytest.fixture
def server(start_server: StartServer) -> Server:
    """A server with a topic of one partition."""
    server = start_server(settings={"max_wal_senders": "4"})
    with Session.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        connection.create_topic(topic="t", partitions=1)
    return server


@pytest.fixture
def crash(server: Server) -> Iterator[Callable[[], Session]]:
    """Kill the server and start it again; the connection is on a new connection."""
    opened: list[psycopg.Connection] = []

    def again() -> Session:
        if opened:
            server.kill()
            server.restart()
            opened.pop().close()
        opened.append(Session.connect(server.dsn, autocommit=True))
        return opened[0]

    yield again
    for connection in opened:
        connection.close()


def written_once(connection: Session, count: int) -> None:
    """Started again, the write works, and exactly once."""
    state = connection.begin_write(**TARGET)
    assert not state.duplicate
    for task in range(2):
        stage(connection, state.write_id, numbers(1, count), task=task)
    assert (
        connection.commit_write(write_id=state.write_id, expected_messages=2 * count).messages
        == 2 * count
    )
    assert connection.begin_write(**TARGET).duplicate
    assert contents_of(connection, "t") == {0: numbers(1, count) * 2}


@pytest.mark.parametrize("tasks", [0, 1, 2])
def test_killed_before_the_commit(crash: Callable[[], Session], tasks: int) -> None:
    """What was staged is gone, so the write is lost, however much of it there was."""
    connection = crash()
    write_id = begin(connection, **TARGET)
    for task in range(tasks):
        assert stage(connection, write_id, numbers(1, 3), task=task)
    connection = crash()
    lost = refused("MQ008", connection.commit_write, write_id=write_id)
    assert "is lost" in str(lost)
    assert "crashed" in str(lost.diag.message_detail)
    refused("MQ008", lambda: stage(connection, write_id, numbers(1, 3), task=tasks))
    assert contents_of(connection, "t") == {}
    written_once(connection, 3)
    assert staged(connection) == 0


def test_killed_after_the_commit(crash: Callable[[], Session]) -> None:
    """What was acknowledged is there, and known."""
    connection = crash()
    write_id = begin(connection, **TARGET)
    stage(connection, write_id, numbers(1, 3))
    done = connection.commit_write(write_id=write_id)
    connection = crash()
    again = connection.begin_write(**TARGET)
    assert again.duplicate
    assert connection.commit_write(write_id=write_id) == again
    assert (again.messages, again.committed_at) == (3, done.committed_at)
    assert contents_of(connection, "t") == {0: numbers(1, 3)}


def test_killed_within_the_commit(crash: Callable[[], Session], server: Server) -> None:
    """Nothing is there: the staging went with the transaction."""
    connection = crash()
    write_id = begin(connection, **TARGET)
    stage(connection, write_id, numbers(1, 3))
    with Session.connect(server.dsn) as session:
        session.commit_write(write_id=write_id)
        connection = crash()
        with pytest.raises(psycopg.OperationalError):
            session.execute("select 1")
    assert contents_of(connection, "t") == {}
    refused("MQ008", connection.commit_write, write_id=write_id)
    written_once(connection, 5)


def test_killed_between_chunks_that_are_published(crash: Callable[[], Session]) -> None:
    """Those that were acknowledged stay, the write goes on, and repeated ones are left out."""
    connection = crash()
    write_id = begin(connection, **TARGET, atomic=False)
    assert stage(connection, write_id, numbers(1, 2), last_chunk=False)
    connection = crash()
    assert not stage(connection, write_id, numbers(1, 2), last_chunk=False)
    assert stage(connection, write_id, numbers(3, 4), chunk=1)
    assert connection.commit_write(write_id=write_id).messages == 4
    assert contents_of(connection, "t") == {0: numbers(1, 4)}


def test_a_standby_takes_over(
    server: Server, start_server: StartServer, crash: Callable[[], Session]
) -> None:
    """What is staged is not replicated: the write is lost there, and started again it works."""
    folder: Path = server.directory / "standby"
    server.run(
        "pg_basebackup",
        *("-D", folder / "data", "--write-recovery-conf", "--checkpoint=fast"),
        as_owner=True,
    )
    folder.chmod(0o755)
    standby = start_server(folder, settings={"hot_standby": "on"})
    connection = crash()
    write_id = begin(connection, **TARGET)
    for task in range(2):
        stage(connection, write_id, numbers(1, 3), task=task)
    row = connection.execute("select pg_current_wal_flush_lsn()").fetchone()
    assert row is not None
    with Session.connect(standby.dsn, autocommit=True) as connection:
        wait_until(
            lambda: (
                connection.execute("select pg_last_wal_replay_lsn() >= %s::pg_lsn", row).fetchone()
                == (True,)
            ),
            what="for the standby to follow",
        )
        server.kill()
        connection.execute("select pg_promote(wait => true)")
        successor = connection
        refused("MQ008", successor.commit_write, write_id=write_id)
        written_once(successor, 3)
