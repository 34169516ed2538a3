"""A group with a dead-letter topic: what fails over and over goes there, and the group goes on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from support.clock import Clock
from support.log import committed_offsets
from support.poison import dead_letters, new_pair, work
from support.session import Session, refused, row, unchanged


def test_one_of_a_hundred(log: Session) -> None:
    """Each of the others is processed once, and the one is in the dead-letter topic once."""
    topic, dead = new_pair(log, messages=100, max_attempts=3)
    done = work(log, topic, poison={37})
    assert done == [offset for offset in range(1, 101) if offset != 37]
    [letter] = dead_letters(log, dead)
    assert (letter.payload, letter.key) == (37, None)
    published = row(
        log,
        "select to_jsonb(published_at) from pgq.messages where topic = %s and log_offset = 37",
        [topic],
    )[0]
    assert letter.headers == {
        "pgq_topic": topic,
        "pgq_partition": 0,
        "pgq_offset": 37,
        "pgq_group": "readers",
        "pgq_attempts": 3,
        "pgq_error": "37 is bad",
        "pgq_published_at": published,
    }
    assert committed_offsets(log, topic, "readers") == [100]


def test_the_sizes_of_the_batches(log: Session) -> None:
    """Three as large as they may be, then one by one up to their end, then large ones again."""
    topic, _ = new_pair(log, messages=20, max_attempts=3)
    sizes: list[tuple[int, int]] = []
    work(log, topic, poison={4}, max_messages=10, commit_before=False, sizes=sizes)
    assert sizes == [
        *[(1, 10)] * 3,
        *[(n, 1) for n in (1, 2, 3, 4, 4, 4, 5, 6, 7, 8, 9, 10)],
        (11, 10),
    ]


def test_a_batch_comes_again_as_it_was(log: Session) -> None:
    """Whatever is published meanwhile, also to whoever asks for more; each knows its attempt."""
    topic, _ = new_pair(log, messages=3, max_attempts=2)
    seen: list[tuple[int, int, int]] = []
    group = {"topic": topic, "consumer_group": "readers"}

    def poll() -> dict[str, Any]:
        rows = log.poll(**group, max_messages=2 if not seen else 100)
        assert len({message.attempt for message in rows}) == 1
        seen.append((rows[0].log_offset, rows[-1].log_offset, rows[0].attempt))
        log.publish(topic=topic, payload=0)
        return {**group, "partition": 0, "lease_token": rows[0].lease_token}

    log.nack_offsets(**poll())
    assert log.release_poll(**poll())
    log.commit_offset(committed_offset=1, **poll())
    log.seek(**group, partition=0, log_offset=1)
    log.nack_offsets(**poll())
    assert seen == [(1, 2, 1), (1, 2, 2), (1, 2, 2), (1, 6, 1)]
    assert [message.log_offset for message in log.consume(**group)] == [*range(1, 7)]
    assert log.poll(**group)[-1].log_offset == 7


@pytest.mark.parametrize("way", ["release", "report", "commit"])
def test_what_was_tried_before_is_another_batch(log: Session, way: str) -> None:
    """Only what the attempts that count had has failed: a message alone goes at once."""
    topic, dead = new_pair(log, messages=5, max_attempts=2)
    group = {"topic": topic, "consumer_group": "readers"}
    held = {**group, "partition": 0}
    token = log.poll(**group, max_messages=4)[0].lease_token
    if way == "commit":
        log.commit_offset(**held, committed_offset=1, lease_token=token)
    assert log.release_poll(**held, lease_token=token)
    first = 2 if way == "commit" else 1
    for attempt in (1, 2):
        if way == "report":
            span = {"first_offset": first, "last_offset": first}
            assert log.nack_offsets(**held, **span, error="no")
        else:
            rows = log.poll(**group, max_messages=1 if attempt == 1 else 100)
            assert [(message.log_offset, message.attempt) for message in rows] == [(first, attempt)]
            assert log.nack_offsets(**held, lease_token=rows[0].lease_token, error="no")
    assert [letter.headers["pgq_offset"] for letter in dead_letters(log, dead)] == [first]
    assert log.poll(**group)[-1].log_offset == 5


def test_a_part_that_was_committed(log: Session) -> None:
    """What is left of a batch has its first attempt, and is not mixed with what came later."""
    topic, _ = new_pair(log, messages=4, max_attempts=2)
    group = {"topic": topic, "consumer_group": "readers"}
    held = {**group, "partition": 0}
    held["lease_token"] = log.poll(**group, max_messages=3)[0].lease_token
    log.commit_offset(committed_offset=1, **held)
    log.nack_offsets(**held)
    rows = log.poll(**group)
    assert [(message.log_offset, message.attempt) for message in rows] == [(2, 2), (3, 2)]


def test_attempts_that_are_not_counted(log: Session) -> None:
    topic, dead = new_pair(log, messages=1)
    group = {"topic": topic, "consumer_group": "readers"}
    [message] = log.poll(**group)
    assert message.attempt is None
    log.release_poll(**group, partition=0, lease_token=message.lease_token)
    log.alter_group(**group, max_attempts=2, dead_letter_topic=dead)
    [message] = log.poll(**group)
    assert message.attempt == 1
    log.nack_offsets(**group, partition=0, lease_token=message.lease_token)
    log.alter_group(**group, no_limit=["max_attempts"])
    assert log.poll(**group)[0].attempt is None


@pytest.mark.parametrize("commit_before", [True, False])
def test_several(log: Session, commit_before: bool) -> None:
    """Also side by side, at the begin and at the end."""
    topic, dead = new_pair(log, messages=50, max_attempts=2)
    poison = {1, 2, 17, 49, 50}
    done = work(log, topic, poison=poison, max_messages=10, commit_before=commit_before)
    assert sorted(done) == [offset for offset in range(1, 51) if offset not in poison]
    assert Counter(letter.payload for letter in dead_letters(log, dead)) == Counter(poison)


def test_a_batch_of_one(log: Session) -> None:
    """It has failed alone already: no further attempts."""
    topic, dead = new_pair(log, messages=2, max_attempts=3)
    sizes: list[tuple[int, int]] = []
    work(log, topic, poison={1}, max_messages=1, sizes=sizes)
    assert sizes == [(1, 1), (1, 1), (1, 1), (2, 1)]
    assert [letter.payload for letter in dead_letters(log, dead)] == [1]


def test_the_only_attempt(log: Session) -> None:
    topic, dead = new_pair(log, messages=3, max_attempts=1)
    sizes: list[tuple[int, int]] = []
    work(log, topic, poison={2}, commit_before=False, sizes=sizes)
    assert sizes == [(1, 3), (1, 1), (2, 1), (3, 1)]
    assert [letter.payload for letter in dead_letters(log, dead)] == [2]


def test_what_is_kept(log: Session) -> None:
    """Bytes stay bytes; key and headers stay, and what is said of the origin joins them."""
    topic, dead = new_pair(log, max_attempts=1)
    log.publish(topic=topic, body=b"\x00\xff", key="k", headers={"a": 1, "pgq_error": "older"})
    work(log, topic, poison={1})
    [letter] = dead_letters(log, dead)
    assert (letter.body, letter.payload, letter.key) == (b"\x00\xff", None, "k")
    assert letter.headers["a"] == 1
    assert letter.headers["pgq_error"] == "1 is bad"


def test_the_order_within_a_key(log: Session) -> None:
    topic, dead = new_pair(log, max_attempts=1, dead_partitions=4)
    keys = [f"k{n % 5}" for n in range(40)]
    log.publish_batch(topic=topic, payloads=list(range(40)), keys=keys)
    work(log, topic, poison=set(range(1, 41)))
    by_key: dict[str, list[int]] = {}
    places: dict[str, set[int]] = {}
    for letter in dead_letters(log, dead):
        by_key.setdefault(letter.key, []).append(letter.payload)
        places.setdefault(letter.key, set()).add(letter.partition)
    assert by_key == {f"k{n}": list(range(n, 40, 5)) for n in range(5)}
    assert all(len(found) == 1 for found in places.values())


# ---------------------------------------------------------------------------- lost leases


def lose(log: Session, clock: Clock, topic: str, **options: Any) -> list[int]:
    """A member that dies with what it got."""
    rows = log.poll(topic=topic, consumer_group="readers", lease="30 seconds", **options)
    clock.advance("31 seconds")
    return [message.log_offset for message in rows]


def test_members_that_die(log: Session, shared_clock: Clock) -> None:
    """A lease that runs out is an attempt, and the next claim does what is to be done."""
    topic, dead = new_pair(log, messages=3, max_attempts=2)
    assert [lose(log, shared_clock, topic) for _ in range(4)] == [[1, 2, 3], [1, 2, 3], [1], [1]]
    assert dead_letters(log, dead) == []
    assert lose(log, shared_clock, topic) == [2]
    [letter] = dead_letters(log, dead)
    assert letter.headers["pgq_error"] == "the lease of the last attempt ran out"
    assert letter.headers["pgq_attempts"] == 2
    assert committed_offsets(log, topic, "readers") == [1]


@pytest.mark.parametrize("read", ["poll", "consume", "claim_offsets"])
@pytest.mark.parametrize("partition", [None, 0])
def test_the_last_message(
    log: Session, shared_clock: Clock, read: str, partition: int | None
) -> None:
    """The claim that gives it up finds nothing else to read."""
    topic, dead = new_pair(log, messages=1, max_attempts=1)
    assert lose(log, shared_clock, topic) == [1]
    place = {"topic": topic, "consumer_group": "readers", "partition": partition}
    for _ in range(2):
        assert getattr(log, read)(**place) == []
        assert [letter.payload for letter in dead_letters(log, dead)] == [1]
    log.publish(topic=topic, payload=2, partition=0)
    assert len(getattr(log, read)(**place)) == 1


def test_an_error_and_a_lost_lease(log: Session, shared_clock: Clock) -> None:
    topic, dead = new_pair(log, messages=1, max_attempts=3)
    [held] = log.poll(topic=topic, consumer_group="readers")
    place = {"topic": topic, "consumer_group": "readers", "partition": 0}
    assert log.nack_offsets(**place, lease_token=held.lease_token, error="no") is True
    for _ in range(2):
        lose(log, shared_clock, topic)
    assert log.poll(**place) == []
    [letter] = dead_letters(log, dead)
    assert letter.headers["pgq_error"] == "no\nthe lease of the last attempt ran out"


def test_a_late_commit_counts(log: Session, shared_clock: Clock) -> None:
    """As long as nobody else has taken the partition, a lease that ran out is no failure."""
    topic, dead = new_pair(log, messages=1, max_attempts=1)
    place = {"topic": topic, "consumer_group": "readers", "partition": 0}
    [held] = log.poll(**place)
    shared_clock.advance("1 hour")
    log.commit_offset(**place, committed_offset=1, lease_token=held.lease_token)
    assert log.poll(**place) == []
    assert dead_letters(log, dead) == []


# ---------------------------------------------------------------------------- what is counted


def test_group_lag_shows_attempts(log: Session, shared_clock: Clock) -> None:
    topic, _ = new_pair(log, messages=5, max_attempts=5)
    place = {"topic": topic, "consumer_group": "readers", "partition": 0}

    def seen() -> Any:
        query = "select attempt, last_error from pgq.group_lag where topic = %s"
        return row(log, query, [topic])

    assert seen() == (0, None)
    [held, *_] = log.poll(**place)
    assert seen() == (1, None)
    log.nack_offsets(**place, lease_token=held.lease_token, error="no")
    assert seen() == (1, "no")
    [held, *_] = log.poll(**place)
    assert seen() == (2, "no")
    assert log.release_poll(**place, lease_token=held.lease_token)
    assert seen() == (1, "no")
    [held, *_] = log.poll(**place)
    log.commit_offset(**place, committed_offset=2, lease_token=held.lease_token)
    assert seen() == (1, None)
    assert log.release_poll(**place, lease_token=held.lease_token)
    assert seen() == (0, None)


@pytest.mark.parametrize("way", ["seek", "commit"])
def test_a_move_by_hand_begins_anew(log: Session, way: str) -> None:
    topic, dead = new_pair(log, messages=5, max_attempts=2)
    place = {"topic": topic, "consumer_group": "readers", "partition": 0}

    def fail(times: int, **options: Any) -> None:
        for _ in range(times):
            [held, *_] = log.poll(**place, **options)
            assert log.nack_offsets(**place, lease_token=held.lease_token, error="no")

    fail(1, max_messages=1)
    if way == "seek":
        log.seek(topic=topic, consumer_group="readers", start="earliest")
    else:
        log.commit_offset(**place, committed_offset=1)
    fail(1, max_messages=1)
    assert dead_letters(log, dead) == []
    fail(1, max_messages=1)
    assert len(dead_letters(log, dead)) == 1
    # the mode that gives them out one by one ends with a seek
    fail(2)
    assert len(log.poll(**place)) == 1
    log.seek(topic=topic, consumer_group="readers", start="earliest")
    assert len(log.poll(**place)) == 5


def test_groups_without_a_limit_count_nothing(log: Session, shared_clock: Clock) -> None:
    topic, dead = new_pair(log, messages=3)
    place = {"topic": topic, "consumer_group": "readers", "partition": 0}
    for _ in range(5):
        [held, *rest] = log.poll(**place)
        assert len(rest) == 2
        assert log.nack_offsets(**place, lease_token=held.lease_token, error="no")
        assert len(lose(log, shared_clock, topic)) == 3
    assert row(log, "select attempt, last_error from pgq.group_lag where topic = %s", [topic]) == (
        0,
        None,
    )
    assert dead_letters(log, dead) == []


def test_other_groups_go_on_as_they_were(log: Session) -> None:
    topic, dead = new_pair(log, messages=3, max_attempts=1)
    log.create_group(topic=topic, consumer_group="others")
    work(log, topic, poison={1, 2, 3})
    assert len(dead_letters(log, dead)) == 3
    assert len(log.consume(topic=topic, consumer_group="others")) == 3


# ------------------------------------------------------------------- what was rolled back


def test_consume_and_a_report(log: Session) -> None:
    """A rollback leaves no trace, so the failure is reported by the offsets."""
    topic, dead = new_pair(log, messages=10, max_attempts=2)
    place = {"topic": topic, "consumer_group": "readers", "partition": 0}
    done: list[int] = []
    for _ in range(40):
        with log.transaction() as transaction:
            rows = log.consume(**place)
            if not rows:
                break
            failed = any(message.log_offset == 6 for message in rows)
            transaction.force_rollback = failed
        if not failed:
            done += [message.log_offset for message in rows]
        elif len(done) < 20:
            span = {"first_offset": rows[0].log_offset, "last_offset": rows[-1].log_offset}
            assert log.nack_offsets(**place, **span, error="six") is True
            if span == {"first_offset": 6, "last_offset": 6} and dead_letters(log, dead):
                with unchanged(log):
                    assert log.nack_offsets(**place, **span, error="six") is False
    assert done == [1, 2, 3, 4, 5, 7, 8, 9, 10]
    [letter] = dead_letters(log, dead)
    assert (letter.payload, letter.headers["pgq_error"]) == (6, "six")


# ------------------------------------------------------------------- what retention has removed


@pytest.mark.parametrize("out_of_range", ["error", "skip"])
def test_a_message_that_retention_removed(
    emptied_dsn: str, emptied_clock: Clock, out_of_range: str
) -> None:
    """It is in no dead-letter topic; the group does what it is told out of range."""
    with Session.connect(emptied_dsn, autocommit=True) as own:
        topic, dead = new_pair(own, messages=3, max_attempts=1, out_of_range=out_of_range)
        place = {"topic": topic, "consumer_group": "readers", "partition": 0}
        [held] = own.poll(**place, max_messages=1)
        for move in ("3 days", "0", "8 days", "0"):
            emptied_clock.advance(move)
            own.cleanup()
        assert own.nack_offsets(**place, lease_token=held.lease_token, error="no") is True
        own.publish(topic=topic, payload=4, partition=0)
        if out_of_range == "error":
            refused("MQ004", own.poll, **place)
            own.seek(topic=topic, consumer_group="readers", start="earliest")
        assert [message.log_offset for message in own.poll(**place)] == [4]
        assert row(own, "select attempt from pgq.group_lag where topic = %s", [topic]) == (1,)
        assert dead_letters(own, dead) == []
