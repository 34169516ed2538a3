"""create_topic: a topic is made once, with the settings it was given."""

from __future__ import annotations

from datetime import timedelta

import pytest

from log_support import Log, new_name, refused, unchanged


def test_defaults(log: Log) -> None:
    """Eight partitions, seven days, no size limit, no notifications."""
    topic = new_name()
    made = log.create_topic(topic=topic)
    assert made.topic == topic
    assert (made.partitions, made.retention) == (8, timedelta(days=7))
    assert (made.max_bytes, made.notify) == (None, False)
    assert made.created_at <= made.updated_at


def test_every_setting_is_kept(log: Log) -> None:
    """What is given is what is returned and listed."""
    topic = new_name()
    made = log.create_topic(
        topic=topic, partitions=3, retention="36 hours", max_bytes=5_000_000, notify=True
    )
    assert made[1:5] == (3, timedelta(hours=36), 5_000_000, True)
    assert made in log.list_topics()


def test_retention_null_is_for_ever(log: Log) -> None:
    """A null retention is no missing argument but a topic that keeps all."""
    assert log.create_topic(topic=new_name(), retention=None).retention is None


def test_an_existing_topic_is_returned_as_it_is(log: Log) -> None:
    """Creating a topic that exists succeeds and returns the same topic, unchanged."""
    topic = new_name()
    first = log.create_topic(topic=topic, partitions=2)
    log.publish(topic=topic, payload=1, partition=0)
    again = log.create_topic(topic=topic, partitions=5, retention="1 day", notify=True)
    assert again == first
    assert log.publish(topic=topic, payload=2, partition=0).log_offset == 2


def test_twice_in_one_transaction(log: Log) -> None:
    """The second call of a transaction finds what the first one made."""
    topic = new_name()
    with log.connection.transaction():
        assert log.create_topic(topic=topic) == log.create_topic(topic=topic)
        assert log.create_topic(topic=new_name()).partitions == 8


def test_rollback_leaves_no_topic(log: Log) -> None:
    """A topic whose transaction is rolled back was never there."""
    topic = new_name()
    with unchanged(log), log.connection.transaction(force_rollback=True):
        log.create_topic(topic=topic)
    refused("MQ001", log.publish, topic=topic, payload=1)


@pytest.mark.parametrize(
    "name",
    ["a", "A-Z_09.z", "x" * 63, "pgq", "select", ".", "-"],
)
def test_names_that_are_allowed(log: Log, name: str) -> None:
    """1 to 63 letters, digits, dots, underscores and hyphens; a name is data and never SQL."""
    assert log.create_topic(topic=name, partitions=1).topic == name
    assert log.publish(topic=name, payload=1) == (0, 1)
    log.drop_topic(topic=name)


def test_names_that_are_refused(log: Log) -> None:
    """Quotes, blanks, slashes, 64 characters, other letters, nothing: a bad argument."""
    with unchanged(log):
        for name in (
            "",
            "x" * 64,
            "x" * 100_000,
            "it's",
            'a"b',
            "a b",
            "a\n",
            "\na",
            "a/b",
            'pg_temp."x"',
            "pg_temp",
            "ä",
            "a;b",
            "$1",
            "%s",
            "a\\b",
        ):
            refused("22023", log.create_topic, topic=name)
        refused("22004", log.create_topic, topic=None)


def test_settings_that_are_refused(log: Log) -> None:
    """Null, zero, negative and huge settings, each with its code, and nothing is made."""
    topic = new_name()
    with unchanged(log):
        for number in (0, -1, 1025, 2**31 - 1, -(2**31)):
            refused("22023", log.create_topic, topic=topic, partitions=number)
        refused("22003", log.create_topic, topic=topic, partitions=2**31)
        refused("22004", log.create_topic, topic=topic, partitions=None)
        for length in ("0", "-1 second", "36501 days", "178000000 years"):
            refused("22023", log.create_topic, topic=topic, retention=length)
        for size in (0, -1, -(2**63)):
            refused("22023", log.create_topic, topic=topic, max_bytes=size)
        refused("22003", log.create_topic, topic=topic, max_bytes=2**63)
        refused("22004", log.create_topic, topic=topic, notify=None)


def test_the_limits_themselves_are_allowed(log: Log) -> None:
    """1024 partitions, the longest retention, the largest size."""
    made = log.create_topic(
        topic=new_name(), partitions=1024, retention="36500 days", max_bytes=2**63 - 1
    )
    assert (made.partitions, made.max_bytes) == (1024, 2**63 - 1)
    log.drop_topic(topic=made.topic)
