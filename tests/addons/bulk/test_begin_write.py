"""begin_write: an id for many writers, and the memory of what was written before."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from support.bulk import begin, contents_of, numbers, stage, staged
from support.log import new_topic
from support.queue import new_queue
from support.session import Connect, Session, new_name, refused


def test_the_state_of_a_new_write(connection: Session) -> None:
    """An id and nothing else; another one for each write that has no producer."""
    topic = new_topic(connection)
    first, second = connection.begin_write(topic=topic), connection.begin_write(topic=topic)
    assert first == (first.write_id, None, None, False, 1 << 20)
    assert first.write_id != second.write_id
    for state in (first, second):
        assert stage(connection, state.write_id, numbers(1, 1))
        assert not connection.commit_write(write_id=state.write_id).duplicate
    assert contents_of(connection, topic) == {0: numbers(1, 1) * 2}


def test_refusals(connection: Session) -> None:
    """Targets, producers and times that make no sense."""
    topic, queue = new_topic(connection), new_queue(connection)
    refused("22004", connection.begin_write)
    refused("22004", connection.begin_write, topic=None, queue=None)
    refused("22023", connection.begin_write, topic=topic, queue=queue)
    refused("MQ001", connection.begin_write, topic="no-such-topic")
    refused("MQ002", connection.begin_write, queue="no-such-queue")
    refused("MQ001", connection.begin_write, topic=queue)
    refused("MQ001", connection.begin_write, topic="")
    refused("22023", connection.begin_write, topic=topic, producer="p")
    refused("22023", connection.begin_write, topic=topic, seq=1)
    refused("22023", connection.begin_write, topic=topic, owner="o")
    refused("22023", connection.begin_write, topic=topic, producer="p", owner="o", seq=1)
    refused("22023", connection.begin_write, topic=topic, producer="", seq=1)
    refused("22023", connection.begin_write, topic=topic, producer="p" * 256, seq=1)
    for timeout in (timedelta(0), timedelta(seconds=-1), timedelta(days=40000)):
        refused("22023", connection.begin_write, topic=topic, timeout=timeout)
    for seq in (-(2**63), 0, 2**63 - 1):
        assert not connection.begin_write(topic=topic, producer="p" * 255, seq=seq).duplicate


def test_null_is_the_default(connection: Session) -> None:
    """Atomic, for a day, as without the arguments."""
    topic = new_topic(connection)
    found = []
    for arguments in ("", ", null, null, null, null, null"):
        state = connection.execute(
            f"select * from pgq.begin_write(%s{arguments})".encode(), [topic]
        )
        (write_id, messages, committed_at, duplicate, most) = state.fetchall()[0]
        assert (messages, committed_at, duplicate, most) == (None, None, False, 1 << 20)
        found += connection.execute(
            "select atomic, (expires_at - begun_at)::text, producer, seq"
            " from pgq.bulk_write where write_id = %s",
            [write_id],
        ).fetchall()
    assert found == [(True, "1 day", None, None)] * 2


def test_expanded_it_runs_once(connection: Session) -> None:
    """A row that is taken apart is one call, of commit_write too."""
    topic = new_topic(connection)
    rows = connection.execute("select (pgq.begin_write(%s)).*", [topic]).fetchall()
    assert len(rows) == 1
    begun = connection.execute(
        "select w.write_id from pgq.bulk_write as w join pgq.topic as t using (topic_id)"
        " where t.topic = %s",
        [topic],
    ).fetchall()
    assert begun == [(rows[0][0],)]
    stage(connection, rows[0][0], numbers(1, 2))
    rows = connection.execute("select (pgq.commit_write(%s)).*", [rows[0][0]]).fetchall()
    assert [row[1::2] for row in rows] == [(2, False)]


def test_again_after_the_commit(connection: Session) -> None:
    """It was written: there is nothing to do."""
    target = {"topic": new_topic(connection, partitions=3), "producer": "job", "seq": 7}
    write_id = begin(connection, **target)
    stage(connection, write_id, numbers(1, 3))
    committed = connection.commit_write(write_id=write_id)
    again = connection.begin_write(**target)
    assert again == (write_id, 3, committed.committed_at, True, None)
    assert connection.begin_write(**target, atomic=False) == again
    assert not connection.begin_write(**{**target, "seq": 8}).duplicate
    assert not connection.begin_write(**{**target, "seq": 6}).duplicate
    assert not connection.begin_write(**{**target, "producer": "other"}).duplicate
    assert not connection.begin_write(**{**target, "topic": new_topic(connection)}).duplicate


def test_again_before_the_commit(connection: Session) -> None:
    """It starts again: a new id, nothing is left of what was staged, the old id is refused."""
    target = {"topic": new_topic(connection), "producer": "job", "seq": 1}
    old = begin(connection, **target)
    stage(connection, old, numbers(1, 3))
    state = connection.begin_write(**target)
    assert state == (state.write_id, None, None, False, 1 << 20)
    assert state.write_id != old
    assert staged(connection, old) == 0
    refused("MQ008", connection.commit_write, write_id=old)
    with pytest.raises(psycopg.Error) as caught:
        stage(connection, old, numbers(1, 3))
    assert caught.value.sqlstate == "MQ008"
    assert not connection.abort_write(write_id=old)
    stage(connection, state.write_id, numbers(4, 5))
    assert connection.commit_write(write_id=state.write_id).messages == 2
    assert contents_of(connection, target["topic"]) == {0: numbers(4, 5)}


def test_again_leaves_out_the_chunks_that_were_published(connection: Session) -> None:
    """When it is not atomic, a second run writes what the first one did not."""
    target = {"topic": new_topic(connection), "producer": "job", "seq": 1, "atomic": False}
    first = begin(connection, **target)
    stage(connection, first, numbers(1, 2), last_chunk=False)
    stage(connection, first, numbers(5, 6), task=1)
    second = begin(connection, **target)
    assert first != second
    assert not stage(connection, second, numbers(1, 2), last_chunk=False)
    assert stage(connection, second, numbers(3, 4), chunk=1)
    assert not stage(connection, second, numbers(5, 6), task=1)
    assert connection.commit_write(write_id=second).messages == 6
    assert contents_of(connection, target["topic"]) == {
        0: [*numbers(1, 2), *numbers(5, 6), b"3", b"4"]
    }


def test_an_open_write_stays_atomic_or_not(connection: Session) -> None:
    """What was begun with one value does not go on with the other."""
    for atomic in (True, False):
        target = {"topic": new_topic(connection), "producer": "job", "seq": 1}
        write_id = begin(connection, **target, atomic=atomic)
        refused("22023", connection.begin_write, **target, atomic=not atomic)
        assert connection.commit_write(write_id=write_id).messages == 0


def test_a_topic_and_a_queue_do_not_meet(connection: Session) -> None:
    """One producer may write the same number to both."""
    topic, queue = new_topic(connection), new_queue(connection)
    for target in ({"topic": topic}, {"queue": queue}):
        state = connection.begin_write(**target, producer="job", seq=1)
        assert not state.duplicate
        connection.commit_write(write_id=state.write_id)
        assert connection.begin_write(**target, producer="job", seq=1).duplicate


def test_twice_in_one_transaction(connection: Session, connect: Connect) -> None:
    """The second call starts it again, or sees that it was committed."""
    target = {"topic": new_topic(connection), "producer": "job", "seq": 1}
    with connect() as session:
        first, second = begin(session, **target), begin(session, **target)
        assert first != second
        stage(session, second, numbers(1, 2))
        assert not session.commit_write(write_id=second).duplicate
        assert session.begin_write(**target).duplicate
    assert contents_of(connection, target["topic"]) == {0: numbers(1, 2)}


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_an_old_snapshot_is_told(connection: Session, connect: Connect, level: str) -> None:
    """40001, never a second write under the same number."""
    target = {"topic": new_topic(connection), "producer": "job", "seq": 1}
    session = connect(isolation_level=level)
    session.execute("select from pgq.topic")
    begin(connection, **target)
    with pytest.raises(psycopg.errors.SerializationFailure):
        begin(session, **target)
    session.rollback()
    assert begin(session, **target)


def test_a_thousand_are_remembered(connection: Session) -> None:
    """The newest by number; what is not newer than one that was forgotten is refused."""
    target = {"topic": new_topic(connection), "producer": "job"}
    other = {"topic": new_topic(connection), "producer": "job"}
    for each in (target, other):
        connection.commit_write(write_id=begin(connection, **each, seq=1))
    # as 998 writes leave it behind
    connection.execute(
        """
        insert into pgq.bulk_write
            (topic_id, producer, seq, atomic, write_id, begun_at, expires_at, committed_at)
        select topic_id, producer, n, true, gen_random_uuid(), begun_at, expires_at, committed_at
        from pgq.bulk_write as w
        join pgq.topic as t using (topic_id)
        cross join generate_series(2, 999) as n
        where t.topic = %s
        """,
        [target["topic"]],
    )
    late = begin(connection, **target, seq=-5)
    connection.commit_write(write_id=begin(connection, **target, seq=1000))
    assert connection.begin_write(**target, seq=1).duplicate
    # the thousand and first
    last = begin(connection, **target, seq=1001)
    connection.commit_write(write_id=last)
    for seq in (1, 0):
        error = refused("22023", connection.begin_write, **target, seq=seq)
        assert "older" in str(error)
    assert connection.begin_write(**target, seq=2).duplicate
    # one that is open is known, however old; committed it can be asked for until the next one
    assert connection.commit_write(write_id=late).duplicate is False
    assert connection.commit_write(write_id=late).duplicate
    connection.commit_write(write_id=begin(connection, **target, seq=1002))
    refused("MQ008", connection.commit_write, write_id=late)
    assert connection.begin_write(**other, seq=1).duplicate
    assert not connection.begin_write(**other, seq=0).duplicate


def test_an_owner_begins_any_number_of_writes(connection: Session) -> None:
    """Each is a write of its own, with the same attempt too, and no name is remembered."""
    topic = new_topic(connection)
    states = [connection.begin_write(topic=topic, owner="job", seq=1) for _ in range(2)]
    for state in states:
        stage(connection, state.write_id, numbers(1, 1))
        assert not connection.commit_write(write_id=state.write_id).duplicate
    assert not connection.begin_write(topic=topic, owner="job", seq=1).duplicate
    assert not connection.begin_write(topic=topic, producer="job", seq=1).duplicate


def test_what_was_dropped_is_forgotten(connection: Session) -> None:
    """A topic of the same name is another one."""
    topic = new_name("bulk")
    for _ in range(2):
        connection.create_topic(topic=topic)
        state = connection.begin_write(topic=topic, producer="job", seq=1)
        assert not state.duplicate
        connection.commit_write(write_id=state.write_id)
        connection.drop_topic(topic=topic)
