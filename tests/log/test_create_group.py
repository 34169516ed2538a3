"""create_group: readers of a topic, with a position of their own."""

from __future__ import annotations

from log_support import Log, new_topic, offsets, committed_offsets, refused, unchanged


def test_a_new_group_starts_before_the_first_message(log: Log) -> None:
    """By default it reads all that is kept, and an error when retention was faster."""
    topic = new_topic(log, messages=3, groups=())
    made = log.create_group(topic=topic, consumer_group="g")
    assert (made.topic, made.consumer_group, made.out_of_range) == (topic, "g", "error")
    assert offsets(log.consume(topic=topic, consumer_group="g")) == [1, 2, 3]


def test_latest_reads_only_what_comes(log: Log) -> None:
    """start => latest begins behind the newest message of each partition."""
    topic = new_topic(log, partitions=2, messages=3, groups=())
    log.create_group(topic=topic, consumer_group="g", start="latest", out_of_range="skip")
    assert committed_offsets(log, topic, "g") == [3, 3]
    assert log.consume(topic=topic, consumer_group="g") == []
    log.publish(topic=topic, payload=4, partition=1)
    assert offsets(log.consume(topic=topic, consumer_group="g")) == [4]


def test_creating_it_again_changes_nothing(log: Log) -> None:
    """Group creation is idempotent: the position stays, the settings stay."""
    topic = new_topic(log, messages=3, groups=())
    first = log.create_group(topic=topic, consumer_group="g")
    log.consume(topic=topic, consumer_group="g", max_messages=2)
    with unchanged(log):
        again = log.create_group(
            topic=topic, consumer_group="g", start="latest", out_of_range="skip"
        )
    assert again == first
    assert offsets(log.consume(topic=topic, consumer_group="g")) == [3]


def test_groups_are_independent(log: Log) -> None:
    """Each group has its position; a name may be used in every topic."""
    topic, other = new_topic(log, messages=2), new_topic(log, messages=1)
    log.create_group(topic=topic, consumer_group="second")
    assert offsets(log.consume(topic=topic, consumer_group="readers")) == [1, 2]
    assert offsets(log.consume(topic=topic, consumer_group="second")) == [1, 2]
    assert offsets(log.consume(topic=other, consumer_group="readers")) == [1]
    assert log.consume(topic=topic, consumer_group="readers") == []


def test_twice_in_one_transaction(log: Log) -> None:
    """The second call finds the group of the first, and it can be used at once."""
    topic = new_topic(log, messages=1, groups=())
    with log.connection.transaction():
        first = log.create_group(topic=topic, consumer_group="g")
        assert log.create_group(topic=topic, consumer_group="g") == first
        assert offsets(log.consume(topic=topic, consumer_group="g")) == [1]


def test_refusals(log: Log) -> None:
    """Unknown topic, bad names, bad settings: an error and no group."""
    topic = new_topic(log, groups=())
    with unchanged(log):
        refused("MQ001", log.create_group, topic="no-such-topic", consumer_group="g")
        refused("22004", log.create_group, topic=None, consumer_group="g")
        refused("22004", log.create_group, topic=topic, consumer_group=None)
        for name in ("", "x" * 64, "it's", 'a"b', "a b", "a\n", "ä"):
            refused("22023", log.create_group, topic=topic, consumer_group=name)
        for start in ("", "Earliest", "1", "0"):
            refused("22023", log.create_group, topic=topic, consumer_group="g", start=start)
        refused("22004", log.create_group, topic=topic, consumer_group="g", start=None)
        refused("22023", log.create_group, topic=topic, consumer_group="g", out_of_range="stop")
        refused("22004", log.create_group, topic=topic, consumer_group="g", out_of_range=None)
