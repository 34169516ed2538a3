"""group_lag: how far each group is behind."""

from __future__ import annotations

from typing import Any

from support.clock import Clock
from support.log import new_topic
from support.session import Session


def lag(log: Session, topic: str) -> list[Any]:
    """The figures of a topic, in order."""
    return log.execute(
        "select consumer_group, partition, committed_offset, last_offset, lag from pgq.group_lag"
        " where topic = %s order by 1, 2",
        [topic],
    ).fetchall()


def test_lag_is_the_last_offset_minus_the_committed_one(log: Session) -> None:
    """Exactly, for every group and partition."""
    topic = new_topic(log, partitions=2, messages=5, groups=("a", "b"))
    log.commit_offset(topic=topic, consumer_group="a", partition=0, committed_offset=3)
    log.claim_offsets(topic=topic, consumer_group="b", max_messages=5, partition=1)
    assert lag(log, topic) == [
        ("a", 0, 3, 5, 2),
        ("a", 1, 0, 5, 5),
        ("b", 0, 0, 5, 5),
        ("b", 1, 5, 5, 0),
    ]


def test_an_empty_partition(log: Session) -> None:
    """All figures are 0."""
    assert lag(log, new_topic(log)) == [("readers", 0, 0, 0, 0)]


def test_a_poll_does_not_count_and_a_seek_does(log: Session) -> None:
    """The committed offset moves by a commit, or by seek, back as well."""
    topic = new_topic(log, messages=3)
    log.poll(topic=topic, consumer_group="readers")
    assert lag(log, topic) == [("readers", 0, 0, 3, 3)]
    log.seek(topic=topic, consumer_group="readers", start="latest")
    assert lag(log, topic) == [("readers", 0, 3, 3, 0)]
    log.seek(topic=topic, consumer_group="readers", partition=0, log_offset=2)
    assert lag(log, topic) == [("readers", 0, 1, 3, 2)]


def test_the_age_of_the_next_message_and_the_lease(log: Session, shared_clock: Clock) -> None:
    """oldest_published_at is that of the message read next; leased_until is gone with the lease."""
    topic = new_topic(log)
    for _ in range(2):
        log.publish(topic=topic, payload=1)
        shared_clock.advance("1 minute")
    times = [row.published_at for row in log.fetch(topic=topic, consumer_group="readers")]

    def seen() -> Any:
        return log.execute(
            "select oldest_published_at, leased_until is not null from pgq.group_lag"
            " where topic = %s",
            [topic],
        ).fetchone()

    assert seen() == (times[0], False)
    log.commit_offset(topic=topic, consumer_group="readers", partition=0, committed_offset=1)
    assert seen() == (times[1], False)
    log.poll(topic=topic, consumer_group="readers")
    assert seen() == (times[1], True)
    shared_clock.advance("1 minute")
    assert seen() == (times[1], False)
    log.commit_offset(topic=topic, consumer_group="readers", partition=0, committed_offset=2)
    assert seen() == (None, False)
