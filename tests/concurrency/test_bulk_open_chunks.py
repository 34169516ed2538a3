"""Chunks whose transaction is open while their write is committed, or its target dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from bulk_support import (
    MODES,
    begin,
    blocked,
    contents_of,
    new_queue,
    new_topic,
    numbers,
    stage,
    staged,
    waiting,
)
from log_support import PATIENCE
from pgq import Client, WriteLost
from support import backend_pid

AnyConnection = psycopg.Connection[Any]
Connect = Callable[..., AnyConnection]
LEVELS = pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
OLD_SNAPSHOTS = pytest.mark.parametrize("level", ["repeatable read", "serializable"])
COMMITS = pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


@pytest.fixture
def client(connection: AnyConnection) -> Client:
    """A client on an autocommit connection; a wait that should not be fails soon."""
    connection.execute("set lock_timeout = '5s'")
    return Client(connection)


# ---------------------------------------------------------------------------- open chunks


@COMMITS
@LEVELS
@MODES
def test_a_commit_waits_for_an_open_chunk(
    client: Client, connect: Connect, atomic: bool, level: str, commits: bool
) -> None:
    """And counts it when it commits: nothing that write_chunk took is lost."""
    topic = new_topic(client)
    write_id = begin(client, topic=topic, atomic=atomic)
    stage(client, write_id, numbers(1, 2))
    writing, committing = connect(isolation_level=level), connect()
    assert stage(Client(writing), write_id, numbers(3, 4), task=1, last_chunk=False)
    committer = Client(committing)
    done = blocked(client, committer, lambda: committer.commit_write(write_id))
    # the commit waits for all of the transaction, and holds up none of it
    assert stage(Client(writing), write_id, numbers(5, 6), task=1, chunk=1)
    if commits:
        writing.commit()
    else:
        writing.rollback()
    assert done.result(PATIENCE).messages == (6 if commits else 2)
    committing.commit()
    assert contents_of(client, topic) == {0: numbers(1, 6 if commits else 2)}
    assert staged(client.connection, write_id) == 0


@MODES
def test_a_commit_goes_on_when_an_open_chunk_is_killed(
    client: Client, connect: Connect, atomic: bool
) -> None:
    """With what is left."""
    topic = new_topic(client)
    write_id = begin(client, topic=topic, atomic=atomic)
    stage(client, write_id, numbers(1, 2))
    writing, committing = connect(), connect()
    stage(Client(writing), write_id, numbers(3, 4), task=1)
    committer = Client(committing)
    done = blocked(client, committer, lambda: committer.commit_write(write_id))
    client.connection.execute("select pg_terminate_backend(%s)", [backend_pid(writing)])
    assert done.result(PATIENCE).messages == 2
    committing.commit()
    assert contents_of(client, topic) == {0: numbers(1, 2)}


@COMMITS
@LEVELS
@MODES
def test_a_chunk_that_comes_during_the_commit(
    client: Client, connect: Connect, atomic: bool, level: str, commits: bool
) -> None:
    """It waits, and is refused, unless the commit is rolled back."""
    topic = new_topic(client)
    write_id = begin(client, topic=topic, atomic=atomic)
    stage(client, write_id, numbers(1, 2))
    committing, writing = connect(), connect(isolation_level=level)
    assert Client(committing).commit_write(write_id).messages == 2
    writer = Client(writing)
    late = blocked(client, writer, lambda: stage(writer, write_id, numbers(3, 4), task=1))
    if not commits:
        committing.rollback()
        assert late.result(PATIENCE)
        writing.commit()
        assert client.commit_write(write_id).messages == 4
        assert contents_of(client, topic) == {0: numbers(1, 4)}
        return
    committing.commit()
    with pytest.raises(psycopg.Error) as caught:
        late.result(PATIENCE)
    assert caught.value.sqlstate == ("MQ008" if level == "read committed" else "40001")
    writing.rollback()
    with pytest.raises(WriteLost):
        stage(writer, write_id, numbers(3, 4), task=1)
    writing.rollback()
    assert contents_of(client, topic) == {0: numbers(1, 2)}
    assert staged(client.connection, write_id) == 0


@OLD_SNAPSHOTS
@MODES
def test_a_chunk_whose_snapshot_is_older_than_the_commit(
    client: Client, connect: Connect, atomic: bool, level: str
) -> None:
    """40001: never stored, and never taken without a word."""
    topic = new_topic(client)
    write_id = begin(client, topic=topic, atomic=atomic)
    writing = connect(isolation_level=level)
    writing.execute("select from pgq.topic")
    assert client.commit_write(write_id).messages == 0
    with pytest.raises(psycopg.errors.SerializationFailure):
        stage(Client(writing), write_id, numbers(3, 4), task=1)
    writing.rollback()
    assert contents_of(client, topic) == {}
    assert staged(client.connection, write_id) == 0


@OLD_SNAPSHOTS
@MODES
def test_a_chunk_whose_snapshot_is_older_than_its_write(
    client: Client, connect: Connect, atomic: bool, level: str
) -> None:
    """It does not know of it: refused, whatever was staged by others."""
    topic = new_topic(client)
    writing = connect(isolation_level=level)
    writing.execute("select from pgq.topic")
    write_id = begin(client, topic=topic, atomic=atomic)
    stage(client, write_id, numbers(1, 2))
    with pytest.raises(WriteLost):
        stage(Client(writing), write_id, numbers(3, 4), task=1)
    writing.rollback()
    assert client.commit_write(write_id).messages == 2


def test_an_attempt_that_is_left_out_holds_up_nobody(client: Client, connect: Connect) -> None:
    """A second attempt of a task may hang for ever once the first one has committed."""
    topic = new_topic(client)
    write_id = begin(client, topic=topic)
    first, second, third = connect(), connect(), connect()
    assert stage(Client(first), write_id, numbers(1, 2))
    waiter = Client(second)
    late = blocked(client, waiter, lambda: stage(waiter, write_id, numbers(1, 2), attempt="second"))
    first.commit()
    assert not late.result(PATIENCE)
    assert not stage(Client(third), write_id, numbers(1, 2), attempt="third")
    assert client.commit_write(write_id).messages == 2
    assert contents_of(client, topic) == {0: numbers(1, 2)}


# ---------------------------------------------------------------------------- dropped meanwhile


def test_a_chunk_that_waits_while_its_topic_is_made_anew(client: Client, connect: Connect) -> None:
    """Not atomic: nothing of it goes to another topic of that name."""
    topic = new_topic(client)
    write_id = begin(client, topic=topic, atomic=False)
    dropping, writing = connect(), connect()
    Client(dropping).drop_topic(topic)
    Client(dropping).create_topic(topic, partitions=1)
    writer = Client(writing)
    late = blocked(client, writer, lambda: stage(writer, write_id, numbers(1, 2), partition=0))
    dropping.commit()
    with pytest.raises(WriteLost):
        late.result(PATIENCE)
    writing.rollback()
    assert contents_of(client, topic) == {}


@MODES
def test_a_queue_that_is_made_anew_meanwhile(
    client: Client, connect: Connect, atomic: bool
) -> None:
    """Nothing of the write goes to another queue of that name."""
    queue = new_queue(client)
    write_id = begin(client, queue=queue, atomic=atomic)
    stage(client, write_id, numbers(1, 2))
    session = connect()
    stage(Client(session), write_id, numbers(3, 4), task=1)
    client.drop_queue(queue)
    client.create_queue(queue)
    session.commit()
    with pytest.raises(WriteLost):
        stage(client, write_id, numbers(5, 6), task=2)
    if atomic:
        with pytest.raises(WriteLost):
            client.commit_write(write_id)
    assert waiting(client, queue) == []
