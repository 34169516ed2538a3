"""nack_offsets: who may say that messages failed, and when they come again.

What comes of it in a group with a max_attempts is in test_dead_letter_topic.py.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from support.clock import Clock
from support.log import new_topic, offsets
from support.poison import new_pair
from support.session import Connect, Session, refused, row, unchanged

LEVELS = ["read committed", "repeatable read", "serializable"]


def place_of(topic: str) -> dict[str, Any]:
    return {"topic": topic, "consumer_group": "readers", "partition": 0}


def lag(log: Session, topic: str) -> Any:
    """The committed offset, the attempt, the last error, and whether it is held."""
    return row(
        log,
        "select committed_offset, attempt, last_error, leased_until is not null"
        " from pgq.group_lag where topic = %s",
        [topic],
    )


def test_a_group_without_a_limit(log: Session, shared_clock: Clock) -> None:
    """Nothing is counted; the error is shown until the next attempt, and the delay counts."""
    topic = new_topic(log, messages=3)
    place = place_of(topic)
    for _ in range(3):
        [held, *rest] = log.poll(**place)
        assert (held.log_offset, len(rest), held.attempt) == (1, 2, None)
        assert lag(log, topic) == (0, 0, None, True)
        token = held.lease_token
        assert log.nack_offsets(**place, lease_token=token, delay="1 hour", error="no") is True
        assert lag(log, topic) == (0, 0, "no", True)
        assert log.consume(**place) == []
        shared_clock.advance("61 minutes")
    assert log.nack_offsets(**place, first_offset=1, last_offset=3, delay="1 hour") is True
    assert log.poll(**place) == []
    shared_clock.advance("61 minutes")
    assert offsets(log.consume(**place)) == [1, 2, 3]
    assert lag(log, topic) == (3, 0, None, False)


def test_a_limit_that_comes_after_the_error(log: Session) -> None:
    """What was noted without a limit counts as no attempt."""
    topic = new_topic(log, messages=1)
    letters = new_topic(log)
    place = place_of(topic)
    token = log.poll(**place)[0].lease_token
    log.nack_offsets(**place, lease_token=token, error="no")
    log.alter_group(
        topic=topic, consumer_group="readers", max_attempts=2, dead_letter_topic=letters
    )
    assert lag(log, topic) == (0, 0, "no", False)
    assert log.poll(**place)[0].attempt == 1


@pytest.mark.parametrize("end", ["commit_offset", "release_poll", "seek", "nack_offsets"])
def test_a_lease_that_has_ended(log: Session, end: str) -> None:
    """However it has: its token says nothing any more."""
    topic, _ = new_pair(log, messages=3, max_attempts=5)
    place = place_of(topic)
    token = {"lease_token": log.poll(**place)[0].lease_token}
    if end == "seek":
        log.seek(**place, start="earliest")
    else:
        log.call(end, **place, **token, **({"committed_offset": 3} if "commit" in end else {}))
    with unchanged(log):
        assert log.nack_offsets(**place, **token, error="late") is False
        assert log.nack_offsets(**place, lease_token=uuid4()) is False


def test_a_lease_that_has_run_out(log: Session, shared_clock: Clock) -> None:
    """It counts as long as nobody else got the partition, once."""
    topic, _ = new_pair(log, messages=3, max_attempts=5)
    place = place_of(topic)
    [held, *_] = log.poll(**place)
    shared_clock.advance("31 seconds")
    assert log.nack_offsets(**place, lease_token=held.lease_token, error="slow") is True
    assert log.nack_offsets(**place, lease_token=held.lease_token) is False
    assert lag(log, topic) == (0, 1, "slow", False)
    assert log.poll(**place)[0].attempt == 2


def test_what_is_left_of_a_batch(log: Session) -> None:
    """Behind what was committed; the offsets that begin before it are not the group's."""
    topic, _ = new_pair(log, messages=4, max_attempts=5)
    place = place_of(topic)
    token = {"lease_token": log.poll(**place)[0].lease_token}
    log.commit_offset(**place, committed_offset=2, **token)
    assert log.nack_offsets(**place, **token, error="three") is True
    assert lag(log, topic) == (2, 1, "three", False)
    with unchanged(log):
        for first in (1, 2, 4):
            assert log.nack_offsets(**place, first_offset=first, last_offset=4) is False
    assert offsets(log.poll(**place)) == [3, 4]


def test_no_error_keeps_the_last_one(log: Session) -> None:
    topic, _ = new_pair(log, messages=1, max_attempts=5)
    place = place_of(topic)
    span = {"first_offset": 1, "last_offset": 1}
    seen = []
    for error in ("one", None, "", None, "five"):
        seen.append(lag(log, topic)[2])
        assert log.nack_offsets(**place, **span, error=error) is True
    assert seen == [None, "one", "one", "", ""]


def test_a_range_of_what_was_not_read(log: Session) -> None:
    """It may end anywhere up to the newest message: nobody else knows what was read."""
    topic, _ = new_pair(log, messages=3, max_attempts=2)
    place = place_of(topic)
    with log.transaction(force_rollback=True):
        assert offsets(log.consume(**place, max_messages=1)) == [1]
    with unchanged(log):
        span = {"first_offset": 1, "last_offset": 1}
        refused("MQ007", log.nack_offsets, **{**place, "partition": -1}, **span)
        refused("MQ004", log.nack_offsets, **place, first_offset=1, last_offset=2**62)
    assert log.nack_offsets(**place, first_offset=1, last_offset=3, error="no") is True
    assert offsets(log.poll(**place, max_messages=9)) == [1, 2, 3]


@pytest.mark.parametrize("level", LEVELS)
def test_in_the_transaction_that_read(shared_connect: Connect, log: Session, level: str) -> None:
    """A rollback takes it back; what poll gave there may be given back there."""
    topic, _ = new_pair(log, messages=2, max_attempts=3)
    place = place_of(topic)
    session = shared_connect(isolation_level=level)
    for end in ("rollback", "commit"):
        for attempt in (1, 2):
            [held, _] = session.poll(**place)
            assert held.attempt == attempt
            assert session.nack_offsets(**place, lease_token=held.lease_token, error=end) is True
        getattr(session, end)()
        assert lag(log, topic) == ((0, 2, end, False) if end == "commit" else (0, 0, None, False))
