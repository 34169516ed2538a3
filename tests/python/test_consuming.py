"""Reading a topic."""

from __future__ import annotations

import sys
import uuid
from datetime import datetime, timedelta, timezone

import psycopg
import pytest

from pgq import (
    Client,
    LeasedMessage,
    LeaseLost,
    OffsetOutOfRange,
    OffsetRange,
    PartitionOffsets,
    SeekResult,
)
from support.session import Connect


def test_the_callers_transaction_decides(readings: Client, connect: Connect) -> None:
    readings.publish_batch("readings", list(range(10)))
    connection = connect()
    client = Client(connection)
    assert client.connection is connection
    claimed = client.bulk.claim_offsets("readings", "sums", max_messages=4)
    assert claimed == OffsetRange(0, 1, 4)
    assert len(claimed) == 4
    connection.rollback()
    assert [m.payload for m in client.consume("readings", "sums", max_messages=6)] == list(range(6))
    connection.commit()
    assert client.bulk.claim_offsets("readings", "sums", partition=0) == OffsetRange(0, 7, 10)
    assert client.bulk.claim_offsets("readings", "sums") is None
    connection.rollback()


def test_leases_of_the_log(readings: Client) -> None:
    readings.publish_batch("readings", list(range(6)))
    leased = readings.poll("readings", "sums", max_messages=3, lease=timedelta(minutes=1))
    assert [m.payload for m in leased] == [0, 1, 2]
    assert isinstance(leased[0], LeasedMessage)
    token = leased[0].lease_token
    assert isinstance(token, uuid.UUID)
    assert readings.poll("readings", "sums") == []
    assert readings.extend_poll("readings", "sums", 0, token, lease=timedelta(minutes=2))
    assert readings.release_poll("readings", "sums", 0, token)
    assert not readings.release_poll("readings", "sums", 0, token)
    again = readings.poll("readings", "sums", partition=0)
    assert len(again) == 6
    with pytest.raises(LeaseLost):
        readings.commit_offset("readings", "sums", 0, 3, lease_token=token)
    assert readings.commit_offset("readings", "sums", 0, 6, lease_token=again[0].lease_token) == 6


def test_fetch_and_commit_by_hand_and_seek(readings: Client) -> None:
    readings.publish_batch("readings", list(range(5)))
    assert [m.payload for m in readings.fetch("readings", "sums", max_messages=2)] == [0, 1]
    assert readings.commit_offset("readings", "sums", 0, 2) == 2
    assert readings.commit_offset("readings", "sums", 0, 1) == 2
    assert readings.admin.seek("readings", "sums", partition=0, log_offset=2) == [SeekResult(0, 2)]
    assert readings.admin.seek("readings", "sums", start="latest") == [SeekResult(0, 6)]
    long_ago = datetime.now(timezone.utc) - timedelta(hours=1)
    assert readings.admin.seek("readings", "sums", published_at=long_ago) == [SeekResult(0, 1)]


def test_offsets_and_ranges(readings: Client) -> None:
    readings.publish_batch("readings", [1, 2, 3])
    assert readings.bulk.list_offsets("readings") == [PartitionOffsets(0, 1, 3, None)]
    (place,) = readings.bulk.list_offsets("readings", published_at=datetime.now(timezone.utc))
    assert place.log_offset == 4
    key = readings.bulk.check_range("readings", 0, 1, 3)
    found = readings.connection.execute(
        "select payload from pgq.messages where partition_id = %s order by log_offset", [key]
    ).fetchall()
    assert found == [(1,), (2,), (3,)]
    with pytest.raises(OffsetOutOfRange):
        readings.bulk.check_range("readings", 0, 1, 4)


@pytest.mark.skipif(psycopg.pq.__impl__ == "python", reason="psycopg itself is written in Python")
def test_a_message_takes_three_calls_of_python(readings: Client) -> None:
    """Two to decode its payload, one to make the object: consumers of many messages wait for it."""
    many = 500
    readings.publish_batch("readings", [{"n": n} for n in range(many)])
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        messages = readings.consume("readings", "sums", max_messages=many)
    finally:
        sys.setprofile(None)
    assert len(messages) == many
    assert calls / many < 3.5


def test_messages_are_compared_by_what_they_hold(readings: Client) -> None:
    readings.publish_batch("readings", [{"n": 1}, {"n": 1}])
    one, two = readings.fetch("readings", "sums")
    assert [one, two] == readings.consume("readings", "sums")
    assert one != two
    assert repr(one).startswith("Message(partition=0, log_offset=1, published_at=")
    with pytest.raises(AttributeError):
        one.nothing = 1  # type: ignore[attr-defined]
