"""Writers that hang or come late, beside another attempt of their write, or its end."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from support.bulk import MODES, begin, contents_of, numbers, stage
from support.log import new_topic
from support.session import Connect, Session, refused
from support.waiting import PATIENCE, blocked

LEVELS = pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
OLD_SNAPSHOTS = pytest.mark.parametrize("level", ["repeatable read", "serializable"])
COMMITS = pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


def named(topic: str, *, atomic: bool) -> dict[str, Any]:
    """A write of a producer."""
    return {"topic": topic, "producer": "job", "seq": 1, "atomic": atomic}


# ---------------------------------------------------------------------------- another attempt


@COMMITS
@MODES
def test_starting_again_does_not_wait_for_a_hung_writer(
    connection: Session, connect: Connect, atomic: bool, commits: bool
) -> None:
    """The new attempt writes all of it; each message is there once, whatever becomes of the old."""
    topic = new_topic(connection)
    hung, retry = connect(), connect(autocommit=True)
    retry.execute("set lock_timeout = '5s'")
    old = begin(connection, **named(topic, atomic=atomic))
    stage(connection, old, numbers(1, 2), task=1)
    stage(hung, old, numbers(3, 4), last_chunk=False)
    again = retry
    new = begin(again, **named(topic, atomic=atomic))
    assert new != old
    refused("MQ008", lambda: stage(connection, old, numbers(1, 2), task=5))
    assert stage(again, new, numbers(1, 2), task=1) is atomic
    if atomic:
        # the hung one belongs to the old id, and is nobody's business any more
        assert stage(again, new, numbers(3, 4))
        assert again.commit_write(write_id=new).messages == 4
    else:
        # it may have been published, which only its end can tell
        late = blocked(connection, again, lambda: stage(again, new, numbers(3, 4)))
    if commits:
        hung.commit()
    else:
        hung.rollback()
    if not atomic:
        assert late.result(PATIENCE) is not commits
        assert again.commit_write(write_id=new).messages == 4
    assert contents_of(connection, topic) == (
        {0: numbers(3, 4) + numbers(1, 2)} if atomic else {0: numbers(1, 4)}
    )
    refused("MQ008", lambda: stage(hung, old, numbers(5, 6), chunk=1))
    hung.rollback()
    assert connection.begin_write(**named(topic, atomic=atomic)).duplicate


def test_a_hung_chunk_that_the_new_attempt_does_not_make(
    connection: Session, connect: Connect
) -> None:
    """Not atomic: the commit waits for it, and tells that the write was divided in another way."""
    topic = new_topic(connection, partitions=2)
    hung, committing = connect(), connect(autocommit=True)
    old = begin(connection, **named(topic, atomic=False))
    stage(hung, old, numbers(1, 2), task=7, partition=1)
    new = begin(connection, **named(topic, atomic=False))
    assert stage(connection, new, numbers(1, 2), partition=0)
    done = blocked(connection, committing, lambda: committing.commit_write(write_id=new))
    hung.commit()
    error = refused("22023", lambda: done.result(PATIENCE))
    assert "task 7" in str(error.diag.message_detail)
    # made again by the new attempt it counts
    assert not stage(connection, new, numbers(1, 2), task=7, partition=1)
    assert connection.commit_write(write_id=new).messages == 4


def test_writers_of_two_attempts_that_wait_for_the_same_chunk(
    connection: Session, connect: Connect
) -> None:
    """Not atomic: in whatever order they go on, the chunk is one of the new attempt."""
    topic = new_topic(connection)
    hung, slow, fresh = connect(), connect(autocommit=True), connect(autocommit=True)
    old = begin(connection, **named(topic, atomic=False))
    stage(hung, old, numbers(1, 2))
    slow_writer, fresh_writer = slow, fresh
    late = blocked(connection, slow_writer, lambda: stage(slow_writer, old, numbers(1, 2)))
    new = begin(connection, **named(topic, atomic=False))
    early = blocked(connection, fresh_writer, lambda: stage(fresh_writer, new, numbers(1, 2)))
    hung.commit()
    assert not late.result(PATIENCE)
    assert not early.result(PATIENCE)
    assert connection.commit_write(write_id=new).messages == 2
    assert contents_of(connection, topic) == {0: numbers(1, 2)}


@pytest.mark.parametrize("how", ["started again", "aborted"])
@MODES
def test_a_commit_that_waits_for_a_hung_writer_holds_up_nobody(
    connection: Session, connect: Connect, atomic: bool, how: str
) -> None:
    """The write can be started again or aborted meanwhile, and then the commit is refused."""
    topic = new_topic(connection)
    hung, committing = connect(), connect()
    old = begin(connection, **named(topic, atomic=atomic))
    stage(hung, old, numbers(1, 2))
    done = blocked(connection, committing, lambda: committing.commit_write(write_id=old))
    if how == "aborted":
        assert connection.abort_write(write_id=old)
        assert not connection.abort_write(write_id=old)
    new = begin(connection, **named(topic, atomic=atomic))
    hung.commit()
    refused("MQ008", lambda: done.result(PATIENCE))
    committing.rollback()
    assert stage(connection, new, numbers(1, 2)) is atomic
    assert connection.commit_write(write_id=new).messages == 2
    assert contents_of(connection, topic) == {0: numbers(1, 2)}


@COMMITS
@pytest.mark.parametrize("producer", [None, "job"])
@MODES
def test_an_abort_does_not_wait_for_a_hung_writer(
    connection: Session, connect: Connect, atomic: bool, producer: str | None, commits: bool
) -> None:
    """Atomic: what it commits afterwards is never published; else it is, like what was before."""
    topic = new_topic(connection)
    hung = connect()
    target = {"topic": topic, "atomic": atomic, "producer": producer}
    write_id = begin(connection, **target, seq=1 if producer else None)
    stage(hung, write_id, numbers(1, 2))
    assert connection.abort_write(write_id=write_id)
    refused("MQ008", lambda: stage(connection, write_id, numbers(3, 4), task=1))
    if commits:
        hung.commit()
    else:
        hung.rollback()
    refused("MQ008", connection.commit_write, write_id=write_id)
    assert contents_of(connection, topic) == ({0: numbers(1, 2)} if commits and not atomic else {})
    if producer:
        again = begin(connection, **target, seq=1)
        assert stage(connection, again, numbers(1, 2)) is (atomic or not commits)
        assert connection.commit_write(write_id=again).messages == 2
        assert contents_of(connection, topic) == {0: numbers(1, 2)}


@OLD_SNAPSHOTS
@pytest.mark.parametrize("how", ["started again", "aborted"])
def test_old_snapshots_remove_nothing_of_an_atomic_write(
    connection: Session, connect: Connect, level: str, how: str
) -> None:
    """What they do not see would be left behind for ever; cleanup removes it."""
    topic = new_topic(connection)
    write_id = begin(connection, **named(topic, atomic=True))
    session = connect(isolation_level=level)
    session.execute("select from pgq.topic")
    stage(connection, write_id, numbers(1, 2))
    if how == "aborted":
        assert session.abort_write(write_id=write_id)
    else:
        assert begin(session, **named(topic, atomic=True)) != write_id
    session.commit()
    refused("MQ008", connection.commit_write, write_id=write_id)
    again = begin(connection, **named(topic, atomic=True))
    stage(connection, again, numbers(3, 4))
    assert connection.commit_write(write_id=again).messages == 2
    assert contents_of(connection, topic) == {0: numbers(3, 4)}


# ---------------------------------------------------------------------------- what is remembered


@MODES
def test_many_may_ask_for_a_committed_write(
    connection: Session, connect: Connect, atomic: bool
) -> None:
    """In transactions that stay open: nobody waits, and newer writes can be committed."""
    target = named(new_topic(connection), atomic=atomic)
    connection.commit_write(write_id=begin(connection, **target))
    sessions = [connect() for _ in range(2)]
    for session in sessions:
        session.execute("set lock_timeout = '5s'")
        assert session.begin_write(**target).duplicate
    assert connection.begin_write(**target).duplicate


@OLD_SNAPSHOTS
@pytest.mark.parametrize("known", [True, False], ids=["known producer", "new producer"])
def test_a_snapshot_older_than_what_was_forgotten(
    connection: Session, connect: Connect, level: str, known: bool
) -> None:
    """40001: it shows neither the write nor that a thousand came after it."""
    target = {"topic": new_topic(connection), "producer": "job"}
    if known:
        make_a_thousand(connection, target, first=-2000)
    session = connect(isolation_level=level)
    session.execute("select from pgq.topic")
    make_a_thousand(connection, target, first=1)
    with pytest.raises(psycopg.errors.SerializationFailure):
        session.begin_write(**target, seq=1)
    session.rollback()
    refused("22023", session.begin_write, **target, seq=1)
    session.rollback()
    assert not session.begin_write(**target, seq=5000).duplicate


def make_a_thousand(connection: Session, target: dict[str, Any], first: int) -> None:
    """Commit 1001 writes from this number on, the last two by commit_write, which forgets one."""
    connection.commit_write(write_id=begin(connection, **target, seq=first))
    connection.execute(
        """
        insert into pgq.bulk_write
            (topic_id, producer, seq, atomic, write_id, begun_at, expires_at, committed_at)
        select topic_id, producer, n, true, gen_random_uuid(), begun_at, expires_at, committed_at
        from pgq.bulk_write as w
        join pgq.topic as t using (topic_id)
        cross join generate_series(%(first)s::bigint + 1, %(first)s::bigint + 998) as n
        where t.topic = %(topic)s and w.seq = %(first)s
        """,
        {"first": first, "topic": target["topic"]},
    )
    for seq in (first + 999, first + 1000):
        connection.commit_write(write_id=begin(connection, **target, seq=seq))
    refused("22023", connection.begin_write, **target, seq=first)
