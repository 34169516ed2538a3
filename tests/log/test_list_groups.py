"""list_groups: the groups of one topic, or of all."""

from __future__ import annotations

from support.log import new_topic
from support.session import Session, refused


def test_of_one_topic_by_name(log: Session) -> None:
    """Ordered by name, as create_group gave them."""
    topic = new_topic(log, groups=("b", "a"))
    made = log.create_group(topic=topic, consumer_group="c", out_of_range="skip")
    rows = log.list_groups(topic=topic)
    assert [row.consumer_group for row in rows] == ["a", "b", "c"]
    assert rows[2] == made
    assert {row.topic for row in rows} == {topic}


def test_of_all_topics(log: Session) -> None:
    """Without a topic, the groups of all, ordered by topic and name."""
    topic, other = new_topic(log, groups=("x",)), new_topic(log, groups=("x", "y"))
    rows = log.list_groups()
    assert rows == log.list_groups(topic=None)
    for row in log.list_groups(topic=topic) + log.list_groups(topic=other):
        assert rows.count(row) == 1


def test_a_topic_without_groups(log: Session) -> None:
    """Nothing, and no error."""
    assert log.list_groups(topic=new_topic(log, groups=())) == []


def test_twice_in_one_transaction(log: Session) -> None:
    """It sees what its own transaction did."""
    topic = new_topic(log, groups=("a",))
    with log.transaction():
        assert len(log.list_groups(topic=topic)) == 1
        log.create_group(topic=topic, consumer_group="b")
        assert len(log.list_groups(topic=topic)) == 2


def test_an_unknown_topic_is_an_error(log: Session) -> None:
    """It does not look like a topic without groups."""
    refused("MQ001", log.list_groups, topic="no-such-topic")
    refused("MQ001", log.list_groups, topic="it's")
