"""No call of a bulk write waits without limit; what met the limit can be called again."""

from __future__ import annotations

import pytest
from psycopg import sql

from support.bulk import MODES, begin, contents_of, numbers, stage
from support.log import new_topic
from support.session import Connect, Session, refused

FUNCTIONS = ("begin_write", "write_chunk", "commit_write", "abort_write")


@pytest.fixture
def impatient(connection: Session) -> Session:
    """A connection in a database where those who wait give up soon."""
    for function in FUNCTIONS:
        connection.execute(
            sql.SQL("alter function pgq.{} set lock_timeout = '300ms'").format(
                sql.Identifier(function)
            )
        )
    return connection


def test_the_limit(connection: Session) -> None:
    """60 s, as the comments say, whatever the session has set."""
    rows = connection.execute(
        """
        select proname, obj_description(oid) ~ '60 s'
        from pg_proc
        where pronamespace = 'pgq'::regnamespace and 'lock_timeout=60s' = any(proconfig)
        """
    ).fetchall()
    assert sorted(rows) == sorted((function, True) for function in FUNCTIONS)


@MODES
def test_a_chunk_behind_a_hung_one(impatient: Session, connect: Connect, atomic: bool) -> None:
    """The same one, or in an atomic write the same task; others go on."""
    topic = new_topic(impatient, partitions=2)
    write_id = begin(impatient, topic=topic, atomic=atomic)
    hung = connect()
    stage(hung, write_id, numbers(1, 2), partition=0)
    again = {"attempt": "second", "partition": 0}
    refused("55P03", lambda: stage(impatient, write_id, numbers(1, 2), **again))
    assert stage(impatient, write_id, numbers(3, 4), task=1, partition=1)
    refused("55P03", impatient.commit_write, write_id=write_id)
    hung.rollback()
    assert stage(impatient, write_id, numbers(1, 2), **again)
    assert impatient.commit_write(write_id=write_id).messages == 4
    assert contents_of(impatient, topic) == {0: numbers(1, 2), 1: numbers(3, 4)}


@MODES
def test_beside_a_hung_commit(impatient: Session, connect: Connect, atomic: bool) -> None:
    """Whatever is called: it ends, changes nothing, and works when the other one has ended."""
    target = {"topic": new_topic(impatient), "producer": "p", "seq": 1, "atomic": atomic}
    write_id = begin(impatient, **target)
    stage(impatient, write_id, numbers(1, 2))
    hung = connect()
    hung.commit_write(write_id=write_id)
    refused("55P03", lambda: stage(impatient, write_id, numbers(3, 4), task=1))
    refused("55P03", impatient.commit_write, write_id=write_id)
    refused("55P03", impatient.abort_write, write_id=write_id)
    refused("55P03", impatient.begin_write, **target)
    hung.rollback()
    assert stage(impatient, write_id, numbers(3, 4), task=1)
    hung.commit_write(write_id=write_id)
    hung.commit()
    assert impatient.commit_write(write_id=write_id).duplicate
    assert impatient.begin_write(**target).messages == 4


def test_beside_a_hung_begin(impatient: Session, connect: Connect) -> None:
    """Of the same write; one of another number does not wait."""
    target = {"topic": new_topic(impatient), "producer": "p"}
    hung = connect()
    begin(hung, **target, seq=1)
    refused("55P03", impatient.begin_write, **target, seq=1)
    assert not impatient.begin_write(**target, seq=2).duplicate
    hung.commit()
    assert not impatient.begin_write(**target, seq=1).duplicate


@MODES
def test_behind_a_hung_publisher(impatient: Session, connect: Connect, atomic: bool) -> None:
    """Of the partition that is written to."""
    topic = new_topic(impatient)
    write_id = begin(impatient, topic=topic, atomic=atomic)
    hung = connect()
    hung.publish(topic=topic, body=b"0")
    if atomic:
        stage(impatient, write_id, numbers(1, 2))
        refused("55P03", impatient.commit_write, write_id=write_id)
        hung.commit()
    else:
        refused("55P03", lambda: stage(impatient, write_id, numbers(1, 2)))
        hung.commit()
        assert stage(impatient, write_id, numbers(1, 2))
    assert impatient.commit_write(write_id=write_id).messages == 2
    assert contents_of(impatient, topic) == {0: numbers(0, 2)}


def test_the_session_keeps_its_own_limit(impatient: Session) -> None:
    """Once the call has ended."""
    impatient.execute("set lock_timeout = '7s'")
    impatient.commit_write(write_id=begin(impatient, topic=new_topic(impatient)))
    assert impatient.execute("show lock_timeout").fetchone() == ("7s",)
