"""fetch: peek at the next messages of a group."""

from __future__ import annotations

from typing import Any

import pytest

from support.log import new_topic, offsets
from support.session import Session, unchanged


def fetch(log: Session, topic: str, **options: Any) -> list[Any]:
    """One call for the group readers."""
    rows: list[Any] = log.fetch(topic=topic, consumer_group="readers", **options)
    return rows


def test_it_does_not_advance(log: Session) -> None:
    """Twice without a commit gives the same messages, ascending, at most the batch."""
    topic = new_topic(log, messages=5)
    with unchanged(log):
        assert offsets(fetch(log, topic, max_messages=2)) == [1, 2]
        assert fetch(log, topic, max_messages=2) == fetch(log, topic, max_messages=2)
    assert offsets(fetch(log, topic)) == [1, 2, 3, 4, 5]


def test_a_hundred_by_default(log: Session) -> None:
    """max_messages is 100 when it is not given."""
    assert offsets(fetch(log, new_topic(log, messages=120))) == list(range(1, 101))


def test_after_a_commit_it_starts_behind_it(log: Session) -> None:
    """Commit(n), then fetch starts at n + 1; also in a new session; nothing new, no row."""
    topic = new_topic(log, messages=4)
    log.commit_offset(topic=topic, consumer_group="readers", partition=0, committed_offset=3)
    assert offsets(fetch(log, topic)) == [4]
    log.commit_offset(topic=topic, consumer_group="readers", partition=0, committed_offset=4)
    assert fetch(log, topic) == []


def test_it_returns_key_data_and_time(log: Session) -> None:
    """The columns of fetch_range."""
    topic = new_topic(log)
    log.publish(topic=topic, payload={"a": 1}, key="k", headers={"h": 1})
    assert fetch(log, topic) == log.fetch_range(
        topic=topic, partition=0, first_offset=1, last_offset=1
    )


def test_partitions_one_after_the_other(log: Session) -> None:
    """Without a partition, those of all partitions up to the maximum; with one, that one."""
    topic = new_topic(log, partitions=3, messages=2)

    def places(**options: Any) -> list[tuple[int, int]]:
        return [(row.partition, row.log_offset) for row in fetch(log, topic, **options)]

    assert places() == [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]
    assert places(max_messages=3) == [(0, 1), (0, 2), (1, 1)]
    assert places(partition=1) == [(1, 1), (1, 2)]
    log.commit_offset(topic=topic, consumer_group="readers", partition=0, committed_offset=2)
    assert places(max_messages=3) == [(1, 1), (1, 2), (2, 1)]


def test_only_messages_of_the_topic(log: Session) -> None:
    """Another topic's messages never show."""
    topic, other = new_topic(log, messages=1), new_topic(log, messages=3)
    assert len(fetch(log, topic)) == 1
    assert len(fetch(log, other)) == 3


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_twice_in_one_transaction(log: Session, level: str) -> None:
    """It sees what its own transaction published and committed in between."""
    topic = new_topic(log, messages=1)
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        assert offsets(fetch(log, topic)) == [1]
        log.publish(topic=topic, payload=2)
        log.commit_offset(topic=topic, consumer_group="readers", partition=0, committed_offset=1)
        assert offsets(fetch(log, topic)) == [2]


def test_it_runs_in_a_read_only_transaction(log: Session) -> None:
    """It only reads."""
    topic = new_topic(log, messages=1)
    with log.transaction():
        log.execute("set transaction read only")
        assert offsets(fetch(log, topic)) == [1]
