"""commit_offset: the position of a group moves ahead, and never back."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from support.clock import Clock
from support.log import committed_offsets, new_topic, offsets
from support.session import Session, refused, unchanged


@pytest.fixture
def place(log: Session) -> dict[str, Any]:
    """The arguments that name a partition with five messages and a group at its start."""
    topic = new_topic(log, messages=5)
    return {"topic": topic, "consumer_group": "readers", "partition": 0}


def fetched(log: Session, place: dict[str, Any]) -> list[int]:
    """What the group would read next."""
    return offsets(log.fetch(**place))


def polled(log: Session, place: dict[str, Any], **options: Any) -> Any:
    """The token of a new lease."""
    return log.poll(**place, **options)[0].lease_token


def test_the_next_read_starts_behind_it(log: Session, place: dict[str, Any]) -> None:
    """Commit(n) returns n, and the next fetch starts at n + 1."""
    assert log.commit_offset(committed_offset=2, **place) == 2
    assert fetched(log, place) == [3, 4, 5]
    assert log.commit_offset(committed_offset=5, **place) == 5
    assert fetched(log, place) == []


def test_repeated_and_lower_commits_change_nothing(log: Session, place: dict[str, Any]) -> None:
    """Commit is monotonic and idempotent: success, the committed offset as answer, no change."""
    assert log.commit_offset(committed_offset=3, **place) == 3
    with unchanged(log):
        for lower in (3, 3, 2, 1, 0):
            assert log.commit_offset(committed_offset=lower, **place) == 3
    assert fetched(log, place) == [4, 5]


def test_zero_before_the_first(log: Session, place: dict[str, Any]) -> None:
    """A group that has read nothing stands at 0, and may say so."""
    with unchanged(log):
        assert log.commit_offset(committed_offset=0, **place) == 0


def test_above_the_last_offset_is_refused(log: Session, place: dict[str, Any]) -> None:
    """A commit of what does not exist would skip what follows."""
    with unchanged(log):
        for beyond in (6, 1000, 2**63 - 2):
            error = refused("MQ004", log.commit_offset, committed_offset=beyond, **place)
            detail = "First available offset: 1; last available offset: 5."
            assert error.diag.message_detail == detail
    assert log.commit_offset(committed_offset=5, **place) == 5


def test_for_each_group_and_partition_by_itself(log: Session) -> None:
    """A commit concerns one group in one partition."""
    topic = new_topic(log, partitions=2, messages=3, groups=("a", "b"))
    log.commit_offset(topic=topic, consumer_group="a", partition=1, committed_offset=2)
    assert committed_offsets(log, topic, "a") == [0, 2]
    assert committed_offsets(log, topic, "b") == [0, 0]


def test_with_the_token_of_a_lease(log: Session, place: dict[str, Any]) -> None:
    """When the last polled message is committed, the partition is free again."""
    token = polled(log, place, max_messages=3)
    assert log.commit_offset(committed_offset=3, lease_token=token, **place) == 3
    assert offsets(log.poll(**place)) == [4, 5]


def test_a_part_of_the_lease_keeps_it(log: Session, place: dict[str, Any]) -> None:
    """A lower offset moves the position, and the rest stays with the member."""
    token = polled(log, place)
    assert log.commit_offset(committed_offset=2, lease_token=token, **place) == 2
    assert log.poll(**place) == []
    assert log.claim_offsets(**place) == []
    assert log.commit_offset(committed_offset=4, lease_token=token, **place) == 4
    assert log.extend_poll(lease_token=token, **place) is True
    assert log.poll(**place) == []
    assert log.commit_offset(committed_offset=5, lease_token=token, **place) == 5
    assert log.release_poll(lease_token=token, **place) is False


def test_the_rest_of_a_part_goes_to_the_next(
    log: Session, place: dict[str, Any], shared_clock: Clock
) -> None:
    """When the lease runs out, the next member begins behind what was committed."""
    token = polled(log, place)
    log.commit_offset(committed_offset=2, lease_token=token, **place)
    shared_clock.advance("31 seconds")
    assert offsets(log.poll(**place)) == [3, 4, 5]


def test_a_leased_partition_needs_its_token(log: Session, place: dict[str, Any]) -> None:
    """Without it, or with another one, it is an error and nothing changes."""
    token = polled(log, place)
    with unchanged(log):
        refused("MQ006", log.commit_offset, committed_offset=1, **place)
        refused("MQ006", log.commit_offset, committed_offset=1, lease_token=uuid4(), **place)
    assert log.commit_offset(committed_offset=5, lease_token=token, **place) == 5


def test_a_stale_token_commits_nothing(
    log: Session, place: dict[str, Any], shared_clock: Clock
) -> None:
    """Once another member has the partition, or has had it, the old token is of no use."""
    stale = polled(log, place)
    shared_clock.advance("31 seconds")
    token = polled(log, place, max_messages=2)
    with unchanged(log):
        refused("MQ006", log.commit_offset, committed_offset=5, lease_token=stale, **place)
    log.commit_offset(committed_offset=2, lease_token=token, **place)
    with unchanged(log):
        refused("MQ006", log.commit_offset, committed_offset=5, lease_token=stale, **place)
        assert log.commit_offset(committed_offset=2, lease_token=stale, **place) == 2


def test_a_lease_that_nobody_took_over_still_counts(
    log: Session, place: dict[str, Any], shared_clock: Clock
) -> None:
    """A member that was a little late need not do its work again."""
    token = polled(log, place)
    shared_clock.advance("31 seconds")
    assert log.commit_offset(committed_offset=5, lease_token=token, **place) == 5


def test_after_the_lease_ran_out_no_token_is_needed(
    log: Session, place: dict[str, Any], shared_clock: Clock
) -> None:
    """Then the partition is nobody's, and the old token is of no use behind that."""
    token = polled(log, place)
    shared_clock.advance("31 seconds")
    assert log.commit_offset(committed_offset=1, **place) == 1
    refused("MQ006", log.commit_offset, committed_offset=5, lease_token=token, **place)


