"""Writers that hang or come late, beside another attempt of their write, or its end."""

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
    new_topic,
    numbers,
    stage,
)
from log_support import PATIENCE, refused
from pgq import Client, WriteLost

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


def named(topic: str, *, atomic: bool) -> dict[str, Any]:
    """A write of a producer."""
    return {"topic": topic, "producer": "job", "seq": 1, "atomic": atomic}


# ---------------------------------------------------------------------------- another attempt


@COMMITS
@MODES
def test_starting_again_does_not_wait_for_a_hung_writer(
    client: Client, connect: Connect, atomic: bool, commits: bool
) -> None:
    """The new attempt writes all of it; each message is there once, whatever becomes of the old."""
    topic = new_topic(client)
    hung, retry = connect(), connect(autocommit=True)
    retry.execute("set lock_timeout = '5s'")
    old = begin(client, **named(topic, atomic=atomic))
    stage(client, old, numbers(1, 2), task=1)
    stage(Client(hung), old, numbers(3, 4), last_chunk=False)
    again = Client(retry)
    new = begin(again, **named(topic, atomic=atomic))
    assert new != old
    with pytest.raises(WriteLost):
        stage(client, old, numbers(1, 2), task=5)
    assert stage(again, new, numbers(1, 2), task=1) is atomic
    if atomic:
        # the hung one belongs to the old id, and is nobody's business any more
        assert stage(again, new, numbers(3, 4))
        assert again.commit_write(new).messages == 4
    else:
        # it may have been published, which only its end can tell
        late = blocked(client, again, lambda: stage(again, new, numbers(3, 4)))
    if commits:
        hung.commit()
    else:
        hung.rollback()
    if not atomic:
        assert late.result(PATIENCE) is not commits
        assert again.commit_write(new).messages == 4
    assert contents_of(client, topic) == (
        {0: numbers(3, 4) + numbers(1, 2)} if atomic else {0: numbers(1, 4)}
    )
    with pytest.raises(WriteLost):
        stage(Client(hung), old, numbers(5, 6), chunk=1)
    hung.rollback()
    assert client.begin_write(**named(topic, atomic=atomic)).repeated


def test_a_hung_chunk_that_the_new_attempt_does_not_make(client: Client, connect: Connect) -> None:
    """Not atomic: the commit waits for it, and tells that the write was divided in another way."""
    topic = new_topic(client, partitions=2)
    hung, committing = connect(), connect(autocommit=True)
    old = begin(client, **named(topic, atomic=False))
    stage(Client(hung), old, numbers(1, 2), task=7, partition=1)
    new = begin(client, **named(topic, atomic=False))
    assert stage(client, new, numbers(1, 2), partition=0)
    committer = Client(committing)
    done = blocked(client, committer, lambda: committer.commit_write(new))
    hung.commit()
    error = refused("22023", lambda: done.result(PATIENCE))
    assert "task 7" in str(error.diag.message_detail)
    # made again by the new attempt it counts
    assert not stage(client, new, numbers(1, 2), task=7, partition=1)
    assert client.commit_write(new).messages == 4


def test_writers_of_two_attempts_that_wait_for_the_same_chunk(
    client: Client, connect: Connect
) -> None:
    """Not atomic: in whatever order they go on, the chunk is one of the new attempt."""
    topic = new_topic(client)
    hung, slow, fresh = connect(), connect(autocommit=True), connect(autocommit=True)
    old = begin(client, **named(topic, atomic=False))
    stage(Client(hung), old, numbers(1, 2))
    slow_writer, fresh_writer = Client(slow), Client(fresh)
    late = blocked(client, slow_writer, lambda: stage(slow_writer, old, numbers(1, 2)))
    new = begin(client, **named(topic, atomic=False))
    early = blocked(client, fresh_writer, lambda: stage(fresh_writer, new, numbers(1, 2)))
    hung.commit()
    assert not late.result(PATIENCE)
    assert not early.result(PATIENCE)
    assert client.commit_write(new).messages == 2
    assert contents_of(client, topic) == {0: numbers(1, 2)}


