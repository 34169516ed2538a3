"""No call of a bulk write waits without limit; what met the limit can be called again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from bulk_support import MODES, begin, contents_of, new_topic, numbers, stage
from log_support import refused
from pgq import Client

AnyConnection = psycopg.Connection[Any]
Connect = Callable[..., AnyConnection]
FUNCTIONS = ("begin_write", "write_chunk", "commit_write", "abort_write")


@pytest.fixture
def client(connection: AnyConnection) -> Client:
    """A client in a database where those who wait give up soon."""
    for function in FUNCTIONS:
        connection.execute(
            sql.SQL("alter function pgq.{} set lock_timeout = '300ms'").format(
                sql.Identifier(function)
            )
        )
    return Client(connection)


def test_the_limit(connection: AnyConnection) -> None:
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
def test_a_chunk_behind_a_hung_one(client: Client, connect: Connect, atomic: bool) -> None:
    """The same one, or in an atomic write the same task; others go on."""
    topic = new_topic(client, partitions=2)
    write_id = begin(client, topic=topic, atomic=atomic)
    hung = connect()
    stage(Client(hung), write_id, numbers(1, 2), partition=0)
    again = {"attempt": "second", "partition": 0}
    refused("55P03", lambda: stage(client, write_id, numbers(1, 2), **again))
    assert stage(client, write_id, numbers(3, 4), task=1, partition=1)
    refused("55P03", client.commit_write, write_id=write_id)
    hung.rollback()
    assert stage(client, write_id, numbers(1, 2), **again)
    assert client.commit_write(write_id).messages == 4
    assert contents_of(client, topic) == {0: numbers(1, 2), 1: numbers(3, 4)}


@MODES
def test_beside_a_hung_commit(client: Client, connect: Connect, atomic: bool) -> None:
    """Whatever is called: it ends, changes nothing, and works when the other one has ended."""
    target = {"topic": new_topic(client), "producer": "p", "seq": 1, "atomic": atomic}
    write_id = begin(client, **target)
    stage(client, write_id, numbers(1, 2))
    hung = connect()
    Client(hung).commit_write(write_id)
    refused("55P03", lambda: stage(client, write_id, numbers(3, 4), task=1))
    refused("55P03", client.commit_write, write_id=write_id)
    refused("55P03", client.abort_write, write_id=write_id)
    refused("55P03", client.begin_write, **target)
    hung.rollback()
    assert stage(client, write_id, numbers(3, 4), task=1)
    Client(hung).commit_write(write_id)
    hung.commit()
    assert client.commit_write(write_id).repeated
    assert client.begin_write(**target).messages == 4


def test_beside_a_hung_begin(client: Client, connect: Connect) -> None:
    """Of the same write; one of another number does not wait."""
    target = {"topic": new_topic(client), "producer": "p"}
    hung = connect()
    begin(Client(hung), **target, seq=1)
    refused("55P03", client.begin_write, **target, seq=1)
    assert not client.begin_write(**target, seq=2).repeated
    hung.commit()
    assert not client.begin_write(**target, seq=1).repeated


@MODES
def test_behind_a_hung_publisher(client: Client, connect: Connect, atomic: bool) -> None:
    """Of the partition that is written to."""
    topic = new_topic(client)
    write_id = begin(client, topic=topic, atomic=atomic)
    hung = connect()
    Client(hung).publish(topic, body=b"0")
    if atomic:
        stage(client, write_id, numbers(1, 2))
        refused("55P03", client.commit_write, write_id=write_id)
        hung.commit()
    else:
        refused("55P03", lambda: stage(client, write_id, numbers(1, 2)))
        hung.commit()
        assert stage(client, write_id, numbers(1, 2))
    assert client.commit_write(write_id).messages == 2
    assert contents_of(client, topic) == {0: numbers(0, 2)}


def test_the_session_keeps_its_own_limit(client: Client) -> None:
    """Once the call has ended."""
    client.connection.execute("set lock_timeout = '7s'")
    client.commit_write(begin(client, topic=new_topic(client)))
    assert client.connection.execute("show lock_timeout").fetchone() == ("7s",)
