"""Members above READ COMMITTED: each range once, or told to try again."""

from __future__ import annotations

import itertools

import psycopg
import pytest

from support.log import WAYS_TO_MOVE, committed_offsets, new_topic, offsets, ways_to_move
from support.poison import new_pair
from support.session import Connect, Session, refused, unchanged
from support.snapshots import LEVELS
from support.waiting import PATIENCE, aside

READERS = {"consumer_group": "readers"}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", WAYS_TO_MOVE)
def test_an_old_snapshot_gets_40001(
    shared_connect: Connect, log: Session, way: str, level: str
) -> None:
    """Whoever moved the position since the snapshot wins; the loser repeats and skips nothing."""
    topic = new_topic(log, messages=10)
    loser = shared_connect(isolation_level=level)
    move = ways_to_move(loser, topic)[way]
    loser.execute("select 1")
    assert log.claim_offsets(topic=topic, max_messages=3, **READERS) == [(0, 1, 3)]
    with unchanged(log):
        refused("40001", move)
    loser.rollback()
    result = move()
    loser.commit()
    if way.startswith("claim_offsets"):
        assert result == [(0, 4, 5)]
    elif way in ("consume", "poll"):
        assert offsets(result) == [4, 5]
    assert committed_offsets(log, topic, "readers") == [
        {"poll": 3, "commit_offset": 9, "seek": 10}.get(way, 5)
    ]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("function", ["extend_poll", "release_poll"])
def test_leases_with_an_old_snapshot(
    shared_connect: Connect, log: Session, function: str, level: str
) -> None:
    """The same for what is done to a lease."""
    topic = new_topic(log, messages=3)
    token = log.poll(topic=topic, **READERS)[0].lease_token
    held = {"topic": topic, "partition": 0, "lease_token": token, **READERS}
    loser = shared_connect(isolation_level=level)
    loser.execute("select 1")
    log.commit_offset(committed_offset=1, **held)
    refused("40001", loser.call, function, **held)
    loser.rollback()
    assert getattr(loser, function)(**held) is True
    loser.commit()
    assert committed_offsets(log, topic, "readers") == [1]


@pytest.mark.parametrize("level", LEVELS)
def test_two_open_snapshots_take_different_partitions(
    shared_connect: Connect, log: Session, level: str
) -> None:
    """Members with snapshots skip each other's partitions as all others do."""
    topic = new_topic(log, partitions=2, messages=2)
    members = [shared_connect(isolation_level=level) for _ in range(2)]
    for member in members:
        member.execute("select 1")
    taken = [member.consume(topic=topic, **READERS)[0].partition for member in members]
    assert sorted(taken) == [0, 1]
    members[0].commit()
    members[1].rollback()
    assert sorted(committed_offsets(log, topic, "readers")) == [0, 2]


@pytest.mark.parametrize("partitions", [2, 20])
@pytest.mark.parametrize("level", LEVELS)
def test_racing_members_that_try_again(
    shared_connect: Connect, log: Session, level: str, partitions: int
) -> None:
    """Three members with snapshots: every message once, nothing skipped.

    Of 20 partitions, in a group that counts attempts, they do not look at all each time.
    """
    settings = {"max_attempts": 3} if partitions > 2 else {}
    topic, _ = new_pair(log, partitions=partitions, messages=80 // partitions, **settings)

    def work() -> list[tuple[int, int]]:
        member = shared_connect(isolation_level=level)
        mine: list[tuple[int, int]] = []
        while True:
            try:
                rows = member.consume(topic=topic, max_messages=3, **READERS)
                done = not rows and sum(committed_offsets(member, topic, "readers")) == 80
                member.commit()
            except psycopg.errors.SerializationFailure:
                member.rollback()
                continue
            mine += [(row.partition, row.log_offset) for row in rows]
            if done:
                return mine

    members = [aside(work) for _ in range(3)]
    done = list(itertools.chain(*(member.result(PATIENCE) for member in members)))
    offsets_each = range(1, 80 // partitions + 1)
    assert sorted(done) == [(p, offset) for p in range(partitions) for offset in offsets_each]
