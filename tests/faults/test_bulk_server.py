"""A server that is killed with -9 in the middle of bulk writes, or replaced by its standby."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from bulk_support import begin, contents_of, numbers, stage, staged
from pgq import Client, WriteLost
from pgq.embedded import Server
from support import install_script, wait_until

StartServer = Callable[..., Server]

TARGET = {"topic": "t", "producer": "job", "seq": 1}


@pytest.fixture
def server(start_server: StartServer) -> Server:
    """A server with a topic of one partition."""
    server = start_server(settings={"max_wal_senders": "4"})
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(install_script())
        Client(connection).create_topic("t", partitions=1)
    return server


@pytest.fixture
def crash(server: Server) -> Iterator[Callable[[], Client]]:
    """Kill the server and start it again; the client is on a new connection."""
    opened: list[psycopg.Connection] = []

    def again() -> Client:
        if opened:
            server.kill()
            server.restart()
            opened.pop().close()
        opened.append(psycopg.connect(server.dsn, autocommit=True))
        return Client(opened[0])

    yield again
    for connection in opened:
        connection.close()


def written_once(client: Client, count: int) -> None:
    """Started again, the write works, and exactly once."""
    state = client.begin_write(**TARGET)
    assert not state.repeated
    for task in range(2):
        stage(client, state.write_id, numbers(1, count), task=task)
    assert client.commit_write(state.write_id, expected_messages=2 * count).messages == 2 * count
    assert client.begin_write(**TARGET).repeated
    assert contents_of(client, "t") == {0: numbers(1, count) * 2}


@pytest.mark.parametrize("tasks", [0, 1, 2])
def test_killed_before_the_commit(crash: Callable[[], Client], tasks: int) -> None:
    """What was staged is gone, so the write is lost, however much of it there was."""
    client = crash()
    write_id = begin(client, **TARGET)
    for task in range(tasks):
        assert stage(client, write_id, numbers(1, 3), task=task)
    client = crash()
    with pytest.raises(WriteLost, match="cannot go on") as caught:
        client.commit_write(write_id)
    assert "crashed" in str(caught.value.detail)
    with pytest.raises(WriteLost):
        stage(client, write_id, numbers(1, 3), task=tasks)
    assert contents_of(client, "t") == {}
    written_once(client, 3)
    assert staged(client.connection) == 0


def test_killed_after_the_commit(crash: Callable[[], Client]) -> None:
    """What was acknowledged is there, and known."""
    client = crash()
    write_id = begin(client, **TARGET)
    stage(client, write_id, numbers(1, 3))
    done = client.commit_write(write_id)
    client = crash()
    again = client.begin_write(**TARGET)
    assert again.repeated
    assert client.commit_write(write_id) == again
    assert (again.messages, again.committed_at) == (3, done.committed_at)
    assert contents_of(client, "t") == {0: numbers(1, 3)}


def test_killed_within_the_commit(crash: Callable[[], Client], server: Server) -> None:
    """Nothing is there: the staging went with the transaction."""
    client = crash()
    write_id = begin(client, **TARGET)
    stage(client, write_id, numbers(1, 3))
    with psycopg.connect(server.dsn) as session:
        Client(session).commit_write(write_id)
        client = crash()
        with pytest.raises(psycopg.OperationalError):
            session.execute("select 1")
    assert contents_of(client, "t") == {}
    with pytest.raises(WriteLost):
        client.commit_write(write_id)
    written_once(client, 5)


def test_killed_between_chunks_that_are_published(crash: Callable[[], Client]) -> None:
    """Those that were acknowledged stay, the write goes on, and repeated ones are left out."""
    client = crash()
    write_id = begin(client, **TARGET, atomic=False)
    assert stage(client, write_id, numbers(1, 2), last_chunk=False)
    client = crash()
    assert not stage(client, write_id, numbers(1, 2), last_chunk=False)
    assert stage(client, write_id, numbers(3, 4), chunk=1)
    assert client.commit_write(write_id).messages == 4
    assert contents_of(client, "t") == {0: numbers(1, 4)}


def test_a_standby_takes_over(
    server: Server, start_server: StartServer, crash: Callable[[], Client]
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
    client = crash()
    write_id = begin(client, **TARGET)
    for task in range(2):
        stage(client, write_id, numbers(1, 3), task=task)
    row = client.connection.execute("select pg_current_wal_flush_lsn()").fetchone()
    assert row is not None
    with psycopg.connect(standby.dsn, autocommit=True) as connection:
        wait_until(
            lambda: (
                connection.execute("select pg_last_wal_replay_lsn() >= %s::pg_lsn", row).fetchone()
                == (True,)
            ),
            what="for the standby to follow",
        )
        server.kill()
        connection.execute("select pg_promote(wait => true)")
        successor = Client(connection)
        with pytest.raises(WriteLost):
            successor.commit_write(write_id)
        written_once(successor, 3)
