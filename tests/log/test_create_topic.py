"""create_topic: a topic is made once, with the settings it was given."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.log import new_topic
from support.session import Session, new_name, refused, unchanged

SETTINGS = ("partitions", "retention", "max_bytes", "notify", "no_limit")


def test_defaults(log: Session) -> None:
    """Eight partitions, seven days, no size limit, no notifications."""
    topic = new_name("topic")
    made = log.create_topic(topic=topic)
    assert made.topic == topic
    assert (made.partitions, made.retention) == (8, timedelta(days=7))
    assert (made.max_bytes, made.notify) == (None, False)
    assert made.created_at <= made.updated_at


def test_every_setting_is_kept(log: Session) -> None:
    """What is given is what is returned and listed."""
    topic = new_name("topic")
    made = log.create_topic(
        topic=topic, partitions=3, retention="36 hours", max_bytes=5_000_000, notify=True
    )
    assert made[1:5] == (3, timedelta(hours=36), 5_000_000, True)
    assert made in log.list_topics()


def test_null_is_the_default(log: Session) -> None:
    """A setting that is null is one that was not given."""
    made = log.create_topic(topic=new_name("topic"), **dict.fromkeys(SETTINGS))
    assert made[1:5] == (8, timedelta(days=7), None, False)


@pytest.mark.parametrize(
    ("names", "retention", "max_bytes"),
    [
        ([], timedelta(days=3), 10**7),
        (["retention"], None, 10**7),
        (["max_bytes"], timedelta(days=3), None),
        (["max_bytes", "retention"], None, None),
    ],
)
def test_no_limit(log: Session, names: list[str], retention: timedelta, max_bytes: int) -> None:
    """Since null is the default, what shall have no limit is named."""
    given = {"retention": "3 days", "max_bytes": 10**7}
    kept = {name: value for name, value in given.items() if name not in names}
    made = log.create_topic(topic=new_name("topic"), no_limit=names, **kept)
    assert (made.retention, made.max_bytes) == (retention, max_bytes)
    assert log.create_topic(topic=made.topic, no_limit=names, **kept) == made


def test_an_existing_topic_is_returned_as_it_is(log: Session) -> None:
    """Where the settings that are given agree, the same topic is returned, and nothing changes."""
    topic = new_name("topic")
    given = {"partitions": 2, "retention": "36 hours", "max_bytes": 10**7, "notify": True}
    first = log.create_topic(topic=topic, **given)
    log.publish(topic=topic, payload=1, partition=0)
    with unchanged(log):
        assert log.create_topic(topic=topic) == first
        assert log.create_topic(topic=topic, **given) == first
        for name, value in given.items():
            assert log.create_topic(topic=topic, **{name: value}) == first
        assert log.create_topic(topic=topic, no_limit=[]) == first
        assert log.create_topic(topic=topic, **dict.fromkeys(SETTINGS)) == first
    assert log.publish(topic=topic, payload=2, partition=0).log_offset == 2


def test_what_an_operator_altered_since_is_not_undone(log: Session) -> None:
    """What is not given is not compared, so an application starts after its topic was altered."""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=2)
    altered = log.alter_topic(
        topic=topic, partitions=4, retention="9 days", max_bytes=10**6, notify=True
    )
    with unchanged(log):
        assert log.create_topic(topic=topic) == altered
        assert log.create_topic(topic=topic, partitions=4, max_bytes=10**6) == altered
        refused("MQ005", log.create_topic, topic=topic, partitions=2)
    forever = log.alter_topic(topic=topic, no_limit=["retention", "max_bytes"])
    assert log.create_topic(topic=topic, no_limit=["retention"]) == forever
    assert log.create_topic(topic=topic, notify=True) == forever


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ({"partitions": 8}, "partitions: given 8, has 2."),
        ({"retention": "7 days"}, "retention: given 7 days, has 3 days."),
        ({"max_bytes": 6}, "max_bytes: given 6, has 10000000."),
        ({"notify": True}, "notify: given true, has false."),
        ({"no_limit": ["max_bytes"]}, "max_bytes: given no limit, has 10000000."),
        (
            {"no_limit": ["retention", "max_bytes"]},
            "max_bytes: given no limit, has 10000000; retention: given no limit, has 3 days.",
        ),
        (
            {"partitions": 3, "retention": "3 days", "notify": True, "no_limit": ["max_bytes"]},
            "max_bytes: given no limit, has 10000000; notify: given true, has false;"
            " partitions: given 3, has 2.",
        ),
    ],
    ids=str,
)
def test_other_settings_are_named(log: Session, given: dict[str, Any], detail: str) -> None:
    """The error says which of those given differ, and what to do; nothing changes."""
    topic = new_name("topic")
    log.create_topic(topic=topic, partitions=2, retention="3 days", max_bytes=10**7)
    with unchanged(log):
        error = refused("MQ005", log.create_topic, topic=topic, **given)
    assert error.diag.message_primary == f'topic "{topic}" already exists with other settings'
    assert error.diag.message_detail == detail
    assert error.diag.message_hint == (
        "Leave a setting out to take it as it is, or change it with pgq.alter_topic."
    )


def test_a_limit_for_what_has_none(log: Session) -> None:
    """The default of a new topic is no setting of one that is there."""
    topic = new_name("topic")
    made = log.create_topic(topic=topic, no_limit=["retention"])
    assert log.create_topic(topic=topic) == made
    error = refused("MQ005", log.create_topic, topic=topic, retention="7 days", max_bytes=1)
    assert error.diag.message_detail == (
        "max_bytes: given 1, has no limit; retention: given 7 days, has no limit."
    )


def test_a_bad_setting_of_a_topic_that_exists(log: Session) -> None:
    """It is refused for what it is, as for a new one."""
    topic = new_topic(log)
    with unchanged(log):
        refused("22023", log.create_topic, topic=topic, partitions=0)
        refused("22023", log.create_topic, topic=topic, retention="-1 day")
        refused("22023", log.create_topic, topic=topic, no_limit=["notify"])


def test_twice_in_one_transaction(log: Session) -> None:
    """The second call of a transaction finds what the first one made."""
    topic = new_name("topic")
    with log.transaction():
        assert log.create_topic(topic=topic) == log.create_topic(topic=topic)
        assert log.create_topic(topic=new_name("topic")).partitions == 8


def test_rollback_leaves_no_topic(log: Session) -> None:
    """A topic whose transaction is rolled back was never there."""
    topic = new_name("topic")
    with unchanged(log), log.transaction(force_rollback=True):
        log.create_topic(topic=topic)
    refused("MQ001", log.publish, topic=topic, payload=1)


@pytest.mark.parametrize(
    "name",
    ["a", "A-Z_09.z", "x" * 63, "pgq", "select", ".", "-"],
)
def test_names_that_are_allowed(log: Session, name: str) -> None:
    """1 to 63 letters, digits, dots, underscores and hyphens; a name is data and never SQL."""
    assert log.create_topic(topic=name, partitions=1).topic == name
    assert log.publish(topic=name, payload=1) == (0, 1, False)
    log.drop_topic(topic=name)


def test_names_that_are_refused(log: Session) -> None:
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


def test_settings_that_are_refused(log: Session) -> None:
    """Zero, negative and huge settings, unknown limits, each with its code, and none is made."""
    topic = new_name("topic")
    with unchanged(log):
        for number in (0, -1, 1025, 2**31 - 1, -(2**31)):
            refused("22023", log.create_topic, topic=topic, partitions=number)
        refused("22003", log.create_topic, topic=topic, partitions=2**31)
        for length in ("0", "-1 second", "36501 days", "178000000 years"):
            refused("22023", log.create_topic, topic=topic, retention=length)
        for size in (0, -1, -(2**63)):
            refused("22023", log.create_topic, topic=topic, max_bytes=size)
        refused("22003", log.create_topic, topic=topic, max_bytes=2**63)
        for names in (["partitions"], ["retention", "notify"], [None], [""]):
            refused("22023", log.create_topic, topic=topic, no_limit=names)


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("given", [{"retention": "3 days"}, {"max_bytes": 10**6}], ids=str)
def test_a_limit_is_not_given_and_lifted(log: Session, given: dict[str, Any], there: bool) -> None:
    """Neither is taken silently; the error names the setting."""
    [name] = given
    topic = new_topic(log) if there else new_name("topic")
    with unchanged(log):
        error = refused("22023", log.create_topic, topic=topic, no_limit=[name], **given)
        assert f'"{name}" and "no_limit" exclude each other' in str(error)


def test_the_limits_themselves_are_allowed(log: Session) -> None:
    """1024 partitions, the longest retention, the largest size."""
    made = log.create_topic(
        topic=new_name("topic"), partitions=1024, retention="36500 days", max_bytes=2**63 - 1
    )
    assert (made.partitions, made.max_bytes) == (1024, 2**63 - 1)
    log.drop_topic(topic=made.topic)
