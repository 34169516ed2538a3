"""abort_write: what is given up is removed, and those who still write are refused."""

from __future__ import annotations

from uuid import uuid4

import pytest

from support.bulk import MODES, NOBODY, begin, contents_of, numbers, stage, staged
from support.log import new_topic
from support.queue import new_queue
from support.session import Connect, Session, refused, row


def test_staged_chunks_are_removed(connection: Session) -> None:
    """And the write is not known any more."""
    topic = new_topic(connection)
    target = {"topic": topic, "producer": "job", "seq": 1}
    write_id = begin(connection, **target)
    stage(connection, write_id, numbers(1, 3))
    assert connection.abort_write(write_id=write_id)
    assert not connection.abort_write(write_id=write_id)
    assert row(
        connection,
        "select count(*) from pgq.bulk_write as w inner join pgq.topic as t using (topic_id)"
        " where t.topic = %s",
        [topic],
    ) == (0,)
    assert staged(connection, write_id) == 0
    assert contents_of(connection, topic) == {}
    for sqlstate, late in (
        ("MQ008", lambda: stage(connection, write_id, numbers(1, 3))),
        ("MQ008", lambda: connection.commit_write(write_id=write_id)),
    ):
        refused(sqlstate, late)
    write_id = begin(connection, **target)
    stage(connection, write_id, numbers(4, 5))
    assert not connection.commit_write(write_id=write_id).duplicate
    assert contents_of(connection, topic) == {0: numbers(4, 5)}


@pytest.mark.parametrize("producer", [None, "job"])
def test_published_chunks_stay(connection: Session, producer: str | None) -> None:
    """A producer that starts it again writes what is missing."""
    topic = new_topic(connection)
    target = {"topic": topic, "atomic": False}
    if producer:
        target.update(producer=producer, seq=1)
    write_id = begin(connection, **target)
    stage(connection, write_id, numbers(1, 2))
    assert connection.abort_write(write_id=write_id)
    assert not connection.abort_write(write_id=write_id)
    assert contents_of(connection, topic) == {0: numbers(1, 2)}
    refused("MQ008", lambda: stage(connection, write_id, numbers(3, 4), chunk=1))
    again = begin(connection, **target)
    assert stage(connection, again, numbers(1, 2)) is (producer is None)


def test_a_committed_write_stays(connection: Session) -> None:
    """False, and it is known as before."""
    topic = new_topic(connection)
    for atomic in (True, False):
        write_id = begin(connection, topic=topic, atomic=atomic)
        connection.commit_write(write_id=write_id)
        assert not connection.abort_write(write_id=write_id)
        assert connection.commit_write(write_id=write_id).duplicate


def test_unknown_writes(connection: Session) -> None:
    """False for an id of nobody, an error for none."""
    assert not connection.abort_write(write_id=NOBODY)
    refused("22004", connection.abort_write, write_id=None)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@MODES
def test_a_write_that_began_since(
    connection: Session, connect: Connect, level: str, atomic: bool
) -> None:
    """An old snapshot shows no such write: 40001. One of nobody is false there too."""
    topic = new_topic(connection)
    session = connect(isolation_level=level)
    session.execute("select from pgq.topic")
    write_id = begin(connection, topic=topic, atomic=atomic)
    refused("40001", session.abort_write, write_id=write_id)
    session.rollback()
    session.execute("select from pgq.topic")
    assert not session.abort_write(write_id=NOBODY)
    assert not session.abort_write(write_id=NOBODY)
    assert session.abort_write(write_id=write_id)
    session.commit()
    refused("MQ008", connection.commit_write, write_id=write_id)
    row = connection.execute("select count(*) from pgq.bulk_write where queue_id = 0").fetchone()
    assert row == (0,)


def test_twice_in_one_transaction_and_rolled_back(connection: Session, connect: Connect) -> None:
    """It is part of the caller's transaction."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    stage(connection, write_id, numbers(1, 2))
    session = connect()
    assert session.abort_write(write_id=write_id)
    assert not session.abort_write(write_id=write_id)
    session.rollback()
    assert connection.commit_write(write_id=write_id).messages == 2


# ---------------------------------------------------------------------------- owners


def test_the_writes_of_earlier_attempts_of_an_owner(connection: Session) -> None:
    """Wherever they go; not those of other owners, of this attempt, or committed."""
    topic, queue = new_topic(connection), new_queue(connection)
    dead = [
        begin(connection, **target, owner="job", seq=seq, atomic=atomic)
        for target in ({"topic": topic}, {"queue": queue})
        for seq in (1, 2)
        for atomic in (True, False)
    ]
    alive = [
        begin(connection, topic=topic, **of)
        for of in ({"owner": "job", "seq": 3}, {"owner": "other", "seq": 1}, {})
    ]
    done = begin(connection, topic=topic, owner="job", seq=1)
    for write_id in (*dead, *alive, done):
        stage(connection, write_id, numbers(1, 2))
    connection.commit_write(write_id=done)
    assert connection.abort_write(owner="job", seq=3)
    assert not connection.abort_write(owner="job", seq=3)
    for write_id in dead:
        assert staged(connection, write_id) == 0
        refused("MQ008", connection.commit_write, write_id=write_id)
    for write_id in (*alive, done):
        assert connection.commit_write(write_id=write_id).messages == 2


def test_an_owner_needs_an_attempt(connection: Session) -> None:
    refused("22004", connection.abort_write, owner="job")
    refused("22004", connection.abort_write, seq=1)
    refused("22023", connection.abort_write, write_id=uuid4(), owner="job", seq=1)


def test_a_write_of_an_owner_that_is_being_committed(connection: Session, connect: Connect) -> None:
    """It is left alone, and not waited for."""
    topic = new_topic(connection)
    first, second = (begin(connection, topic=topic, owner="job", seq=1) for _ in range(2))
    for write_id in (first, second):
        stage(connection, write_id, numbers(1, 2))
    late = connect()
    late.commit_write(write_id=first)
    assert connection.abort_write(owner="job", seq=2)
    refused("MQ008", late.commit_write, write_id=second)
    late.rollback()
    # what it had locked is open again
    assert connection.abort_write(owner="job", seq=2)
    assert contents_of(connection, topic) == {}
