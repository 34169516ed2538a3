"""extend_poll: a member keeps its partition."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from support.clock import Clock
from support.log import committed_offsets, new_topic, offsets
from support.session import Session, refused, unchanged


@pytest.fixture
def held(log: Session) -> dict[str, Any]:
    """The arguments that name the lease of a partition with three messages."""
    topic = new_topic(log, messages=3)
    rows = log.poll(topic=topic, consumer_group="readers")
    return {
        "topic": topic,
        "consumer_group": "readers",
        "partition": 0,
        "lease_token": rows[0].lease_token,
    }


def polled(log: Session, held: dict[str, Any]) -> list[int]:
    """What another member gets."""
    return offsets(log.poll(topic=held["topic"], consumer_group="readers"))


def test_from_now_on(log: Session, held: dict[str, Any], shared_clock: Clock) -> None:
    """The lease then lasts for the given time from now, 30 seconds by default."""
    shared_clock.advance("20 seconds")
    assert log.extend_poll(**held) is True
    shared_clock.advance("20 seconds")
    assert polled(log, held) == []
    assert log.extend_poll(lease="1 hour", **held) is True
    shared_clock.advance("59 minutes")
    assert polled(log, held) == []
    shared_clock.advance("1 minute")
    assert polled(log, held) == [1, 2, 3]


def test_null_is_the_default(log: Session, held: dict[str, Any], shared_clock: Clock) -> None:
    """A lease that is null is the one of 30 seconds."""
    shared_clock.advance("20 seconds")
    assert log.extend_poll(lease=None, **held) is True
    shared_clock.advance("29 seconds")
    assert polled(log, held) == []
    shared_clock.advance("1 second")
    assert polled(log, held) == [1, 2, 3]


def test_it_never_shortens(log: Session, held: dict[str, Any], shared_clock: Clock) -> None:
    """A shorter lease than what is left changes nothing, and says that the caller has it."""
    assert log.extend_poll(lease="1 hour", **held) is True
    until = "select leased_until from pgq.group_lag where topic = %s"
    before = log.execute(until, [held["topic"]]).fetchone()
    assert log.extend_poll(lease="1 second", **held) is True
    assert log.extend_poll(**held) is True
    assert log.execute(until, [held["topic"]]).fetchone() == before
    shared_clock.advance("59 minutes")
    assert polled(log, held) == []
    shared_clock.advance("1 minute")
    assert polled(log, held) == [1, 2, 3]


def test_the_token_stays(log: Session, held: dict[str, Any]) -> None:
    """An extended lease is committed with the same token, and the position did not move."""
    log.extend_poll(**held)
    assert committed_offsets(log, held["topic"], "readers") == [0]
    assert log.commit_offset(committed_offset=3, **held) == 3
    assert log.extend_poll(**held) is False


def test_a_lease_that_has_ended_stays_ended(
    log: Session, held: dict[str, Any], shared_clock: Clock
) -> None:
    """The worker is told to stop, though nobody has taken the partition yet."""
    shared_clock.advance("31 seconds")
    with unchanged(log):
        assert log.extend_poll(**held) is False
    assert polled(log, held) == [1, 2, 3]
    with unchanged(log):
        assert log.extend_poll(**held) is False


def test_a_wrong_token_is_told_so(log: Session, held: dict[str, Any]) -> None:
    """False, and nothing changes."""
    with unchanged(log):
        assert log.extend_poll(**{**held, "lease_token": uuid4()}) is False


def test_a_partition_that_nobody_holds(log: Session) -> None:
    """False for any token."""
    topic = new_topic(log, messages=1)
    assert (
        log.extend_poll(topic=topic, consumer_group="readers", partition=0, lease_token=uuid4())
        is False
    )


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_twice_in_one_transaction(log: Session, held: dict[str, Any], level: str) -> None:
    """Both say true."""
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        assert log.extend_poll(**held) is True
        assert log.extend_poll(lease="1 minute", **held) is True


@pytest.mark.parametrize("function", ["extend_poll", "release_poll"])
def test_refusals(log: Session, held: dict[str, Any], function: str) -> None:
    """Unknown names and nulls, for both functions that take a token."""
    call = getattr(log, function)
    with unchanged(log):
        refused("MQ001", call, **{**held, "topic": "no-such-topic"})
        refused("MQ003", call, **{**held, "consumer_group": "nobody"})
        for partition in (-1, 1, 2**31 - 1):
            refused("MQ007", call, **{**held, "partition": partition})
        for name in held:
            refused("22004", call, **{**held, name: None})
        refused("22P02", call, **{**held, "lease_token": "no uuid"})


def test_leases_that_are_refused(log: Session, held: dict[str, Any]) -> None:
    """Zero, negative and endless leases."""
    with unchanged(log):
        for lease in ("0", "-1 second", "36501 days"):
            refused("22023", log.extend_poll, lease=lease, **held)