def test_a_token_where_nothing_is_leased(log: Session, place: dict[str, Any]) -> None:
    """A token of nothing is an error."""
    with unchanged(log):
        refused("MQ006", log.commit_offset, committed_offset=1, lease_token=uuid4(), **place)


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_twice_in_one_transaction(log: Session, place: dict[str, Any], level: str) -> None:
    """In every isolation level; what the transaction published may be committed as well."""
    with log.transaction():
        log.execute(f"set transaction isolation level {level}")
        assert log.commit_offset(committed_offset=2, **place) == 2
        assert log.commit_offset(committed_offset=1, **place) == 2
        assert log.commit_offset(committed_offset=5, **place) == 5
        log.publish(topic=place["topic"], payload=6)
        assert log.commit_offset(committed_offset=6, **place) == 6
    assert fetched(log, place) == []


def test_rollback(log: Session, place: dict[str, Any]) -> None:
    """A commit that was rolled back did not happen."""
    with log.transaction(force_rollback=True):
        log.commit_offset(committed_offset=4, **place)
    assert fetched(log, place) == [1, 2, 3, 4, 5]


def test_refusals(log: Session, place: dict[str, Any]) -> None:
    """Unknown names, nulls and negative offsets."""
    with unchanged(log):
        refused(
            "MQ001", log.commit_offset, committed_offset=1, **{**place, "topic": "no-such-topic"}
        )
        refused("MQ003", log.commit_offset, committed_offset=1, **{**place, "consumer_group": "x"})
        for partition in (-1, 1, 2**31 - 1):
            refused(
                "MQ007", log.commit_offset, committed_offset=1, **{**place, "partition": partition}
            )
        for name in place:
            refused("22004", log.commit_offset, committed_offset=1, **{**place, name: None})
        refused("22004", log.commit_offset, committed_offset=None, **place)
        for offset in (-1, -(2**63), 2**63 - 1):
            refused("22023", log.commit_offset, committed_offset=offset, **place)
        refused("22003", log.commit_offset, committed_offset=2**63, **place)
