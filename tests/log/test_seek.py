"""seek: the one way back, or ahead."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from support.clock import Clock
from support.log import committed_offsets, new_topic, offsets
from support.session import Session, refused, unchanged


def seek(log: Session, topic: str, **options: Any) -> list[Any]:
    """One call for the group readers."""
    rows: list[Any] = log.seek(topic=topic, consumer_group="readers", **options)
    return rows


def test_to_an_offset(log: Session) -> None:
    """That message is read next; back and ahead; the last offset + 1 is allowed."""
    topic = new_topic(log, messages=5)
    log.consume(topic=topic, consumer_group="readers")
    assert seek(log, topic, partition=0, log_offset=2) == [(0, 2)]
    assert offsets(log.consume(topic=topic, consumer_group="readers")) == [2, 3, 4, 5]
    assert seek(log, topic, partition=0, log_offset=1) == [(0, 1)]
    assert seek(log, topic, partition=0, log_offset=6) == [(0, 6)]
    assert log.consume(topic=topic, consumer_group="readers") == []


def test_to_the_ends(log: Session) -> None:
    """earliest and latest, in one partition or in all of them."""
    topic = new_topic(log, partitions=3, messages=2)
    assert seek(log, topic, start="latest") == [(0, 3), (1, 3), (2, 3)]
    assert log.consume(topic=topic, consumer_group="readers") == []
    assert seek(log, topic, start="earliest", partition=1) == [(1, 1)]
    assert committed_offsets(log, topic, "readers") == [2, 0, 2]
    assert seek(log, topic, start="earliest") == [(0, 1), (1, 1), (2, 1)]


def test_in_an_empty_topic(log: Session) -> None:
    """Both ends are the first offset."""
    topic = new_topic(log)
    assert seek(log, topic, start="latest") == seek(log, topic, start="earliest") == [(0, 1)]
    assert seek(log, topic, published_at="now") == [(0, 1)]
    assert seek(log, topic, partition=0, log_offset=1) == [(0, 1)]


def test_to_a_time(log: Session, shared_clock: Clock) -> None:
    """The first message published then or later; halving finds it in every place."""
    topic = new_topic(log)
    for _ in range(7):
        shared_clock.advance("1 minute")
        log.publish_batch(topic=topic, payloads=[1, 2])
    rows = log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=14)
    times: list[datetime] = [row.published_at for row in rows]
    for row in rows:
        first = times.index(row.published_at) + 1
        assert seek(log, topic, published_at=row.published_at) == [(0, first)]
        later = row.published_at + timedelta(microseconds=1)
        assert seek(log, topic, published_at=later, partition=0) == [(0, first + 2)]
    assert seek(log, topic, published_at=times[0] - timedelta(days=9)) == [(0, 1)]
    assert seek(log, topic, published_at="-infinity") == [(0, 1)]
    assert seek(log, topic, published_at="infinity") == [(0, 15)]


def test_it_ends_a_lease(log: Session) -> None:
    """The member that had the partition is told so when it commits."""
    topic = new_topic(log, messages=3)
    token = log.poll(topic=topic, consumer_group="readers")[0].lease_token
    seek(log, topic, start="earliest")
    arguments = {"topic": topic, "consumer_group": "readers", "partition": 0}
    refused("MQ006", log.commit_offset, committed_offset=3, lease_token=token, **arguments)
    assert log.extend_poll(lease_token=token, **arguments) is False
    assert log.release_poll(lease_token=token, **arguments) is False
    assert offsets(log.poll(topic=topic, consumer_group="readers")) == [1, 2, 3]


def test_other_groups_stay(log: Session) -> None:
    """Only the group that is named moves."""
    topic = new_topic(log, messages=3, groups=("readers", "others"))
    seek(log, topic, start="latest")
    assert committed_offsets(log, topic, "others") == [0]


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_twice_in_one_transaction(log: Session, level: str) -> None:
    """The second call counts; what the transaction published itself is known."""
    topic = new_topic(log, messages=3)
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        assert seek(log, topic, start="latest") == [(0, 4)]
        log.publish(topic=topic, payload=4)
        assert seek(log, topic, start="latest") == [(0, 5)]
        assert seek(log, topic, partition=0, log_offset=2) == [(0, 2)]
    assert committed_offsets(log, topic, "readers") == [1]


def test_rollback(log: Session) -> None:
    """A seek that was rolled back did not happen."""
    topic = new_topic(log, messages=3)
    with log.transaction(force_rollback=True):
        seek(log, topic, start="latest")
    assert committed_offsets(log, topic, "readers") == [0]


def test_offsets_that_do_not_exist(log: Session) -> None:
    """Below the first and above the last offset + 1: out of range."""
    topic = new_topic(log, messages=3)
    with unchanged(log):
        for offset in (0, -1, 5, 2**63 - 1, -(2**63)):
            error = refused(
                "MQ004",
                log.seek,
                topic=topic,
                consumer_group="readers",
                partition=0,
                log_offset=offset,
            )
            assert f"offset {offset} of topic" in str(error)


def test_refusals(log: Session) -> None:
    """Exactly one target, a known place."""
    topic = new_topic(log, partitions=2, messages=1)
    names = {"topic": topic, "consumer_group": "readers"}
    with unchanged(log):
        refused("22023", log.seek, **names)
        refused("22023", log.seek, partition=0, **names)
        refused("22023", log.seek, partition=0, log_offset=1, start="latest", **names)
        refused("22023", log.seek, published_at="now", start="latest", **names)
        refused("22023", log.seek, partition=0, log_offset=1, published_at="now", **names)
        refused("22023", log.seek, log_offset=1, **names)
        for start in ("", "Latest", "beginning"):
            refused("22023", log.seek, start=start, **names)
        for partition in (-1, 2, 2**31 - 1):
            refused("MQ007", log.seek, start="latest", partition=partition, **names)
            refused("MQ007", log.seek, log_offset=1, partition=partition, **names)
        refused("MQ001", log.seek, topic="no-such-topic", consumer_group="g", start="latest")
        refused("MQ003", log.seek, topic=topic, consumer_group="nobody", start="latest")
        refused("22004", log.seek, topic=None, consumer_group="readers", start="latest")
        refused("22004", log.seek, topic=topic, consumer_group=None, start="latest")
