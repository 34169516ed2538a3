"""Making, altering and dropping a group beside its members, and beside changes of its topic."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.log import (
    WAYS_TO_MOVE,
    committed_offsets,
    group_settings,
    new_topic,
    offsets,
    ways_to_move,
)
from support.session import Connect, Session, refused
from support.snapshots import LEVELS
from support.waiting import PATIENCE, blocked, started

READERS = {"consumer_group": "readers"}


def test_create_group_while_partitions_are_added(shared_connect: Connect, log: Session) -> None:
    """Whichever comes first, the group has a position in every partition."""
    topic = new_topic(log, groups=())
    one, two = shared_connect(), shared_connect(autocommit=True)
    one.alter_topic(topic=topic, partitions=3)
    waiting = blocked(log, two, lambda: two.create_group(topic=topic, consumer_group="g"))
    one.commit()
    waiting.result(PATIENCE)
    one.create_group(topic=topic, consumer_group="h")
    waiting = blocked(log, two, lambda: two.alter_topic(topic=topic, partitions=5))
    one.commit()
    waiting.result(PATIENCE)
    assert [len(committed_offsets(log, topic, group)) for group in "gh"] == [5, 5]


def test_a_group_from_the_latest_reads_what_was_open(shared_connect: Connect, log: Session) -> None:
    """What a publisher had not committed when the group was made comes after its start."""
    topic = new_topic(log, messages=2, groups=())
    publisher = shared_connect()
    publisher.publish(topic=topic, payload=3)
    log.create_group(topic=topic, consumer_group="g", start="latest")
    publisher.commit()
    assert offsets(log.consume(topic=topic, consumer_group="g")) == [3]


@pytest.mark.parametrize("function", ["drop_group", "drop_topic"])
def test_dropping_waits_for_a_member(shared_connect: Connect, log: Session, function: str) -> None:
    """The member ends its transaction first; no position is left behind."""
    topic = new_topic(log, messages=2)
    (group_id,) = log.execute(
        "select group_id from pgq.consumer_group join pgq.topic using (topic_id) where topic = %s",
        [topic],
    ).fetchall()[0]
    member, dropper, late = (
        shared_connect(),
        shared_connect(autocommit=True),
        shared_connect(autocommit=True),
    )
    assert offsets(member.consume(topic=topic, max_messages=1, **READERS)) == [1]
    names = {"topic": topic, **READERS} if function == "drop_group" else {"topic": topic}
    waiting = blocked(log, dropper, lambda: getattr(dropper, function)(**names))
    # who comes now waits as well, and then finds nothing
    claiming = blocked(log, late, lambda: late.consume(topic=topic, partition=0, **READERS))
    assert offsets(member.consume(topic=topic, max_messages=1, **READERS)) == [2]
    member.commit()
    waiting.result(PATIENCE)
    with pytest.raises(psycopg.Error) as caught:
        claiming.result(PATIENCE)
    assert caught.value.sqlstate == ("MQ003" if function == "drop_group" else "MQ001")
    left = log.execute(
        "select count(*) from pgq.group_position where group_id = %s", [group_id]
    ).fetchone()
    assert left == (0,)


@pytest.mark.parametrize("function", ["commit_offset", "seek", "claim_offsets", "release_poll"])
def test_a_member_that_waited_while_its_group_was_made_anew(
    shared_connect: Connect, log: Session, function: str
) -> None:
    """A group is dropped and made again in one transaction: who waited works with the new one."""
    topic = new_topic(log, messages=5)
    token = log.poll(topic=topic, **READERS)[0].lease_token
    renewer, member = shared_connect(), shared_connect(autocommit=True)
    renewer.drop_group(topic=topic, **READERS)
    renewer.create_group(topic=topic, **READERS)
    options: dict[str, Any] = {
        "commit_offset": {"committed_offset": 2},
        "seek": {"start": "latest"},
        "claim_offsets": {"max_messages": 3},
        "release_poll": {"lease_token": token},
    }[function]
    waiting = blocked(
        log,
        member,
        lambda: getattr(member, function)(topic=topic, partition=0, **READERS, **options),
    )
    renewer.commit()
    result = waiting.result(PATIENCE)
    expected = {
        "commit_offset": (2, 2),
        "seek": ([(0, 6)], 5),
        "claim_offsets": ([(0, 1, 3)], 3),
        "release_poll": (False, 0),
    }
    assert (result, committed_offsets(log, topic, "readers")[0]) == expected[function]


# ---------------------------------------------------------------------------- alter_group


def skip(session: Session, topic: str) -> Any:
    """Have the group skip what is gone; groups are made to fail."""
    return session.alter_group(topic=topic, **READERS, out_of_range="skip")


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("way", WAYS_TO_MOVE)
def test_altering_waits_for_a_member(
    shared_connect: Connect, log: Session, way: str, ends: str
) -> None:
    """However the member ends its transaction, what it has done and the change are both there."""
    topic = new_topic(log, partitions=2, messages=10)
    member, operator = shared_connect(), shared_connect(autocommit=True)
    ways_to_move(member, topic)[way]()
    waiting = blocked(log, operator, lambda: skip(operator, topic))
    moved = committed_offsets(member, topic, "readers")
    getattr(member, ends)()
    assert waiting.result(PATIENCE).out_of_range == "skip"
    assert group_settings(log, topic) == ("skip", ["skip"] * 2)
    assert committed_offsets(log, topic, "readers") == (moved if ends == "commit" else [0, 0])


def test_others_go_on_while_a_change_waits_for_a_member(
    shared_connect: Connect, log: Session
) -> None:
    """The topic is not held by a change that does not know yet when it can go on."""
    topic = new_topic(log, messages=2, groups=("readers", "others"))
    member, operator, other = (
        shared_connect(),
        shared_connect(autocommit=True),
        shared_connect(autocommit=True),
    )
    assert member.consume(topic=topic, **READERS)
    waiting = blocked(log, operator, lambda: skip(operator, topic))
    other.execute("set lock_timeout = '1s'")
    other.create_group(topic=topic, consumer_group="new")
    other.alter_topic(topic=topic, retention="3 days", partitions=2)
    for partition in (0, 1):
        other.publish(topic=topic, payload=3, partition=partition)
    other.alter_group(topic=topic, consumer_group="others", out_of_range="skip")
    other.drop_group(topic=topic, consumer_group="others")
    member.commit()
    waiting.result(PATIENCE)
    assert group_settings(log, topic) == ("skip", ["skip"] * 2)


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("out_of_range", ["skip", "error"])
@pytest.mark.parametrize("function", ["claim_offsets", "consume", "poll"])
def test_a_member_that_waited_for_the_change(
    connect: Callable[..., psycopg.Connection[Any]],
    clock: Clock,
    function: str,
    out_of_range: str,
    ends: str,
) -> None:
    """It does what the group says once it can go on, with messages that are gone."""
    log, operator, member = connect(autocommit=True), connect(), connect()
    topic = new_topic(log, messages=3)
    before = {"skip": "error", "error": "skip"}[out_of_range]
    log.alter_group(topic=topic, **READERS, out_of_range=before)
    for move in ("3 days", "0", "8 days", "0"):
        clock.advance(move)
        log.cleanup()
    log.publish(topic=topic, payload=4)
    operator.alter_group(topic=topic, **READERS, out_of_range=out_of_range)
    # where any partition will do, it does not wait, and finds none
    assert log.call(function, topic=topic, **READERS) == []
    waiting = blocked(
        log, member, lambda: getattr(member, function)(topic=topic, partition=0, **READERS)
    )
    getattr(operator, ends)()
    if (out_of_range if ends == "commit" else before) == "skip":
        [row] = waiting.result(PATIENCE)
        assert (row.first_offset if function == "claim_offsets" else row.log_offset) == 4
    else:
        assert getattr(waiting.exception(PATIENCE), "sqlstate", None) == "MQ004"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", WAYS_TO_MOVE)
def test_a_member_whose_snapshot_shows_the_old_setting(
    shared_connect: Connect, log: Session, way: str, level: str
) -> None:
    """It has to try again, and then finds the group where it was."""
    topic = new_topic(log, messages=10)
    member = shared_connect(isolation_level=level)
    member.execute("select 1")
    skip(log, topic)
    refused("40001", ways_to_move(member, topic)[way])
    member.rollback()
    assert ways_to_move(member, topic)[way]()
    member.commit()


# what else may happen to the group or its topic, and what is then there: the settings of the group
# and of its partitions, when that came first, and when the change did
CHANGES: dict[str, Callable[[Session, str], Any]] = {
    "more partitions": lambda session, topic: session.alter_topic(topic=topic, partitions=3),
    "another change": lambda session, topic: session.alter_group(
        topic=topic, **READERS, out_of_range="error"
    ),
    "another group": lambda session, topic: session.create_group(
        topic=topic, consumer_group="others"
    ),
    "made": lambda session, topic: session.create_group(topic=topic, **READERS),
    "made anew": lambda session, topic: (
        session.drop_group(topic=topic, **READERS),
        session.create_group(topic=topic, **READERS),
    ),
    "dropped": lambda session, topic: session.drop_group(topic=topic, **READERS),
    "topic dropped": lambda session, topic: session.drop_topic(topic=topic),
}
# which of them comes first; a group that is there is not made
ORDERS = [(change, first) for change in CHANGES for first in (True, False)]
ORDERS.remove(("made", True))
LATER = {"dropped": "MQ003", "topic dropped": "MQ001"}
"""What alter_group is told when it comes second."""


def outcome(log: Session, topic: str, change: str, last: str) -> None:
    """Check what is there after both, of which ``last`` was the last: no partition lags behind."""
    if change == "topic dropped":
        assert topic not in {row.topic for row in log.list_topics()}
        return
    partitions = 3 if change == "more partitions" else 2
    expected = {
        "dropped": None,
        "another change": "skip" if last == "alter_group" else "error",
        "made anew": "skip" if last == "alter_group" else "error",
    }.get(change, "skip")
    assert group_settings(log, topic) == (expected and (expected, [expected] * partitions))
    left = log.execute(
        "select count(*) from pgq.group_partition where topic = %s and consumer_group = 'readers'",
        [topic],
    ).fetchone()
    assert left == (partitions if expected else 0,)


def works(topic: str, change: str) -> dict[str, Callable[[Session], Any]]:
    return {
        "alter_group": lambda session: skip(session, topic),
        change: lambda session: CHANGES[change](session, topic),
    }


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize(("change", "alter_first"), ORDERS)
def test_altering_beside_another_change(
    shared_connect: Connect, log: Session, change: str, alter_first: bool, ends: str
) -> None:
    """In either order both are done, or there is nothing to alter any more."""
    topic = new_topic(log, partitions=2, groups=() if change == "made" else ("readers",))
    work = works(topic, change)
    first, last = ("alter_group", change) if alter_first else (change, "alter_group")
    early, late = shared_connect(), shared_connect(autocommit=True)
    work[first](early)
    going = started(log, late, lambda: work[last](late))
    getattr(early, ends)()
    if ends == "rollback" and change == "made":
        assert getattr(going.exception(PATIENCE), "sqlstate", None) == "MQ003"
    elif ends == "commit" and not alter_first and change in LATER:
        assert getattr(going.exception(PATIENCE), "sqlstate", None) == LATER[change]
        outcome(log, topic, change, change)
    else:
        going.result(PATIENCE)
        if ends == "rollback":
            with suppress(psycopg.Error):
                work[first](log)
            last = first
        outcome(log, topic, change, last)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(("change", "alter_first"), ORDERS)
def test_a_snapshot_from_before_the_other_change(
    shared_connect: Connect, log: Session, change: str, alter_first: bool, waits: bool, level: str
) -> None:
    """Who comes second has to try again: no partition is left with the old setting."""
    topic = new_topic(log, partitions=2, groups=() if change == "made" else ("readers",))
    work = works(topic, change)
    first, last = ("alter_group", change) if alter_first else (change, "alter_group")
    early, late = shared_connect(), shared_connect(isolation_level=level)
    late.execute("select count(*) from pgq.topic")
    work[first](early)
    if waits:
        going = started(log, late, lambda: work[last](late))
        early.commit()
        error = going.exception(PATIENCE)
        assert getattr(error, "sqlstate", None) == "40001"
    else:
        early.commit()
        refused("40001", lambda: work[last](late))
    late.rollback()
    if not alter_first and change in LATER:
        refused(LATER[change], lambda: work[last](late))
        last = first
    else:
        work[last](late)
        late.commit()
    outcome(log, topic, change, last)
