"""release_poll: a member gives its partition back."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from support.clock import Clock
from support.log import committed_offsets, new_topic, offsets
from support.session import Session, unchanged


def lease(log: Session, topic: str) -> dict[str, Any]:
    """Poll, and return the arguments that name the lease."""
    rows = log.poll(topic=topic, consumer_group="readers")
    return {
        "topic": topic,
        "consumer_group": "readers",
        "partition": rows[0].partition,
        "lease_token": rows[0].lease_token,
    }


def test_what_was_not_committed_goes_to_the_next(log: Session) -> None:
    """At once, from the position on."""
    topic = new_topic(log, messages=3)
    held = lease(log, topic)
    log.commit_offset(committed_offset=1, **held)
    assert log.release_poll(**held) is True
    assert offsets(log.poll(topic=topic, consumer_group="readers")) == [2, 3]


def test_it_does_not_move_the_position(log: Session) -> None:
    """Nothing is skipped and nothing given back that was committed."""
    topic = new_topic(log, messages=3)
    held = lease(log, topic)
    log.release_poll(**held)
    assert committed_offsets(log, topic, "readers") == [0]


def test_released_twice(log: Session) -> None:
    """The second time there is nothing to release."""
    held = lease(log, new_topic(log, messages=1))
    assert log.release_poll(**held) is True
    with unchanged(log):
        assert log.release_poll(**held) is False


def test_a_lease_that_is_not_the_callers(log: Session, shared_clock: Clock) -> None:
    """A wrong token, or one of a lease that another member has by now, changes nothing."""
    topic = new_topic(log, messages=1)
    held = lease(log, topic)
    with unchanged(log):
        assert log.release_poll(**{**held, "lease_token": uuid4()}) is False
    shared_clock.advance("1 minute")
    second = lease(log, topic)
    with unchanged(log):
        assert log.release_poll(**held) is False
    assert log.release_poll(**second) is True


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_twice_in_one_transaction(log: Session, level: str) -> None:
    """True, then false; and the partition can be polled in between."""
    topic = new_topic(log, messages=1)
    held = lease(log, topic)
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        assert log.release_poll(**held) is True
        assert log.release_poll(**held) is False
        assert log.release_poll(**lease(log, topic)) is True
