"""Members side by side, one of whom gives a message up: it is published once, or not at all."""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.log import committed_offsets, offsets
from support.poison import dead_letters, new_pair, work
from support.session import Connect, Session, refused, unchanged
from support.snapshots import LEVELS
from support.waiting import PATIENCE, aside, blocked

READERS = {"consumer_group": "readers"}


def lost(log: Session, clock: Clock, **settings: Any) -> tuple[str, str]:
    """A topic whose first message had all its attempts: the last lease has run out."""
    topic, dead = new_pair(log, messages=3, max_attempts=1, **settings)
    log.poll(topic=topic, max_messages=1, partition=0, **READERS)
    clock.advance("31 seconds")
    return topic, dead


@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("read", ["poll", "consume"])
def test_two_claims_that_find_it(
    shared_connect: Connect, log: Session, shared_clock: Clock, read: str, ending: str
) -> None:
    topic, dead = lost(log, shared_clock)
    one, two = shared_connect(), shared_connect(autocommit=True)
    place = {"topic": topic, "partition": 0, "max_messages": 1, **READERS}
    assert offsets(getattr(one, read)(**place)) == [2]
    waiting = blocked(log, two, lambda: getattr(two, read)(**place))
    getattr(one, ending)()
    got = offsets(waiting.result(PATIENCE))
    if ending == "rollback":
        assert got == [2]
    else:
        assert got == ([] if read == "poll" else [3])
    assert [letter.payload for letter in dead_letters(log, dead)] == [1]


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_late_failure_and_a_takeover(
    shared_connect: Connect, log: Session, shared_clock: Clock, ending: str
) -> None:
    """The member whose lease ran out says so while another one takes over."""
    topic, dead = new_pair(log, messages=3, max_attempts=2)
    place = {"topic": topic, "partition": 0, **READERS}
    [held] = log.poll(max_messages=1, **place)
    shared_clock.advance("31 seconds")
    taker, late = shared_connect(), shared_connect(autocommit=True)
    taker.poll(max_messages=1, **place)
    waiting = blocked(
        log, late, lambda: late.nack_offsets(lease_token=held.lease_token, error="no", **place)
    )
    getattr(taker, ending)()
    assert waiting.result(PATIENCE) is (ending == "rollback")
    shared_clock.advance("31 seconds")
    # the second attempt, or the one after it
    rows = log.poll(max_messages=1, **place)
    assert offsets(rows) == ([1] if ending == "rollback" else [2])
    assert len(dead_letters(log, dead)) == (0 if ending == "rollback" else 1)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("call", ["consume", "poll", "nack_offsets", "nack elsewhere"])
def test_old_snapshots(
    shared_connect: Connect, log: Session, shared_clock: Clock, level: str, call: str
) -> None:
    """Whoever does not see that it was given up is told to try again."""
    topic, dead = lost(log, shared_clock)
    place = {"topic": topic, "partition": 0, **READERS}
    loser = shared_connect(isolation_level=level)
    loser.execute("select 1")
    assert offsets(log.consume(max_messages=1, **place)) == [2]
    with unchanged(log):
        if call == "consume":
            refused("40001", loser.consume, topic=topic, **READERS)
        elif call == "poll":
            refused("40001", loser.poll, **place)
        else:
            number = 1 if call == "nack_offsets" else 3
            span = {"first_offset": number, "last_offset": number}
            refused("40001", loser.nack_offsets, **place, **span)
    loser.rollback()
    assert [letter.payload for letter in dead_letters(log, dead)] == [1]


@pytest.mark.parametrize("level", LEVELS)
def test_a_snapshot_from_before_there_was_a_limit(
    shared_connect: Connect, log: Session, level: str
) -> None:
    topic, dead = new_pair(log, messages=3)
    loser = shared_connect(isolation_level=level)
    loser.execute("select 1")
    log.alter_group(topic=topic, max_attempts=1, dead_letter_topic=dead, **READERS)
    for _ in range(2):
        refused("40001", loser.poll, topic=topic, **READERS)
        loser.rollback()
        loser.execute("select 1")
        log.alter_group(topic=topic, max_attempts=2, **READERS)
    loser.rollback()
    assert len(loser.poll(topic=topic, **READERS)) == 3


