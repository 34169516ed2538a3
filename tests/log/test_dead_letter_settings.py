"""max_attempts and dead_letter_topic of a group: made, changed, lifted, and what may be dropped."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.log import new_topic, offsets
from support.poison import dead_letters, new_pair, work
from support.session import Session, new_name, refused, row, unchanged


def settings(log: Session, topic: str) -> Any:
    """As the group says, and as its partitions have it."""
    return row(
        log,
        "select g.max_attempts, g.dead_letter_topic, array_agg(l.max_attempts)"
        " from pgq.list_groups(topic => %s) as g"
        " left join pgq.group_partition as l using (topic, consumer_group)"
        " where g.consumer_group = 'readers' group by 1, 2",
        [topic],
    )


def test_what_is_returned(log: Session) -> None:
    topic, dead = new_pair(log, partitions=2, max_attempts=3)
    assert settings(log, topic) == (3, dead, [3, 3])
    names = {"topic": topic, "consumer_group": "readers"}
    made = log.create_group(**names, max_attempts=3, dead_letter_topic=dead)
    assert (made.max_attempts, made.dead_letter_topic) == (3, dead)
    for part in ({}, {"max_attempts": 3}, {"dead_letter_topic": dead}):
        assert log.create_group(**names, **part) == made
    log.alter_topic(topic=topic, partitions=3)
    assert settings(log, topic) == (3, dead, [3, 3, 3])


def test_by_default_there_is_none(log: Session) -> None:
    topic = new_topic(log)
    assert settings(log, topic) == (None, None, [None])


def test_other_settings(log: Session) -> None:
    topic, dead = new_pair(log, max_attempts=3)
    plain = new_topic(log)
    other = new_topic(log)
    for name, given in (
        (topic, {"max_attempts": 4}),
        (topic, {"dead_letter_topic": other}),
        (plain, {"max_attempts": 3, "dead_letter_topic": dead}),
    ):
        with unchanged(log):
            refused("MQ005", log.create_group, topic=name, consumer_group="readers", **given)


@pytest.mark.parametrize("function", ["create_group", "alter_group"])
def test_refusals(log: Session, function: str) -> None:
    topic, dead = new_topic(log), new_topic(log)
    group = "new" if function == "create_group" else "readers"
    call = getattr(log, function)
    names = {"topic": topic, "consumer_group": group}
    with unchanged(log):
        # they need each other
        refused("22023", call, **names, max_attempts=3)
        refused("22023", call, **names, dead_letter_topic=dead)
        refused("22023", call, **names, max_attempts=3, dead_letter_topic=topic)
        for number in (0, -1):
            refused("22023", call, **names, max_attempts=number, dead_letter_topic=dead)
        refused("MQ001", call, **names, max_attempts=3, dead_letter_topic="no-such-topic")


def test_no_limit(log: Session) -> None:
    topic, dead = new_pair(log, messages=3, max_attempts=2)
    names = {"topic": topic, "consumer_group": "readers"}
    with unchanged(log):
        refused("22023", log.alter_group, **names, no_limit=["retention"])
        refused("22023", log.alter_group, **names, no_limit=["max_attempts"], max_attempts=2)
        refused(
            "22023", log.alter_group, **names, no_limit=["max_attempts"], dead_letter_topic=dead
        )
    log.alter_group(**names, no_limit=["max_attempts"])
    assert settings(log, topic) == (None, None, [None])
    log.drop_topic(topic=dead)


@pytest.mark.parametrize("no_limit", [None, []])
def test_null_keeps(log: Session, no_limit: list[str] | None) -> None:
    topic, dead = new_pair(log, max_attempts=2)
    names = {"topic": topic, "consumer_group": "readers"}
    log.alter_group(**names, no_limit=no_limit, max_attempts=None, dead_letter_topic=None)
    assert settings(log, topic) == (2, dead, [2])
    log.alter_group(**names, no_limit=no_limit, max_attempts=5)
    assert settings(log, topic) == (5, dead, [5])
    other = new_topic(log)
    log.alter_group(**names, no_limit=no_limit, dead_letter_topic=other)
    assert settings(log, topic) == (5, other, [5])


def test_while_a_member_is_at_work(log: Session) -> None:
    """What it got before counts as the first attempt when it fails."""
    topic, dead = new_pair(log, messages=3)
    place = {"topic": topic, "consumer_group": "readers", "partition": 0}
    [held, *_] = log.poll(**place)
    log.alter_group(topic=topic, consumer_group="readers", max_attempts=1, dead_letter_topic=dead)
    assert log.nack_offsets(**place, lease_token=held.lease_token, error="no") is True
    assert work(log, topic, poison={2}) == [1, 3]
    assert [letter.payload for letter in dead_letters(log, dead)] == [2]


def test_a_member_that_was_at_work_is_lost(log: Session, shared_clock: Clock) -> None:
    """That counts as well, and nothing that came later is mixed in."""
    topic, dead = new_pair(log, messages=3)
    group = {"topic": topic, "consumer_group": "readers"}
    log.poll(**group, max_messages=2)
    log.alter_group(**group, max_attempts=2, dead_letter_topic=dead)
    for attempt in (2, None):
        shared_clock.advance("31 seconds")
        rows = log.poll(**group)
        if attempt is not None:
            assert [(message.log_offset, message.attempt) for message in rows] == [(1, 2), (2, 2)]
    assert [(message.log_offset, message.attempt) for message in rows] == [(1, 1)]


def test_a_lower_limit_counts_for_what_failed_before(log: Session) -> None:
    topic, dead = new_pair(log, messages=3, max_attempts=5)
    place = {"topic": topic, "consumer_group": "readers", "partition": 0}
    for _ in range(3):
        [held, *_] = log.poll(**place, max_messages=1)
        log.nack_offsets(**place, lease_token=held.lease_token, error="no")
    log.alter_group(topic=topic, consumer_group="readers", max_attempts=2)
    assert offsets(log.poll(**place)) == [2, 3]
    assert [letter.headers["pgq_attempts"] for letter in dead_letters(log, dead)] == [3]


def test_lifted_and_set_again_it_counts_anew(log: Session) -> None:
    topic, dead = new_pair(log, messages=3, max_attempts=2)
    place = {"topic": topic, "consumer_group": "readers", "partition": 0}
    group = {"topic": topic, "consumer_group": "readers"}

    def fail() -> int:
        rows = log.poll(**place)
        log.nack_offsets(**place, lease_token=rows[0].lease_token, error="no")
        return len(rows)

    assert [fail() for _ in range(3)] == [3, 3, 1]
    log.alter_group(**group, no_limit=["max_attempts"])
    assert fail() == 3
    log.alter_group(**group, max_attempts=2, dead_letter_topic=dead)
    assert [fail() for _ in range(4)] == [3, 3, 1, 1]
    assert [letter.payload for letter in dead_letters(log, dead)] == [1]


@pytest.mark.parametrize("single", [True, False])
def test_lifted_and_set_again_at_once(log: Session, single: bool) -> None:
    """Nothing happens in between, and the attempts are forgotten all the same; the lease is not."""
    topic, dead = new_pair(log, messages=3, max_attempts=2)
    place = {"topic": topic, "consumer_group": "readers", "partition": 0}
    group = {"topic": topic, "consumer_group": "readers"}
    lag = "select attempt, last_error, leased_until is not null from pgq.group_lag where topic = %s"
    for _ in range(3 if single else 1):
        token = log.poll(**place)[0].lease_token
        log.nack_offsets(**place, lease_token=token, error="no")
    token = log.poll(**place)[0].lease_token
    log.alter_group(**group, no_limit=["max_attempts"])
    assert row(log, lag, [topic]) == (0, None, True)
    log.alter_group(**group, max_attempts=2, dead_letter_topic=dead)
    assert log.release_poll(**place, lease_token=token)
    rows = log.poll(**place)
    assert [(message.log_offset, message.attempt) for message in rows] == [(1, 1), (2, 1), (3, 1)]
    assert dead_letters(log, dead) == []


def test_the_topic_cannot_be_dropped(log: Session) -> None:
    """Not as long as a group needs it; its own groups are no matter."""
    topic, dead = new_pair(log, messages=1, max_attempts=1)
    log.create_group(topic=dead, consumer_group="menders")
    with unchanged(log):
        error = refused("2BP01", log.drop_topic, topic=dead)
    assert error.diag.message_detail == f'Group "readers" of topic "{topic}".'
    log.drop_topic(topic=topic)
    log.drop_topic(topic=dead)


def test_two_topics_with_each_others_dead_letters(log: Session) -> None:
    """What fails in both goes to and fro, and says where it came from last."""
    one, two = new_name("topic"), new_name("topic")
    for name in (one, two):
        log.create_topic(topic=name, partitions=1)
    for name, other in ((one, two), (two, one)):
        log.create_group(
            topic=name, consumer_group="readers", max_attempts=1, dead_letter_topic=other
        )
    log.publish(topic=one, payload=1)
    for name, number in ((one, 1), (two, 1), (one, 2)):
        assert work(log, name, poison={number}) == []
    [_first, second] = dead_letters(log, two)
    assert (second.headers["pgq_topic"], second.headers["pgq_offset"]) == (one, 2)
    refused("2BP01", log.drop_topic, topic=one)
    log.drop_group(topic=two, consumer_group="readers")
    log.drop_topic(topic=one)


# ---------------------------------------------------------------------------- nack_offsets


def test_nack_refusals(log: Session) -> None:
    topic, _ = new_pair(log, messages=3, max_attempts=3)
    place = {"topic": topic, "consumer_group": "readers", "partition": 0}
    token = "00000000-0000-4000-8000-000000000000"
    span = {"first_offset": 1, "last_offset": 2}
    nack = log.nack_offsets
    with unchanged(log):
        refused("22023", nack, **place)
        refused("22023", nack, **place, lease_token=token, **span)
        refused("22023", nack, **place, first_offset=1)
        refused("22023", nack, **place, last_offset=1)
        refused("22023", nack, **place, lease_token=token, last_offset=1)
        refused("22023", nack, **place, first_offset=2, last_offset=1)
        refused("22023", nack, **place, **span, delay="-1 second")
        refused("MQ004", nack, **place, first_offset=1, last_offset=4)
        refused("MQ001", nack, **{**place, "topic": "no-such-topic"}, **span)
        refused("MQ003", nack, **{**place, "consumer_group": "nobody"}, **span)
        refused("MQ007", nack, **{**place, "partition": 1}, **span)
        refused("22004", nack, **{**place, "partition": None}, **span)


def test_what_is_not_the_callers(log: Session, shared_clock: Any) -> None:
    """Another token, another position, a lease of somebody else."""
    topic, _ = new_pair(log, messages=3, max_attempts=3)
    place = {"topic": topic, "consumer_group": "readers", "partition": 0}
    [held, *_] = log.poll(**place, max_messages=2)
    with unchanged(log):
        assert log.nack_offsets(**place, first_offset=1, last_offset=2) is False
    shared_clock.advance("31 seconds")
    [taken, *_] = log.poll(**place, max_messages=2)
    with unchanged(log):
        assert log.nack_offsets(**place, lease_token=held.lease_token) is False
    assert log.nack_offsets(**place, lease_token=taken.lease_token) is True
    with unchanged(log):
        assert log.nack_offsets(**place, lease_token=taken.lease_token) is False
        assert log.nack_offsets(**place, first_offset=2, last_offset=2) is False


def test_a_delay(log: Session, shared_clock: Any) -> None:
    """Nobody gets anything of the partition before; then it comes again, or the others do."""
    topic, dead = new_pair(log, messages=3, max_attempts=3)
    place = {"topic": topic, "consumer_group": "readers", "partition": 0}
    for size in (3, 3, 3, 1, 1):
        [held, *rest] = log.poll(topic=topic, consumer_group="readers")
        assert 1 + len(rest) == size
        assert log.nack_offsets(**place, lease_token=held.lease_token, delay="1 minute")
        for partition in (None, 0):
            names = {"topic": topic, "consumer_group": "readers", "partition": partition}
            assert log.poll(**names) == []
            assert log.consume(**names) == []
        shared_clock.advance("61 seconds")
    # it goes, and what comes behind it need not wait
    [held] = log.poll(**place)
    assert log.nack_offsets(**place, lease_token=held.lease_token, delay="1 minute")
    assert [letter.payload for letter in dead_letters(log, dead)] == [1]
    assert offsets(log.poll(**place)) == [2]


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_all_in_one_transaction(log: Session, level: str) -> None:
    """The whole way, twice, and then it is rolled back."""
    topic, dead = new_pair(log, messages=4, max_attempts=2)
    with unchanged(log), log.transaction(force_rollback=True):
        log.execute(f"set transaction isolation level {level}")
        assert work(log, topic, poison={2, 3}) == [1, 4]
        assert [letter.payload for letter in dead_letters(log, dead)] == [2, 3]
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        assert work(log, topic, poison={2, 3}) == [1, 4]
    assert [letter.payload for letter in dead_letters(log, dead)] == [2, 3]
