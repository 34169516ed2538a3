"""Chunks whose transaction is open while their write is committed, or its target dropped."""

from __future__ import annotations

import psycopg
import pytest

from support.bulk import MODES, begin, contents_of, numbers, stage, staged, waiting
from support.log import new_topic
from support.queue import new_queue
from support.session import Connect, Session, refused
from support.waiting import PATIENCE, blocked

LEVELS = pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
OLD_SNAPSHOTS = pytest.mark.parametrize("level", ["repeatable read", "serializable"])
COMMITS = pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


# ---------------------------------------------------------------------------- open chunks


@COMMITS
@LEVELS
@MODES
def test_a_commit_waits_for_an_open_chunk(
    connection: Session, connect: Connect, atomic: bool, level: str, commits: bool
) -> None:
    """And counts it when it commits: nothing that write_chunk took is lost."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    stage(connection, write_id, numbers(1, 2))
    writing, committing = connect(isolation_level=level), connect()
    assert stage(writing, write_id, numbers(3, 4), task=1, last_chunk=False)
    done = blocked(connection, committing, lambda: committing.commit_write(write_id=write_id))
    # the commit waits for all of the transaction, and holds up none of it
    assert stage(writing, write_id, numbers(5, 6), task=1, chunk=1)
    if commits:
        writing.commit()
    else:
        writing.rollback()
    assert done.result(PATIENCE).messages == (6 if commits else 2)
    committing.commit()
    assert contents_of(connection, topic) == {0: numbers(1, 6 if commits else 2)}
    assert staged(connection, write_id) == 0


@MODES
def test_a_commit_goes_on_when_an_open_chunk_is_killed(
    connection: Session, connect: Connect, atomic: bool
) -> None:
    """With what is left."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    stage(connection, write_id, numbers(1, 2))
    writing, committing = connect(), connect()
    stage(writing, write_id, numbers(3, 4), task=1)
    done = blocked(connection, committing, lambda: committing.commit_write(write_id=write_id))
    connection.execute("select pg_terminate_backend(%s)", [writing.pid])
    assert done.result(PATIENCE).messages == 2
    committing.commit()
    assert contents_of(connection, topic) == {0: numbers(1, 2)}


@COMMITS
@LEVELS
@MODES
def test_a_chunk_that_comes_during_the_commit(
    connection: Session, connect: Connect, atomic: bool, level: str, commits: bool
) -> None:
    """It waits, and is refused, unless the commit is rolled back."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    stage(connection, write_id, numbers(1, 2))
    committing, writing = connect(), connect(isolation_level=level)
    assert committing.commit_write(write_id=write_id).messages == 2
    late = blocked(connection, writing, lambda: stage(writing, write_id, numbers(3, 4), task=1))
    if not commits:
        committing.rollback()
        assert late.result(PATIENCE)
        writing.commit()
        assert connection.commit_write(write_id=write_id).messages == 4
        assert contents_of(connection, topic) == {0: numbers(1, 4)}
        return
    committing.commit()
    with pytest.raises(psycopg.Error) as caught:
        late.result(PATIENCE)
    assert caught.value.sqlstate == ("MQ008" if level == "read committed" else "40001")
    writing.rollback()
    refused("MQ008", lambda: stage(writing, write_id, numbers(3, 4), task=1))
    writing.rollback()
    assert contents_of(connection, topic) == {0: numbers(1, 2)}
    assert staged(connection, write_id) == 0


@OLD_SNAPSHOTS
@MODES
def test_a_chunk_whose_snapshot_is_older_than_the_commit(
    connection: Session, connect: Connect, atomic: bool, level: str
) -> None:
    """40001: never stored, and never taken without a word."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    writing = connect(isolation_level=level)
    writing.execute("select from pgq.topic")
    assert connection.commit_write(write_id=write_id).messages == 0
    with pytest.raises(psycopg.errors.SerializationFailure):
        stage(writing, write_id, numbers(3, 4), task=1)
    writing.rollback()
    assert contents_of(connection, topic) == {}
    assert staged(connection, write_id) == 0


@OLD_SNAPSHOTS
@MODES
def test_a_chunk_whose_snapshot_is_older_than_its_write(
    connection: Session, connect: Connect, atomic: bool, level: str
) -> None:
    """It does not know of it, and has to be tried again, whatever was staged by others."""
    topic = new_topic(connection)
    writing = connect(isolation_level=level)
    writing.execute("select from pgq.topic")
    write_id = begin(connection, topic=topic, atomic=atomic)
    stage(connection, write_id, numbers(1, 2))
    refused("40001", lambda: stage(writing, write_id, numbers(3, 4), task=1))
    writing.rollback()
    assert connection.commit_write(write_id=write_id).messages == 2


def test_an_attempt_that_is_left_out_holds_up_nobody(connection: Session, connect: Connect) -> None:
    """A second attempt of a task may hang for ever once the first one has committed."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    first, second, third = connect(), connect(), connect()
    assert stage(first, write_id, numbers(1, 2))
    late = blocked(
        connection, second, lambda: stage(second, write_id, numbers(1, 2), attempt="second")
    )
    first.commit()
    assert not late.result(PATIENCE)
    assert not stage(third, write_id, numbers(1, 2), attempt="third")
    assert connection.commit_write(write_id=write_id).messages == 2
    assert contents_of(connection, topic) == {0: numbers(1, 2)}


# ---------------------------------------------------------------------------- dropped meanwhile


def test_a_chunk_that_waits_while_its_topic_is_made_anew(
    connection: Session, connect: Connect
) -> None:
    """Not atomic: nothing of it goes to another topic of that name."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=False)
    dropping, writing = connect(), connect()
    dropping.drop_topic(topic=topic)
    dropping.create_topic(topic=topic, partitions=1)
    late = blocked(
        connection, writing, lambda: stage(writing, write_id, numbers(1, 2), partition=0)
    )
    dropping.commit()
    refused("MQ008", lambda: late.result(PATIENCE))
    writing.rollback()
    assert contents_of(connection, topic) == {}


@MODES
def test_a_queue_that_is_made_anew_meanwhile(
    connection: Session, connect: Connect, atomic: bool
) -> None:
    """Nothing of the write goes to another queue of that name."""
    queue = new_queue(connection)
    write_id = begin(connection, queue=queue, atomic=atomic)
    stage(connection, write_id, numbers(1, 2))
    session = connect()
    stage(session, write_id, numbers(3, 4), task=1)
    connection.drop_queue(queue=queue)
    connection.create_queue(queue=queue)
    session.commit()
    refused("MQ008", lambda: stage(connection, write_id, numbers(5, 6), task=2))
    if atomic:
        refused("MQ008", connection.commit_write, write_id=write_id)
    assert waiting(connection, queue) == []
