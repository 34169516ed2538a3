"""poll: a partition leased to one member of a group."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.log import committed_offsets, new_topic, offsets
from support.session import Session, refused, row, unchanged


def poll(log: Session, topic: str, **options: Any) -> list[Any]:
    """One call for the group readers."""
    rows: list[Any] = log.poll(topic=topic, consumer_group="readers", **options)
    return rows


def test_messages_with_one_token(log: Session) -> None:
    """All rows are of one partition, in order, with one token; the position does not move."""
    topic = new_topic(log, partitions=2, messages=3)
    rows = poll(log, topic, max_messages=2)
    assert offsets(rows) == [1, 2]
    assert len({(row.lease_token, row.leased_until, row.partition) for row in rows}) == 1
    assert rows[0]._fields[:2] == ("lease_token", "leased_until")
    assert {row.attempt for row in rows} == {None}
    assert [(*row[2:-2], row.cut_short) for row in rows] == log.fetch_range(
        topic=topic, partition=rows[0].partition, first_offset=1, last_offset=2
    )
    assert committed_offsets(log, topic, "readers") == [0, 0]


@pytest.mark.parametrize("partition", [None, 0])
def test_the_end_of_the_lease(log: Session, partition: int | None) -> None:
    """It comes with the messages: what group_lag shows."""
    topic = new_topic(log, messages=1)
    [held] = poll(log, topic, partition=partition, lease="1 hour")
    assert row(log, "select leased_until from pgq.group_lag where topic = %s", [topic]) == (
        held.leased_until,
    )


def test_other_members_get_other_partitions(log: Session) -> None:
    """Until a lease ends its partition is skipped; when all are leased there is nothing."""
    topic = new_topic(log, partitions=3, messages=2)
    taken = [poll(log, topic) for _ in range(3)]
    assert {rows[0].partition for rows in taken} == {0, 1, 2}
    assert len({rows[0].lease_token for rows in taken}) == 3
    with unchanged(log):
        assert poll(log, topic) == []
        assert poll(log, topic, partition=1) == []


def test_other_groups_are_not_concerned(log: Session) -> None:
    """A lease of one group is none of another."""
    topic = new_topic(log, messages=2, groups=("readers", "others"))
    poll(log, topic)
    assert offsets(log.poll(topic=topic, consumer_group="others")) == [1, 2]


def test_the_lease_ends_and_another_member_takes_over(log: Session, shared_clock: Clock) -> None:
    """Thirty seconds by default; then the same messages go out under a new token."""
    topic = new_topic(log, messages=2)
    first = poll(log, topic)
    shared_clock.advance("29 seconds")
    assert poll(log, topic) == []
    shared_clock.advance("2 seconds")
    second = poll(log, topic)
    assert offsets(second) == [1, 2]
    assert second[0].lease_token != first[0].lease_token
    arguments = {"topic": topic, "consumer_group": "readers", "partition": 0}
    stale = first[0].lease_token
    with unchanged(log):
        refused("MQ006", log.commit_offset, committed_offset=2, lease_token=stale, **arguments)
        assert log.extend_poll(lease_token=stale, **arguments) is False
        assert log.release_poll(lease_token=stale, **arguments) is False
    assert (
        log.commit_offset(committed_offset=2, lease_token=second[0].lease_token, **arguments) == 2
    )


def test_null_is_the_default(log: Session, shared_clock: Clock) -> None:
    """Null for what may be left out: a hundred messages of any partition, for thirty seconds."""
    topic = new_topic(log, messages=101)
    assert len(poll(log, topic, max_messages=None, partition=None, lease=None)) == 100
    shared_clock.advance("29 seconds")
    assert poll(log, topic) == []
    shared_clock.advance("1 second")
    assert offsets(poll(log, topic, max_messages=1)) == [1]


def test_the_length_of_the_lease(log: Session, shared_clock: Clock) -> None:
    """It is counted from the call, by the clock; the view shows until when."""
    topic = new_topic(log, messages=1)
    poll(log, topic, lease="1 hour")
    until = log.execute(
        "select leased_until - pgq._clock() between '59 minutes' and '1 hour' from pgq.group_lag"
        " where topic = %s",
        [topic],
    ).fetchone()
    assert until == (True,)
    shared_clock.advance("59 minutes")
    assert poll(log, topic) == []
    shared_clock.advance("61 seconds")
    assert len(poll(log, topic, lease="1 microsecond")) == 1
    assert len(poll(log, topic)) == 1


def test_a_lease_taken_late_in_a_transaction_is_not_born_expired(
    shared_connect: Any, log: Session, shared_clock: Clock
) -> None:
    """It counts from the call and not from the begin of the transaction."""
    topic = new_topic(log, messages=1)
    with log.transaction():
        log.execute("select 1")
        shared_clock.advance("1 hour")
        poll(log, topic, lease="1 minute")
    assert poll(log, topic) == []


def test_in_order_within_a_partition(log: Session) -> None:
    """The next poll of a partition begins where the last commit ended."""
    topic = new_topic(log, messages=5)
    seen: list[int] = []
    while rows := poll(log, topic, max_messages=2):
        seen += offsets(rows)
        log.commit_offset(
            topic=topic,
            consumer_group="readers",
            partition=0,
            committed_offset=rows[-1].log_offset,
            lease_token=rows[-1].lease_token,
        )
    assert seen == [1, 2, 3, 4, 5]


def test_rollback_gives_the_partition_back(log: Session) -> None:
    """A poll that did not commit leased nothing."""
    topic = new_topic(log, messages=1)
    with unchanged(log), log.transaction(force_rollback=True):
        assert len(poll(log, topic)) == 1
    assert len(poll(log, topic)) == 1


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_twice_in_one_transaction(log: Session, level: str) -> None:
    """The second call gets another partition, the third one nothing."""
    topic = new_topic(log, partitions=2, messages=1)
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        first, second = poll(log, topic), poll(log, topic)
        assert {first[0].partition, second[0].partition} == {0, 1}
        assert first[0].lease_token != second[0].lease_token
        assert poll(log, topic) == []


def test_nothing_to_read_leases_nothing(log: Session) -> None:
    """A group that has caught up leaves no lease behind."""
    topic = new_topic(log, partitions=2)
    with unchanged(log):
        assert poll(log, topic) == []
        assert poll(log, topic, partition=1) == []


def test_leases_that_are_refused(log: Session) -> None:
    """Zero, negative and endless leases."""
    topic = new_topic(log, messages=1)
    with unchanged(log):
        for lease in ("0", "-1 second", "36501 days"):
            refused("22023", log.poll, topic=topic, consumer_group="readers", lease=lease)
        refused("22007", log.poll, topic=topic, consumer_group="readers", lease="soon")