def test_a_topic_that_cannot_be_published_to(
    shared_connect: Connect, log: Session, shared_clock: Clock
) -> None:
    """The claim fails, nothing has happened, and later it works."""
    topic, dead = lost(log, shared_clock)
    publisher = shared_connect()
    publisher.publish(topic=dead, payload=0)
    place = {"topic": topic, "partition": 0, **READERS}
    log.execute("set lock_timeout = '50ms'")
    with unchanged(log):
        refused("55P03", log.poll, **place)
        refused("55P03", log.consume, topic=topic, **READERS)
        refused("55P03", log.nack_offsets, first_offset=1, last_offset=1, **place)
    log.execute("reset lock_timeout")
    publisher.rollback()
    assert offsets(log.poll(**place)) == [2, 3]
    assert [letter.payload for letter in dead_letters(log, dead)] == [1]


def test_a_group_is_made_while_its_topic_is_dropped(shared_connect: Connect, log: Session) -> None:
    """Whoever is first wins, both ways."""
    topic, dead = new_pair(log)
    one, two = shared_connect(), shared_connect(autocommit=True)
    settings = {"topic": topic, "max_attempts": 1, "dead_letter_topic": dead}
    one.create_group(consumer_group="new", **settings)
    waiting = blocked(log, two, lambda: two.drop_topic(topic=dead))
    one.commit()
    with pytest.raises(psycopg.Error) as caught:
        waiting.result(PATIENCE)
    assert caught.value.sqlstate == "2BP01"
    log.drop_group(topic=topic, consumer_group="new")
    for call, group in (("create_group", "new"), ("alter_group", "readers")):
        one.drop_topic(topic=dead)
        change = getattr(two, call)
        waiting = blocked(
            log, two, lambda change=change, group=group: change(consumer_group=group, **settings)
        )
        one.commit()
        with pytest.raises(psycopg.Error) as caught:
            waiting.result(PATIENCE)
        assert caught.value.sqlstate == "MQ001"
        log.create_topic(topic=dead)


@pytest.mark.parametrize("level", LEVELS)
def test_a_snapshot_that_does_not_show_the_group(
    shared_connect: Connect, log: Session, level: str
) -> None:
    topic, dead = new_pair(log)
    dropper = shared_connect(isolation_level=level)
    dropper.execute("select 1")
    log.alter_group(topic=topic, max_attempts=1, dead_letter_topic=dead, **READERS)
    refused("40001", dropper.drop_topic, topic=dead)
    dropper.rollback()
    refused("2BP01", dropper.drop_topic, topic=dead)


def test_groups_with_each_others_topics_do_not_deadlock(
    shared_connect: Connect, log: Session
) -> None:
    one, two = new_pair(log)
    log.create_group(topic=two, **READERS)

    def alter(topic: str, other: str) -> None:
        member = shared_connect(autocommit=True)
        for n in range(20):
            member.alter_group(topic=topic, max_attempts=n + 1, dead_letter_topic=other, **READERS)

    for changer in [aside(lambda p=p: alter(*p)) for p in ((one, two), (two, one))]:
        changer.result(PATIENCE)


@pytest.mark.parametrize("partitions", [3, 24])
def test_members_that_fail_side_by_side(
    shared_connect: Connect, log: Session, partitions: int
) -> None:
    """Three members, and every fifth message is bad: each ends once.

    Of 24 partitions they do not look at all each time.
    """
    pair = {"messages": 30, "max_attempts": 2, "dead_partitions": 2}
    topic, dead = new_pair(log, partitions=partitions, **pair)
    poison = set(range(5, 31, 5))

    def member(commit_before: bool) -> list[int]:
        session = shared_connect(autocommit=True)
        done: list[int] = []
        while sum(committed_offsets(session, topic, "readers")) < 30 * partitions:
            done += work(session, topic, poison=poison, max_messages=7, commit_before=commit_before)
        return done

    members = [aside(lambda way=way: member(way)) for way in (True, False, True)]
    done = Counter(number for future in members for number in future.result(PATIENCE))
    assert done == {n: partitions for n in range(1, 31) if n not in poison}
    letters = Counter(letter.payload for letter in dead_letters(log, dead))
    assert letters == dict.fromkeys(poison, partitions)
