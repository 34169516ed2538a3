"""drop_topic: a topic goes with all that is its own, and nothing else does."""

from __future__ import annotations

from support.log import new_topic, offsets
from support.session import Session, new_name, refused, unchanged


def test_everything_of_it_is_gone(log: Session) -> None:
    """Messages, groups and positions go; one of the same name starts at 1 again."""
    topic = new_topic(log, partitions=2, messages=3)
    log.consume(topic=topic, consumer_group="readers")
    log.drop_topic(topic=topic)
    refused("MQ001", log.publish, topic=topic, payload=1)
    refused("MQ001", log.list_groups, topic=topic)
    log.create_topic(topic=topic, partitions=2)
    refused("MQ003", log.consume, topic=topic, consumer_group="readers")
    assert log.publish(topic=topic, payload=1, partition=1) == (1, 1, False)


def test_other_topics_stay(log: Session) -> None:
    """The messages and positions of others are untouched."""
    topic, other = new_topic(log, messages=3), new_topic(log, messages=3)
    log.consume(topic=other, consumer_group="readers", max_messages=1)
    log.drop_topic(topic=topic)
    assert offsets(log.consume(topic=other, consumer_group="readers")) == [2, 3]


def test_no_row_is_left_behind(log: Session) -> None:
    """Partitions, ranges, groups and positions are as they were before the topic."""
    tables = ("topic", "partition", "segment_range", "consumer_group", "group_partition")

    def counts() -> list[int]:
        return [
            log.execute(f"select count(*) from pgq.{table}").fetchall()[0][0]
            for table in (*tables, "group_position")
        ]

    before = counts()
    topic = new_topic(log, partitions=3, messages=1, groups=("a", "b"))
    log.poll(topic=topic, consumer_group="a")
    log.drop_topic(topic=topic)
    assert counts() == before


def test_twice_in_one_transaction(log: Session) -> None:
    """Made and dropped twice in one transaction."""
    topic = new_name("topic")
    with unchanged(log), log.transaction():
        for _ in range(2):
            log.create_topic(topic=topic)
            log.drop_topic(topic=topic)


def test_refusals(log: Session) -> None:
    """An unknown topic is an error, and so is dropping twice."""
    topic = new_topic(log)
    log.drop_topic(topic=topic)
    with unchanged(log):
        refused("MQ001", log.drop_topic, topic=topic)
        refused("MQ001", log.drop_topic, topic="x'; drop schema pgq cascade; --")
        refused("22004", log.drop_topic, topic=None)
