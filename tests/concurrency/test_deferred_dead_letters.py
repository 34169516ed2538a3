"""Dead-letter topics where the source, the dead-letter topic or both are deferred.

Messages get their offsets when a member reads, and letters when somebody reads these; publishers
that are open hold up neither, and no batch changes while it is tried again.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from support.clock import Clock
from support.log import committed_offsets, offsets
from support.poison import dead_letters, new_pair, work
from support.session import Connect, Session, refused, unchanged
from support.snapshots import LEVELS
from support.waiting import PATIENCE, aside, blocked

READERS = {"consumer_group": "readers"}

PAIRS = [
    pytest.param({"deferred": True}, id="source"),
    pytest.param({"dead_deferred": True}, id="letters"),
    pytest.param({"deferred": True, "dead_deferred": True}, id="both"),
]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("commit_before", [True, False])
def test_one_of_many(log: Session, pair: dict[str, Any], commit_before: bool) -> None:
    """As elsewhere: the others are processed, and the one is in the dead-letter topic, once."""
    topic, dead = new_pair(log, messages=20, max_attempts=2, **pair)
    done = work(log, topic, poison={7}, max_messages=10, commit_before=commit_before)
    assert done == [n for n in range(1, 21) if n != 7]
    [letter] = dead_letters(log, dead)
    assert letter.payload == 7
    assert letter.log_offset == 1
    told = {name: letter.headers[f"pgq_{name}"] for name in ("topic", "offset", "attempts")}
    assert told == {"topic": topic, "offset": 7, "attempts": 2}
    assert committed_offsets(log, topic, "readers") == [20]


@pytest.mark.parametrize("pair", PAIRS)
def test_a_batch_comes_again_as_it_was(
    shared_connect: Connect, log: Session, pair: dict[str, Any]
) -> None:
    """Whoever publishes meanwhile, before or between the attempts, comes behind it."""
    topic, dead = new_pair(log, max_attempts=2, **pair)
    group = {"topic": topic, "partition": 0, **READERS}
    early = shared_connect()
    if pair.get("deferred"):
        early.publish(topic=topic, payload=-1)
    for n in (1, 2):
        log.publish(topic=topic, payload=n)
    seen = []
    while rows := log.poll(**group):
        seen.append([message.payload for message in rows])
        if len(seen) == 1:
            early.commit()
        if len(seen) < 4:
            log.publish(topic=topic, payload=10 + len(seen))
        token = rows[0].lease_token
        if 1 in seen[-1]:
            log.nack_offsets(lease_token=token, error="bad", **group)
        else:
            log.commit_offset(committed_offset=rows[-1].log_offset, lease_token=token, **group)
    assert seen[:4] == [[1, 2], [1, 2], [1], [1]]
    assert seen[4] == [2]
    behind = [-1, 11, 12, 13] if pair.get("deferred") else [11, 12, 13]
    assert sorted(payload for batch in seen[5:] for payload in batch) == behind
    assert [letter.payload for letter in dead_letters(log, dead)] == [1]


def test_publishers_of_letters_do_not_wait(shared_connect: Connect, log: Session) -> None:
    """Who has published to a deferred dead-letter topic, and is open, holds up no member."""
    topic, dead = new_pair(log, messages=3, max_attempts=1, dead_deferred=True)
    publisher = shared_connect()
    publisher.publish(topic=dead, payload=0)
    log.execute("set lock_timeout = '50ms'")
    assert work(log, topic, poison={2}, max_messages=1) == [1, 3]
    log.execute("reset lock_timeout")
    assert [letter.payload for letter in dead_letters(log, dead)] == [2]
    publisher.commit()
    assert [letter.payload for letter in dead_letters(log, dead)] == [2, 0]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("read", ["poll", "consume"])
def test_two_claims_that_find_it(
    shared_connect: Connect,
    log: Session,
    shared_clock: Clock,
    pair: dict[str, Any],
    read: str,
    ending: str,
) -> None:
    """A message whose last lease ran out is given up by one of them."""
    topic, dead = new_pair(log, messages=3, max_attempts=1, **pair)
    place = {"topic": topic, "partition": 0, "max_messages": 1, **READERS}
    assert offsets(log.poll(**place)) == [1]
    shared_clock.advance("31 seconds")
    one, two = shared_connect(), shared_connect(autocommit=True)
    assert offsets(getattr(one, read)(**place)) == [2]
    assert dead_letters(log, dead) == []
    waiting = blocked(log, two, lambda: getattr(two, read)(**place))
    getattr(one, ending)()
    got = offsets(waiting.result(PATIENCE))
    if ending == "rollback":
        assert got == [2]
    else:
        assert got == ([] if read == "poll" else [3])
    assert [letter.payload for letter in dead_letters(log, dead)] == [1]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("level", LEVELS)
def test_old_snapshots(
    shared_connect: Connect, log: Session, shared_clock: Clock, pair: dict[str, Any], level: str
) -> None:
    """Whoever does not see that it was given up is told to try again."""
    topic, dead = new_pair(log, messages=3, max_attempts=1, **pair)
    place = {"topic": topic, "partition": 0, **READERS}
    log.poll(max_messages=1, **place)
    shared_clock.advance("31 seconds")
    loser = shared_connect(isolation_level=level)
    loser.execute("select 1")
    assert offsets(log.consume(max_messages=1, **place)) == [2]
    with unchanged(log):
        refused("40001", loser.poll, **place)
    loser.rollback()
    assert [letter.payload for letter in dead_letters(log, dead)] == [1]


@pytest.mark.parametrize("pair", PAIRS)
def test_members_beside_publishers(
    shared_connect: Connect, log: Session, pair: dict[str, Any]
) -> None:
    """Three members while it is published, and every fifth message is bad: each ends once."""
    topic, dead = new_pair(log, partitions=3, max_attempts=2, dead_partitions=2, **pair)
    poison = set(range(5, 21, 5))

    def publisher(seed: int) -> None:
        rng = random.Random(seed)
        session = shared_connect()
        for partition in (0, 1, 2):
            left = 10
            while left:
                size = rng.randint(1, min(left, 3))
                session.publish_batch(topic=topic, payloads=[seed] * size, partition=partition)
                if rng.random() < 0.3:
                    session.rollback()
                else:
                    session.commit()
                    left -= size

    def member(commit_before: bool) -> list[int]:
        session = shared_connect(autocommit=True)
        done: list[int] = []
        while sum(committed_offsets(session, topic, "readers")) < 60:
            done += work(session, topic, poison=poison, max_messages=7, commit_before=commit_before)
        return done

    publishers = [aside(lambda s=s: publisher(s)) for s in (1, 2)]
    members = [aside(lambda way=way: member(way)) for way in (True, False, True)]
    for each in publishers:
        each.result(PATIENCE)
    done = Counter(number for future in members for number in future.result(PATIENCE))
    assert done == {n: 3 for n in range(1, 21) if n not in poison}
    places = Counter(
        (letter.headers["pgq_partition"], letter.headers["pgq_offset"])
        for letter in dead_letters(log, dead)
    )
    assert places == {(partition, n): 1 for partition in (0, 1, 2) for n in poison}