@pytest.mark.parametrize("how", ["started again", "aborted"])
@MODES
def test_a_commit_that_waits_for_a_hung_writer_holds_up_nobody(
    client: Client, connect: Connect, atomic: bool, how: str
) -> None:
    """The write can be started again or aborted meanwhile, and then the commit is refused."""
    topic = new_topic(client)
    hung, committing = connect(), connect()
    old = begin(client, **named(topic, atomic=atomic))
    stage(Client(hung), old, numbers(1, 2))
    committer = Client(committing)
    done = blocked(client, committer, lambda: committer.commit_write(old))
    if how == "aborted":
        assert client.abort_write(old)
        assert not client.abort_write(old)
    new = begin(client, **named(topic, atomic=atomic))
    hung.commit()
    with pytest.raises(WriteLost):
        done.result(PATIENCE)
    committing.rollback()
    assert stage(client, new, numbers(1, 2)) is atomic
    assert client.commit_write(new).messages == 2
    assert contents_of(client, topic) == {0: numbers(1, 2)}


@COMMITS
@pytest.mark.parametrize("producer", [None, "job"])
@MODES
def test_an_abort_does_not_wait_for_a_hung_writer(
    client: Client, connect: Connect, atomic: bool, producer: str | None, commits: bool
) -> None:
    """Atomic: what it commits afterwards is never published; else it is, like what was before."""
    topic = new_topic(client)
    hung = connect()
    target = {"topic": topic, "atomic": atomic, "producer": producer}
    write_id = begin(client, **target, seq=1 if producer else None)
    stage(Client(hung), write_id, numbers(1, 2))
    assert client.abort_write(write_id)
    with pytest.raises(WriteLost):
        stage(client, write_id, numbers(3, 4), task=1)
    if commits:
        hung.commit()
    else:
        hung.rollback()
    with pytest.raises(WriteLost):
        client.commit_write(write_id)
    assert contents_of(client, topic) == ({0: numbers(1, 2)} if commits and not atomic else {})
    if producer:
        again = begin(client, **target, seq=1)
        assert stage(client, again, numbers(1, 2)) is (atomic or not commits)
        assert client.commit_write(again).messages == 2
        assert contents_of(client, topic) == {0: numbers(1, 2)}


@OLD_SNAPSHOTS
@pytest.mark.parametrize("how", ["started again", "aborted"])
def test_old_snapshots_remove_nothing_of_an_atomic_write(
    client: Client, connect: Connect, level: str, how: str
) -> None:
    """What they do not see would be left behind for ever; cleanup removes it."""
    topic = new_topic(client)
    write_id = begin(client, **named(topic, atomic=True))
    session = connect(isolation_level=level)
    session.execute("select from pgq.topic")
    stage(client, write_id, numbers(1, 2))
    if how == "aborted":
        assert Client(session).abort_write(write_id)
    else:
        assert begin(Client(session), **named(topic, atomic=True)) != write_id
    session.commit()
    with pytest.raises(WriteLost):
        client.commit_write(write_id)
    again = begin(client, **named(topic, atomic=True))
    stage(client, again, numbers(3, 4))
    assert client.commit_write(again).messages == 2
    assert contents_of(client, topic) == {0: numbers(3, 4)}


# ---------------------------------------------------------------------------- what is remembered


@MODES
def test_many_may_ask_for_a_committed_write(client: Client, connect: Connect, atomic: bool) -> None:
    """In transactions that stay open: nobody waits, and newer writes can be committed."""
    target = named(new_topic(client), atomic=atomic)
    client.commit_write(begin(client, **target))
    sessions = [connect() for _ in range(2)]
    for session in sessions:
        session.execute("set lock_timeout = '5s'")
        assert Client(session).begin_write(**target).repeated
    assert client.begin_write(**target).repeated


@OLD_SNAPSHOTS
@pytest.mark.parametrize("known", [True, False], ids=["known producer", "new producer"])
def test_a_snapshot_older_than_what_was_forgotten(
    client: Client, connect: Connect, level: str, known: bool
) -> None:
    """40001: it shows neither the write nor that a thousand came after it."""
    target = {"topic": new_topic(client), "producer": "job"}
    if known:
        make_a_thousand(client, target, first=-2000)
    session = connect(isolation_level=level)
    session.execute("select from pgq.topic")
    make_a_thousand(client, target, first=1)
    with pytest.raises(psycopg.errors.SerializationFailure):
        Client(session).begin_write(**target, seq=1)
    session.rollback()
    refused("22023", Client(session).begin_write, **target, seq=1)
    session.rollback()
    assert not Client(session).begin_write(**target, seq=5000).repeated


def make_a_thousand(client: Client, target: dict[str, Any], first: int) -> None:
    """Commit 1001 writes from this number on, the last two by commit_write, which forgets one."""
    client.commit_write(begin(client, **target, seq=first))
    client.connection.execute(
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
        client.commit_write(begin(client, **target, seq=seq))
    refused("22023", client.begin_write, **target, seq=first)
