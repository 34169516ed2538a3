"""write_chunk: contents one behind the other become messages, of one attempt of each task."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from support.bulk import MODES, NOBODY, begin, contents_of, numbers, pack, stage, staged, waiting
from support.log import new_topic
from support.queue import new_queue
from support.session import Connect, Session, refused


def chunk(**changed: Any) -> dict[str, Any]:
    """The arguments of a good chunk, but for what is changed."""
    packed, lengths = pack(numbers(1, 3))
    good = {
        "task": 0,
        "task_attempt": "first",
        "chunk": 0,
        "lengths": lengths,
        "last_chunk": True,
        "packed_bodies": packed,
    }
    return {**good, **changed}


@MODES
def test_contents_are_cut_by_their_lengths(connection: Session, atomic: bool) -> None:
    """Also empty ones, at both ends, and bytes of all kinds."""
    topic = new_topic(connection)
    contents = [b"", b"one", b"\x00\xff", b"", b"four" * 5000, b""]
    write_id = begin(connection, topic=topic, atomic=atomic)
    assert stage(connection, write_id, contents)
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {0: contents}


@MODES
def test_contents_may_be_json(connection: Session, atomic: bool) -> None:
    """Then they are payloads."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    assert stage(connection, write_id, [b'{"a": "\xc3\xa4"}', b"[1]", b"7", b'""'], json=True)
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {0: [{"a": "ä"}, [1], 7, ""]}


@MODES
def test_an_empty_chunk_is_one(connection: Session, atomic: bool) -> None:
    """A task without rows may say so."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    assert stage(connection, write_id, [])
    assert stage(connection, write_id, [], task=1, json=True)
    assert connection.commit_write(write_id=write_id).messages == 0
    assert contents_of(connection, topic) == {}


@MODES
def test_bad_contents_are_refused_at_once(connection: Session, atomic: bool) -> None:
    """By the call that brings them: the task that made them is to fail, not the commit."""
    topic = new_topic(connection, partitions=2)
    write_id = begin(connection, topic=topic, atomic=atomic)
    before = staged(connection, write_id)
    for sqlstate, changed in (
        ("22004", {"lengths": [1, None, 1]}),
        ("22023", {"lengths": [2, -1, 2]}),
        ("22023", {"lengths": [1, 1]}),
        ("22023", {"lengths": [1, 1, 2]}),
        ("22023", {"lengths": []}),
        ("22023", {"packed_bodies": b""}),
        ("22023", {"keys": ["a"]}),
        ("22023", {"headers": [{}, {}]}),
        ("22023", {"headers": [{}, {}, []]}),
        ("22P02", {"packed_bodies": None, "packed_payloads": b"1{3"}),
        ("22021", {"packed_bodies": None, "packed_payloads": b"1\xff3"}),
        ("22P05", {"packed_bodies": None, "packed_payloads": b'"\\u0000"', "lengths": [8]}),
        ("22003", {"packed_bodies": None, "packed_payloads": b"1e200000", "lengths": [8]}),
        ("54001", {"packed_bodies": None, "packed_payloads": b"[" * 200000, "lengths": [200000]}),
        ("22023", {"packed_payloads": b"123"}),
        ("22004", {"packed_bodies": None}),
        ("MQ007", {"partition": 2}),
        ("MQ007", {"partition": -1}),
        ("22023", {"task": -1}),
        ("22023", {"chunk": -1}),
        ("22023", {"labels": ["a", "b", "c"]}),
        ("22023", {"priority": 0}),
        ("22023", {"delay": timedelta(0)}),
    ):
        refused(sqlstate, connection.write_chunk, write_id=write_id, **chunk(**changed))
    for name in ("task", "task_attempt", "chunk", "lengths"):
        refused("22004", connection.write_chunk, write_id=write_id, **chunk(**{name: None}))
    assert staged(connection, write_id) == before
    assert connection.commit_write(write_id=write_id).messages == 0


@pytest.mark.parametrize("target", ["topic", "queue"])
@MODES
def test_null_is_the_default(connection: Session, atomic: bool, target: str) -> None:
    """In every argument that may be left out; the chunk is then not the last one."""
    place = (
        {"topic": new_topic(connection)} if target == "topic" else {"queue": new_queue(connection)}
    )
    write_id = begin(connection, **place, atomic=atomic)
    optional = "packed_payloads keys headers partition delay priority labels last_chunk starts"
    for number, names in enumerate(("", optional)):
        nulls = "".join(f", {name} => null" for name in names.split())
        [is_new] = connection.execute(
            f"select pgq.write_chunk(%s, 0, 'a', {number}, '{{1,1}}', packed_bodies => '12'{nulls})"
            .encode(),
            [write_id],
        ).fetchall()  # fmt: skip
        assert is_new == (True,)
    if atomic:
        refused("MQ008", connection.commit_write, write_id=write_id)
    assert stage(connection, write_id, [], attempt="a", chunk=2)
    assert connection.commit_write(write_id=write_id).messages == 4


@MODES
def test_what_is_for_jobs_only_and_for_messages_only(connection: Session, atomic: bool) -> None:
    """Nothing is left out without a word."""
    write_id = begin(connection, queue=new_queue(connection), atomic=atomic)
    refused("22023", connection.write_chunk, write_id=write_id, **chunk(partition=0))


@MODES
def test_unknown_writes_are_refused(connection: Session, atomic: bool) -> None:
    """Never begun, started again, aborted, committed, or no id at all."""
    refused("22004", connection.write_chunk, write_id=None, **chunk())
    refused("MQ008", connection.write_chunk, write_id=NOBODY, **chunk())
    target = {"topic": new_topic(connection), "producer": "p", "seq": 1, "atomic": atomic}
    first = begin(connection, **target)
    second = begin(connection, **target)
    assert first != second
    refused("MQ008", connection.write_chunk, write_id=first, **chunk())
    connection.abort_write(write_id=second)
    refused("MQ008", connection.write_chunk, write_id=second, **chunk())
    third = begin(connection, **target)
    connection.commit_write(write_id=third)
    error = refused("MQ008", connection.write_chunk, write_id=third, **chunk())
    assert "too late" in str(error.diag.message_detail)


@MODES
def test_a_dropped_topic_takes_no_chunk(connection: Session, atomic: bool) -> None:
    """Nor does one of the same name that was made anew."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    connection.drop_topic(topic=topic)
    connection.create_topic(topic=topic)
    refused("MQ008", connection.write_chunk, write_id=write_id, **chunk())
    queue = new_queue(connection)
    write_id = begin(connection, queue=queue, atomic=atomic)
    connection.drop_queue(queue=queue)
    refused("MQ008", connection.write_chunk, write_id=write_id, **chunk())


