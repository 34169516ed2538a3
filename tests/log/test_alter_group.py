"""alter_group: what happens out of range changes, for every member; positions and leases stay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clock import Clock
from support.log import committed_offsets, group_settings, new_topic, offsets
from support.session import Session, refused, unchanged

READS = ["claim_offsets", "consume", "fetch", "poll"]


@pytest.fixture
def own(emptied_dsn: str) -> Iterator[Session]:
    """The log in a database in which cleanup disturbs nobody."""
    with Session.connect(emptied_dsn, autocommit=True) as connection:
        yield connection


def lose(log: Session, clock: Clock, topic: str) -> None:
    """Have retention remove what each partition holds, and publish one message more to each."""
    for move in ("3 days", "0", "8 days", "0"):
        clock.advance(move)
        log.cleanup()
    for place in log.list_offsets(topic=topic):
        assert place.last_offset < place.first_offset
        log.publish(topic=topic, payload=1, partition=place.partition)


def test_what_is_returned(log: Session) -> None:
    """The group as list_groups shows it from then on."""
    topic = new_topic(log, groups=("readers", "others"))
    [others, made] = log.list_groups(topic=topic)
    altered = log.alter_group(topic=topic, consumer_group="readers", out_of_range="skip")
    assert altered[:4] == (topic, "readers", "skip", made.created_at)
    assert altered.updated_at > made.updated_at >= made.created_at
    assert log.list_groups(topic=topic) == [others, altered]


def test_null_keeps(log: Session) -> None:
    """What is not given, or null, stays as it is."""
    topic = new_topic(log, partitions=2)
    for out_of_range in ("error", "skip"):
        set_to = log.alter_group(topic=topic, consumer_group="readers", out_of_range=out_of_range)
        for given in ({}, {"out_of_range": None}):
            kept = log.alter_group(topic=topic, consumer_group="readers", **given)
            assert kept[:4] == set_to[:4]
        assert group_settings(log, topic) == (out_of_range, [out_of_range] * 2)


@pytest.mark.parametrize("function", READS)
def test_members_do_as_it_says(own: Session, emptied_clock: Clock, function: str) -> None:
    """From skip to error and back, in every partition, whoever reads."""
    topic = new_topic(own, partitions=2, messages=3)
    read = getattr(own, function)
    places = [{"topic": topic, "consumer_group": "readers", "partition": p} for p in range(2)]
    lose(own, emptied_clock, topic)
    for place in places:
        refused("MQ004", read, **place)
    own.alter_group(topic=topic, consumer_group="readers", out_of_range="skip")
    with own.transaction(force_rollback=True):
        for place in places:
            [row] = read(**place)
            assert (row.first_offset if function == "claim_offsets" else row.log_offset) == 4
    own.alter_group(topic=topic, consumer_group="readers", out_of_range="error")
    for place in places:
        refused("MQ004", read, **place)
    assert committed_offsets(own, topic, "readers") == [0, 0]


def test_other_groups_and_topics_stay(log: Session) -> None:
    """A group of the same name reads another topic, and another group the same topic."""
    topic, other = new_topic(log, groups=("readers", "others")), new_topic(log)
    log.alter_group(topic=topic, consumer_group="readers", out_of_range="skip")
    assert group_settings(log, topic, "others") == ("error", ["error"])
    assert group_settings(log, other) == ("error", ["error"])


def test_partitions_that_come_later(log: Session) -> None:
    """They have what the group says by then."""
    topic = new_topic(log)
    log.alter_group(topic=topic, consumer_group="readers", out_of_range="skip")
    log.alter_topic(topic=topic, partitions=3)
    assert group_settings(log, topic) == ("skip", ["skip"] * 3)


def test_positions_and_leases_stay(log: Session) -> None:
    """A member that holds a partition goes on, and so does the group."""
    topic = new_topic(log, messages=3)
    place = {"topic": topic, "consumer_group": "readers", "partition": 0}
    [first, *_] = log.poll(**place)
    log.commit_offset(**place, committed_offset=1, lease_token=first.lease_token)
    log.alter_group(topic=topic, consumer_group="readers", out_of_range="skip")
    assert log.poll(**place) == []
    assert log.extend_poll(**place, lease_token=first.lease_token) is True
    assert log.release_poll(**place, lease_token=first.lease_token) is True
    assert offsets(log.consume(**place)) == [2, 3]


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_twice_in_one_transaction(log: Session, level: str) -> None:
    """The last one counts, for a group that was made in this transaction too."""
    topic = new_topic(log)
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        log.create_group(topic=topic, consumer_group="new", out_of_range="skip")
        for group in ("readers", "new"):
            for out_of_range in ("skip", "error", "skip", "error"):
                altered = log.alter_group(
                    topic=topic, consumer_group=group, out_of_range=out_of_range
                )
                assert altered.out_of_range == out_of_range
    for group in ("readers", "new"):
        assert group_settings(log, topic, group) == ("error", ["error"])


def test_rollback(log: Session) -> None:
    """A change that was rolled back did not happen."""
    topic = new_topic(log, partitions=2)
    with unchanged(log), log.transaction(force_rollback=True):
        log.alter_group(topic=topic, consumer_group="readers", out_of_range="skip")


def test_refusals(log: Session) -> None:
    """Unknown names, nulls and bad settings: an error and no change."""
    topic = new_topic(log)
    names = {"topic": topic, "consumer_group": "readers"}
    with unchanged(log):
        for given in ({}, {"out_of_range": "skip"}):
            refused("MQ001", log.alter_group, **{**names, "topic": "no-such-topic"}, **given)
            refused("MQ003", log.alter_group, **{**names, "consumer_group": "nobody"}, **given)
            refused("MQ003", log.alter_group, **{**names, "consumer_group": "READERS"}, **given)
            for name in names:
                refused("22004", log.alter_group, **{**names, name: None}, **given)
        for out_of_range in ("", "Error", "stop", "null"):
            refused("22023", log.alter_group, **names, out_of_range=out_of_range)
