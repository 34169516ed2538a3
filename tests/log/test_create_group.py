"""create_group: readers of a topic, with a position of their own."""

from __future__ import annotations

import pytest

from support.log import committed_offsets, new_topic, offsets
from support.session import Session, refused, unchanged


def test_a_new_group_starts_before_the_first_message(log: Session) -> None:
    """By default it reads all that is kept, and an error when retention was faster."""
    topic = new_topic(log, messages=3, groups=())
    made = log.create_group(topic=topic, consumer_group="g")
    assert (made.topic, made.consumer_group, made.out_of_range) == (topic, "g", "error")
    assert offsets(log.consume(topic=topic, consumer_group="g")) == [1, 2, 3]


def test_latest_reads_only_what_comes(log: Session) -> None:
    """start => latest begins behind the newest message of each partition."""
    topic = new_topic(log, partitions=2, messages=3, groups=())
    log.create_group(topic=topic, consumer_group="g", start="latest", out_of_range="skip")
    assert committed_offsets(log, topic, "g") == [3, 3]
    assert log.consume(topic=topic, consumer_group="g") == []
    log.publish(topic=topic, payload=4, partition=1)
    assert offsets(log.consume(topic=topic, consumer_group="g")) == [4]


def test_null_is_the_default(log: Session) -> None:
    """A setting that is null is one that was not given."""
    topic = new_topic(log, messages=3, groups=())
    made = log.create_group(topic=topic, consumer_group="g", start=None, out_of_range=None)
    assert made.out_of_range == "error"
    assert offsets(log.consume(topic=topic, consumer_group="g")) == [1, 2, 3]


@pytest.mark.parametrize("out_of_range", ["error", "skip"])
def test_creating_it_again_changes_nothing(log: Session, out_of_range: str) -> None:
    """Group creation is idempotent: the position stays, wherever a new group would start."""
    topic = new_topic(log, messages=3, groups=())
    first = log.create_group(topic=topic, consumer_group="g", out_of_range=out_of_range)
    log.consume(topic=topic, consumer_group="g", max_messages=2)
    with unchanged(log):
        for start in ("earliest", "latest", None):
            for given in (out_of_range, None):
                assert first == log.create_group(
                    topic=topic, consumer_group="g", start=start, out_of_range=given
                )
        assert log.create_group(topic=topic, consumer_group="g") == first
    assert offsets(log.consume(topic=topic, consumer_group="g")) == [3]


@pytest.mark.parametrize(("has", "given"), [("error", "skip"), ("skip", "error")])
def test_another_setting_is_named(log: Session, has: str, given: str) -> None:
    """A group that exists with another out_of_range is refused, and stays as it is."""
    topic = new_topic(log, messages=3, groups=())
    log.create_group(topic=topic, consumer_group="g", out_of_range=has)
    with unchanged(log):
        error = refused(
            "MQ005",
            log.create_group,
            topic=topic,
            consumer_group="g",
            start="latest",
            out_of_range=given,
        )
    assert error.diag.message_primary == ('consumer group "g" already exists with other settings')
    assert error.diag.message_detail == f"out_of_range: given {given}, has {has}."
    assert error.diag.message_hint == (
        "Leave a setting out to take it as it is, or change it with pgq.alter_group."
    )


def test_what_an_operator_altered_since_is_not_undone(log: Session) -> None:
    """What is not given is not compared."""
    topic = new_topic(log, groups=())
    log.create_group(topic=topic, consumer_group="g")
    altered = log.alter_group(topic=topic, consumer_group="g", out_of_range="skip")
    with unchanged(log):
        assert log.create_group(topic=topic, consumer_group="g") == altered
        refused("MQ005", log.create_group, topic=topic, consumer_group="g", out_of_range="error")
    assert altered.out_of_range == "skip"


def test_groups_are_independent(log: Session) -> None:
    """Each group has its position; a name may be used in every topic."""
    topic, other = new_topic(log, messages=2), new_topic(log, messages=1)
    log.create_group(topic=topic, consumer_group="second")
    assert offsets(log.consume(topic=topic, consumer_group="readers")) == [1, 2]
    assert offsets(log.consume(topic=topic, consumer_group="second")) == [1, 2]
    assert offsets(log.consume(topic=other, consumer_group="readers")) == [1]
    assert log.consume(topic=topic, consumer_group="readers") == []


def test_twice_in_one_transaction(log: Session) -> None:
    """The second call finds the group of the first, and it can be used at once."""
    topic = new_topic(log, messages=1, groups=())
    with log.transaction():
        first = log.create_group(topic=topic, consumer_group="g")
        assert log.create_group(topic=topic, consumer_group="g") == first
        assert offsets(log.consume(topic=topic, consumer_group="g")) == [1]


def test_refusals(log: Session) -> None:
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
        for out_of_range in ("", "stop", "Error"):
            refused(
                "22023",
                log.create_group,
                topic=topic,
                consumer_group="g",
                out_of_range=out_of_range,
            )