# ---------------------------------------------------------------------------- atomic


def test_the_first_attempt_that_committed_counts(connection: Session) -> None:
    """Chunks of another attempt at the same task are left out."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    assert stage(connection, write_id, numbers(1, 2), attempt="one")
    assert not stage(connection, write_id, numbers(3, 5), attempt="two")
    assert not stage(connection, write_id, numbers(3, 5), attempt="two", chunk=1)
    assert stage(connection, write_id, numbers(6, 6), attempt="two", task=1)
    assert connection.commit_write(write_id=write_id).messages == 3
    assert contents_of(connection, topic) == {0: numbers(1, 2) + numbers(6, 6)}


def test_an_attempt_that_rolled_back_does_not_count(connection: Session, connect: Connect) -> None:
    """The next one does."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    other = connect()
    assert stage(other, write_id, numbers(1, 2), attempt="one")
    other.rollback()
    assert stage(connection, write_id, numbers(3, 5), attempt="two")
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {0: numbers(3, 5)}


def test_the_same_chunk_again_in_an_atomic_write(connection: Session, connect: Connect) -> None:
    """It is left out; other contents under its number are an error."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    with connect() as session:
        assert stage(session, write_id, numbers(1, 2), keys=["a", None], last_chunk=False)
        assert not stage(session, write_id, numbers(1, 2), keys=["a", None])
    for more in ({"keys": ["a", "b"]}, {}, {"keys": ["a", None], "headers": [{}, {}]}):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            stage(connection, write_id, numbers(1, 2), **more)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        stage(connection, write_id, numbers(2, 3), keys=["a", None])
    assert connection.commit_write(write_id=write_id).messages == 2
    assert contents_of(connection, topic) == {0: numbers(1, 2)}


# ---------------------------------------------------------------------------- not atomic


def test_a_chunk_is_published_at_once(connection: Session) -> None:
    """Seen before the write is committed."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=False)
    assert stage(connection, write_id, numbers(1, 2), last_chunk=False)
    assert contents_of(connection, topic) == {0: numbers(1, 2)}
    assert stage(connection, write_id, numbers(3, 3), chunk=1)
    assert contents_of(connection, topic) == {0: numbers(1, 3)}
    assert connection.commit_write(write_id=write_id).messages == 3
    assert contents_of(connection, topic) == {0: numbers(1, 3)}


