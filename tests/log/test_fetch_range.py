"""fetch_range: the messages of a range, all of them or an error."""

from __future__ import annotations

import pytest

from support.log import new_topic, offsets
from support.session import Session, refused, unchanged


def test_both_ends_are_included_and_rows_ordered(log: Session) -> None:
    """From first_offset to last_offset, ascending."""
    topic = new_topic(log, messages=5)
    arguments = {"topic": topic, "partition": 0}
    assert offsets(log.fetch_range(first_offset=2, last_offset=4, **arguments)) == [2, 3, 4]
    assert offsets(log.fetch_range(first_offset=1, last_offset=1, **arguments)) == [1]
    rows = log.fetch_range(first_offset=1, last_offset=5, **arguments)
    assert [row.payload for row in rows] == [1, 2, 3, 4, 5]


def test_an_empty_range_gives_no_rows(log: Session) -> None:
    """First above last is nothing, wherever it lies."""
    topic = new_topic(log, messages=2)
    for first, last in ((2, 1), (3, 2), (1, 0), (1, -5), (2**63 - 1, -(2**63))):
        assert log.fetch_range(topic=topic, partition=0, first_offset=first, last_offset=last) == []


def test_it_needs_no_group_and_moves_nothing(log: Session) -> None:
    """A caller that keeps its own offsets reads what it likes, as often as it likes."""
    topic = new_topic(log, messages=2)
    arguments = {"topic": topic, "partition": 0, "first_offset": 1, "last_offset": 2}
    with unchanged(log):
        assert log.fetch_range(**arguments) == log.fetch_range(**arguments)
    assert offsets(log.consume(topic=topic, consumer_group="readers")) == [1, 2]


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_twice_in_one_transaction(log: Session, level: str) -> None:
    """It sees what its own transaction published in between."""
    topic = new_topic(log, messages=1)
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=1)
        log.publish(topic=topic, payload=2)
        rows = log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=2)
        assert offsets(rows) == [1, 2]


def test_it_runs_in_a_read_only_transaction(log: Session) -> None:
    """It only reads."""
    topic = new_topic(log, messages=1)
    with log.transaction():
        log.execute("set transaction read only")
        assert offsets(
            log.fetch_range(topic=topic, partition=0, first_offset=1, last_offset=1)
        ) == [1]


def test_an_incomplete_range_is_refused(log: Session) -> None:
    """Never fewer rows than asked for without a word; DETAIL has the offsets that there are."""
    topic = new_topic(log, partitions=2, messages=3)
    top, bottom = 2**63 - 1, -(2**63)
    for first, last, missing in (
        (1, 4, 4),
        (3, 4, 4),
        (4, 4, 4),
        (7, 9, 7),
        (0, 3, 0),
        (0, 0, 0),
        (-1, 1, -1),
        (1, top, 4),
        (top, top, top),
        (0, top, 0),
        (bottom, top, bottom),
        (bottom, 1, bottom),
        (bottom, bottom, bottom),
    ):
        error = refused(
            "MQ004",
            log.fetch_range,
            topic=topic,
            partition=1,
            first_offset=first,
            last_offset=last,
        )
        assert f"offset {missing} of topic" in str(error)
        detail = "First available offset: 1; last available offset: 3."
        assert error.diag.message_detail == detail


def test_refusals(log: Session) -> None:
    """Unknown places and nulls are errors, also for an empty range."""
    topic = new_topic(log, messages=1)
    for first, last in ((1, 1), (2, 1)):
        bounds = {"first_offset": first, "last_offset": last}
        refused("MQ001", log.fetch_range, topic="no-such-topic", partition=0, **bounds)
        refused("22004", log.fetch_range, topic=None, partition=0, **bounds)
        refused("22004", log.fetch_range, topic=topic, partition=None, **bounds)
        for partition in (-1, 1, 2**31 - 1):
            refused("MQ007", log.fetch_range, topic=topic, partition=partition, **bounds)
    for first, last in ((None, 1), (1, None), (None, None)):
        refused(
            "22004",
            log.fetch_range,
            topic=topic,
            partition=0,
            first_offset=first,
            last_offset=last,
        )
