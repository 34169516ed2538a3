"""claim_offsets: the next messages for a group, taken in the caller's transaction."""

from __future__ import annotations

from typing import Any

import pytest

from support.log import committed_offsets, new_topic, offsets
from support.session import Session, refused, unchanged


def claim(log: Session, topic: str, **options: Any) -> list[Any]:
    """One claim of the group readers."""
    rows: list[Any] = log.claim_offsets(topic=topic, consumer_group="readers", **options)
    return rows


def test_ranges_follow_each_other(log: Session) -> None:
    """Ascending, at most the batch, contiguous; then nothing."""
    topic = new_topic(log, messages=5)
    assert claim(log, topic, max_messages=2) == [(0, 1, 2)]
    assert claim(log, topic, max_messages=2) == [(0, 3, 4)]
    assert claim(log, topic, max_messages=2) == [(0, 5, 5)]
    assert claim(log, topic, max_messages=2) == []
    log.publish(topic=topic, payload=6)
    assert claim(log, topic) == [(0, 6, 6)]


def test_a_hundred_by_default(log: Session) -> None:
    """max_messages is 100 when it is not given, or null."""
    topic = new_topic(log, messages=250)
    assert claim(log, topic) == [(0, 1, 100)]
    assert claim(log, topic, max_messages=None, partition=None) == [(0, 101, 200)]
    assert claim(log, topic, max_messages=1_000_000) == [(0, 201, 250)]


@pytest.mark.parametrize("function", ["consume", "fetch", "poll"])
@pytest.mark.parametrize("named", [True, False], ids=["named partition", "any partition"])
def test_null_messages_are_a_hundred(log: Session, function: str, named: bool) -> None:
    """The same for all that return messages themselves, whichever way they find them."""
    topic = new_topic(log, messages=150)
    place = {"partition": 0} if named else {}
    read = getattr(log, function)
    rows = read(topic=topic, consumer_group="readers", max_messages=None, **place)
    assert offsets(rows) == list(range(1, 101))


def test_a_rolled_back_claim_is_claimable_again(log: Session) -> None:
    """Rollback, of a savepoint too, gives the range back."""
    topic = new_topic(log, messages=4)
    with log.transaction(force_rollback=True):
        assert claim(log, topic, max_messages=3) == [(0, 1, 3)]
    with log.transaction():
        assert claim(log, topic, max_messages=1) == [(0, 1, 1)]
        with log.transaction(force_rollback=True):
            assert claim(log, topic, max_messages=1) == [(0, 2, 2)]
        assert claim(log, topic, max_messages=2) == [(0, 2, 3)]
    assert committed_offsets(log, topic, "readers") == [3]


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_twice_in_one_transaction(log: Session, level: str) -> None:
    """In every isolation level the second claim goes on where the first one ended."""
    topic = new_topic(log, messages=5)
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        assert claim(log, topic, max_messages=2) == [(0, 1, 2)]
        assert claim(log, topic, max_messages=2) == [(0, 3, 4)]
        log.publish(topic=topic, payload=6)
        assert claim(log, topic, max_messages=9, partition=0) == [(0, 5, 6)]
        assert claim(log, topic) == []


def test_every_partition_has_its_turn(log: Session) -> None:
    """Without a partition, one that has a backlog; each is read fully, in order."""
    topic = new_topic(log, partitions=4, messages=4)
    turns = [claim(log, topic, max_messages=2)[0] for _ in range(8)]
    assert sorted(turns) == [(p, first, first + 1) for p in range(4) for first in (1, 3)]
    assert claim(log, topic) == []


def test_a_named_partition_only(log: Session) -> None:
    """The named one is read; when it has nothing, there is nothing, whatever the others have."""
    topic = new_topic(log, partitions=3, messages=2)
    assert claim(log, topic, partition=2) == [(2, 1, 2)]
    assert claim(log, topic, partition=2) == []
    assert committed_offsets(log, topic, "readers") == [0, 0, 2]


def test_an_empty_topic_has_nothing(log: Session) -> None:
    """No row, no error, no change."""
    topic = new_topic(log, partitions=2)
    with unchanged(log):
        assert claim(log, topic) == []
        assert claim(log, topic, partition=1) == []


def test_a_leased_partition_is_left_alone(log: Session) -> None:
    """What a member has polled is not claimed, named or not."""
    topic = new_topic(log, partitions=2, messages=1)
    polled = log.poll(topic=topic, consumer_group="readers", partition=0)
    assert claim(log, topic, partition=0) == []
    assert claim(log, topic) == [(1, 1, 1)]
    assert claim(log, topic) == []
    log.release_poll(
        topic=topic, consumer_group="readers", partition=0, lease_token=polled[0].lease_token
    )
    assert claim(log, topic) == [(0, 1, 1)]


@pytest.mark.parametrize("function", ["claim_offsets", "consume", "fetch", "poll"])
def test_refusals(log: Session, function: str) -> None:
    """All that hand out messages refuse the same: no rewind, no whole backlog, no silence."""
    topic = new_topic(log, partitions=2, messages=3)
    read = getattr(log, function)
    names = {"topic": topic, "consumer_group": "readers"}
    with unchanged(log):
        for number in (0, -1, -100, -(2**31), 1_000_001, 2**31 - 1):
            error = refused("22023", read, max_messages=number, **names)
            assert 'argument "max_messages" must be from 1 to 1000000' in str(error)
            refused("22023", read, max_messages=number, partition=0, **names)
        refused("22003", read, max_messages=2**31, **names)
        refused("MQ001", read, topic="no-such-topic", consumer_group="readers")
        refused("MQ001", read, topic="x' or true --", consumer_group="readers")
        refused("22004", read, topic=None, consumer_group="readers")
        error = refused("MQ003", read, topic=topic, consumer_group="nobody")
        assert 'unknown consumer group "nobody"' in str(error)
        refused("MQ003", read, topic=topic, consumer_group="nobody", partition=0)
        refused("MQ003", read, topic=topic, consumer_group='"')
        refused("MQ003", read, topic=topic, consumer_group="x" * 64)
        refused("22004", read, topic=topic, consumer_group=None)
        for partition in (-1, 2, 2**31 - 1):
            refused("MQ007", read, partition=partition, **names)