def test_a_repeated_chunk_is_left_out(connection: Session, connect: Connect) -> None:
    """By task and number, whatever the attempt; twice in one transaction too."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=False)
    with connect() as session:
        assert stage(session, write_id, numbers(1, 2))
        assert not stage(session, write_id, numbers(1, 2))
    assert not stage(connection, write_id, numbers(1, 2), attempt="second")
    assert stage(connection, write_id, numbers(1, 2), task=1)
    assert stage(connection, write_id, numbers(1, 2), chunk=1)
    assert connection.commit_write(write_id=write_id).messages == 6
    assert contents_of(connection, topic) == {0: numbers(1, 2) * 3}


def test_a_repeated_chunk_with_other_contents_is_refused(connection: Session) -> None:
    """Whatever differs: the task did not do the same again."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=False)
    assert connection.write_chunk(write_id=write_id, **chunk(keys=["a", "b", None]))
    for changed in (
        {"packed_bodies": b"124"},
        {"lengths": [0, 2, 1]},
        {"keys": ["a", None, "b"]},
        {"keys": None},
        {"headers": [{}, {}, {}]},
        {"partition": 0},
        {"packed_bodies": None, "packed_payloads": b"123"},
    ):
        arguments = chunk(**{"keys": ["a", "b", None], **changed})
        refused("22023", connection.write_chunk, write_id=write_id, **arguments)
    assert not connection.write_chunk(write_id=write_id, **chunk(keys=["a", "b", None]))
    assert contents_of(connection, topic) == {0: numbers(1, 3)}


def test_a_chunk_that_fails_may_be_tried_again(connection: Session) -> None:
    """What noted it is rolled back with it."""
    queue = new_queue(connection)
    write_id = begin(connection, queue=queue, atomic=False)
    refused("22023", connection.write_chunk, write_id=write_id, **chunk(priority=10))
    assert connection.write_chunk(write_id=write_id, **chunk(priority=9))
    assert waiting(connection, queue) == numbers(1, 3)


@pytest.mark.parametrize("level", ["read uncommitted", "repeatable read", "serializable"])
@MODES
def test_other_isolation_levels(
    connection: Session, connect: Connect, level: str, atomic: bool
) -> None:
    """Writers may have any; two calls in one transaction."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    with connect(isolation_level=level) as session:
        assert stage(session, write_id, numbers(1, 2), last_chunk=False)
        assert stage(session, write_id, numbers(3, 4), chunk=1)
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {0: numbers(1, 4)}


@MODES
def test_an_old_snapshot_is_told(connection: Session, connect: Connect, atomic: bool) -> None:
    """Under REPEATABLE READ another attempt that committed meanwhile is 40001, never twice."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, atomic=atomic)
    session = connect(isolation_level="repeatable read")
    session.execute("select from pgq.topic")
    assert stage(connection, write_id, numbers(1, 2))
    with pytest.raises(psycopg.errors.SerializationFailure):
        stage(session, write_id, numbers(1, 2), attempt="second")
    session.rollback()
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {0: numbers(1, 2)}


@MODES
def test_a_write_that_began_since(connection: Session, connect: Connect, atomic: bool) -> None:
    """An old snapshot does not show it: 40001, while one of nobody is lost there too."""
    topic = new_topic(connection)
    session = connect(isolation_level="repeatable read")
    session.execute("select from pgq.topic")
    write_id = begin(connection, topic=topic, atomic=atomic)
    refused("40001", lambda: stage(session, write_id, numbers(1, 2)))
    session.rollback()
    refused("MQ008", lambda: stage(session, NOBODY, numbers(1, 2)))
    session.rollback()
    assert stage(session, write_id, numbers(1, 2))
