"""abort_write: what is given up is removed, and those who still write are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from bulk_support import NOBODY, begin, contents_of, new_topic, numbers, stage, staged
from log_support import refused
from pgq import Client

AnyConnection = psycopg.Connection[Any]
Connect = Callable[..., AnyConnection]


def test_staged_chunks_are_removed(client: Client, connection: AnyConnection) -> None:
    """And the write is not known any more."""
    topic = new_topic(client)
    target = {"topic": topic, "producer": "job", "seq": 1}
    write_id = begin(client, **target)
    stage(client, write_id, numbers(1, 3))
    assert client.abort_write(write_id)
    assert not client.abort_write(write_id)
    assert staged(connection, write_id) == 0
    assert contents_of(client, topic) == {}
    for sqlstate, late in (
        ("MQ008", lambda: stage(client, write_id, numbers(1, 3))),
        ("MQ008", lambda: client.commit_write(write_id)),
    ):
        refused(sqlstate, late)
    write_id = begin(client, **target)
    stage(client, write_id, numbers(4, 5))
    assert not client.commit_write(write_id).repeated
    assert contents_of(client, topic) == {0: numbers(4, 5)}


@pytest.mark.parametrize("producer", [None, "job"])
def test_published_chunks_stay(client: Client, producer: str | None) -> None:
    """A producer that starts it again writes what is missing."""
    topic = new_topic(client)
    target = {"topic": topic, "atomic": False}
    if producer:
        target.update(producer=producer, seq=1)
    write_id = begin(client, **target)
    stage(client, write_id, numbers(1, 2))
    assert client.abort_write(write_id)
    assert not client.abort_write(write_id)
    assert contents_of(client, topic) == {0: numbers(1, 2)}
    refused("MQ008", lambda: stage(client, write_id, numbers(3, 4), chunk=1))
    again = begin(client, **target)
    assert stage(client, again, numbers(1, 2)) is (producer is None)


def test_a_committed_write_stays(client: Client) -> None:
    """False, and it is known as before."""
    topic = new_topic(client)
    for atomic in (True, False):
        write_id = begin(client, topic=topic, atomic=atomic)
        client.commit_write(write_id)
        assert not client.abort_write(write_id)
        assert client.commit_write(write_id).repeated


def test_unknown_writes(client: Client) -> None:
    """False for an id of nobody, an error for none."""
    assert not client.abort_write(NOBODY)
    refused("22004", client.abort_write, write_id=None)


def test_twice_in_one_transaction_and_rolled_back(client: Client, connect: Connect) -> None:
    """It is part of the caller's transaction."""
    topic = new_topic(client)
    write_id = begin(client, topic=topic)
    stage(client, write_id, numbers(1, 2))
    session = connect()
    assert Client(session).abort_write(write_id)
    assert not Client(session).abort_write(write_id)
    session.rollback()
    assert client.commit_write(write_id).messages == 2
