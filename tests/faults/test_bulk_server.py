"""A server that is killed with -9 in the middle of bulk writes, or replaced by its standby."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from pgq.embedded import Server
from support.bulk import begin, contents_of, numbers, stage, stage_long, staged
from support.house import install_script
from support.session import Session
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


@pytest.mark.parametrize("tasks", [0, 1, 2])
def test_killed_before_the_commit(crash: Callable[[], Session], tasks: int) -> None:
    """What was staged is there, whether it is a long task's or a short one's."""
    connection = crash()
    write_id = begin(connection, **TARGET)
    for task in range(tasks):
        stage_long(connection, write_id, numbers(1, 600), task=2 * task)
        assert stage(connection, write_id, numbers(1, 3), task=2 * task + 1)
    assert stage(connection, write_id, numbers(1, 3), task=9)
    connection = crash()
    assert contents_of(connection, "t") == {}
    assert not stage(connection, write_id, numbers(1, 3), task=9)
    assert stage(connection, write_id, numbers(7, 9), task=10)
    assert connection.commit_write(write_id=write_id).messages == 603 * tasks + 6
    assert contents_of(connection, "t") == {
        0: [*(numbers(1, 600) + numbers(1, 3)) * tasks, *numbers(1, 3), *numbers(7, 9)]
    }
    assert connection.begin_write(**TARGET).duplicate
    assert staged(connection) == 0


def test_killed_within_a_task(crash: Callable[[], Session], server: Server) -> None:
    """What was stored of it is nobody's, and another attempt writes it."""
    connection = crash()
    write_id = begin(connection, **TARGET)
    with Session.connect(server.dsn) as session:
        for chunk in range(3):
            stage(session, write_id, numbers(1, 300), chunk=chunk, last_chunk=False)
        connection.execute("checkpoint")
        connection = crash()
        with pytest.raises(psycopg.OperationalError):
            session.execute("select 1")
    stage_long(connection, write_id, numbers(1, 600), attempt="second")
    assert connection.commit_write(write_id=write_id).messages == 600
    assert contents_of(connection, "t") == {0: numbers(1, 600)}


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
    """It has not happened: all is staged as before, and committed it is there once."""
    connection = crash()
    write_id = begin(connection, **TARGET)
    stage_long(connection, write_id, numbers(1, 600))
    stage(connection, write_id, numbers(1, 3), task=1)
    with Session.connect(server.dsn) as session:
        session.commit_write(write_id=write_id)
        connection.execute("checkpoint")
        connection = crash()
        with pytest.raises(psycopg.OperationalError):
            session.execute("select 1")
    assert contents_of(connection, "t") == {}
    connection.publish(topic="t", payload=0)
    assert connection.commit_write(write_id=write_id).messages == 603
    assert contents_of(connection, "t") == {0: [0, *numbers(1, 600), *numbers(1, 3)]}


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
    """What was staged is there, and the write is committed on the successor."""
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
    stage(connection, write_id, numbers(1, 3))
    stage_long(connection, write_id, numbers(1, 600), task=1)
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
        assert successor.commit_write(write_id=write_id).messages == 603
        assert successor.begin_write(**TARGET).duplicate
        assert contents_of(successor, "t") == {0: numbers(1, 3) + numbers(1, 600)}
