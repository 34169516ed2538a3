"""Several sessions and one idempotency key: one of them writes, all of them get its answer."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.keys import KINDS, Target, new_target
from support.session import Connect, Session, row
from support.snapshots import LEVELS as STRICT
from support.snapshots import TRY_AGAIN, answer_of, old_session, second_answer_of
from support.storage import actions, clean
from support.waiting import blocked, results

LEVELS = ["read committed", *STRICT]


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """A database that is empty."""
    return emptied_dsn


@pytest.fixture
def clock(emptied_clock: Clock) -> Clock:
    """The clock of that database; it is set right again at the end of the test."""
    return emptied_clock


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, connection: Session) -> Target:
    """Keys have been noted for it."""
    target = new_target(connection, request.param)
    target.write(connection, "there", 0)
    return target


# ------------------------------------------------------------------------- two at the same time


@pytest.mark.parametrize("level", LEVELS)
def test_after_a_commit_the_other_gets_the_answer(
    connect: Connect, connection: Session, target: Target, level: str
) -> None:
    """Above READ COMMITTED by trying again."""
    winner, other = connect(), connect(isolation_level=level)
    first = target.write(winner, "a", 1)[0]
    answer = blocked(
        connection,
        other,
        lambda: second_answer_of(other, lambda: target.write(other, "a", 2)),
    )
    winner.commit()
    assert results(answer) == [(first, True)]
    assert target.stored(connection) == [0, 1]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("winner_level", LEVELS)
def test_after_a_rollback_the_other_writes(
    connect: Connect, connection: Session, target: Target, level: str, winner_level: str
) -> None:
    winner, other = connect(isolation_level=winner_level), connect(isolation_level=level)
    target.write(winner, "a", 1)
    answer = blocked(
        connection, other, lambda: answer_of(other, lambda: target.write(other, "a", 2))
    )
    winner.rollback()
    [(_, duplicate)] = results(answer)
    assert duplicate is False
    assert target.stored(connection) == [0, 2]


@pytest.mark.parametrize("level", LEVELS)
def test_after_the_end_of_its_session_the_other_writes(
    connect: Connect, connection: Session, target: Target, level: str
) -> None:
    winner, other = connect(), connect(isolation_level=level)
    target.write(winner, "a", 1)
    answer = blocked(
        connection, other, lambda: answer_of(other, lambda: target.write(other, "a", 2))
    )
    connection.execute("select pg_terminate_backend(%s)", [winner.pid])
    [(_, duplicate)] = results(answer)
    assert duplicate is False
    assert target.stored(connection) == [0, 2]


def test_three_at_the_same_time(connect: Connect, connection: Session, target: Target) -> None:
    """The two that have lost do not wait for each other."""
    winner, second, third = connect(), connect(), connect()
    first = target.write(winner, "a", 1)[0]
    answers = [
        blocked(connection, session, lambda session=session: target.write(session, "a", 2))
        for session in (second, third)
    ]
    winner.commit()
    assert results(*answers) == [(first, True)] * 2
    assert target.stored(connection) == [0, 1]


def test_others_do_not_wait(connect: Connect, connection: Session, target: Target) -> None:
    """Calls with other keys, or with none, pass by one that is open."""
    session = connect()
    target.write(session, "a", 1)
    assert target.write(connection, "b", 2)[1] is False
    assert target.write(connection, None, 3)[1] is False
    assert target.write(connection, "there", 4)[1] is True


@pytest.mark.parametrize("committed", [False, True])
def test_batches_that_overlap(
    connect: Connect, connection: Session, target: Target, committed: bool
) -> None:
    """In any order of the keys; what only one of them has is written by it."""
    winner, other = connect(), connect(autocommit=True)
    keys = [f"{n:03}" for n in range(100)]
    target.write_batch(winner, keys[:60])
    answer = blocked(connection, other, lambda: target.write_batch(other, keys[:19:-1]))
    winner.commit() if committed else winner.rollback()
    [rows] = results(answer)
    assert any(found.duplicate for found in rows) is committed
    expected = 60 + 40 if committed else 80
    assert len(target.stored(connection)) == expected + 1
    again = target.write_batch(connection, keys[20:])
    assert all(found.duplicate for found in again)


def test_the_first_key_of_all(connect: Connect, connection: Session) -> None:
    """The class for the window is made by one of them; the other waits for it."""
    targets = [new_target(connection, kind) for kind in KINDS]
    winner, other = connect(), connect(autocommit=True)
    targets[0].write(winner, "a", 1)
    answer = blocked(connection, other, lambda: targets[1].write(other, "a", 2))
    winner.commit()
    [(_, duplicate)] = results(answer)
    assert duplicate is False


# ----------------------------------------------------------------- beside a change of the segment


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("sealings", [1, 2])
def test_the_segment_changes_between_the_two(
    connect: Connect,
    connection: Session,
    clock: Clock,
    target: Target,
    level: str,
    commits: bool,
    sealings: int,
) -> None:
    """The first one noted its key in the segment before; it is not closed as long as it runs."""
    winner, other = connect(), connect(isolation_level=level)
    first = target.write(winner, "a", 1)[0]
    for turn in range(sealings):
        clock.advance("8 hours" if turn else "9 hours")
        assert "segment sealed" in actions(connection)
        connection.cleanup()
        target.write(connection, f"turn {turn}", 10 + turn)
    answer = blocked(
        connection,
        other,
        lambda: second_answer_of(other, lambda: target.write(other, "a", 2)),
    )
    winner.commit() if commits else winner.rollback()
    [(place, duplicate)] = results(answer)
    assert duplicate is commits
    assert place == first or not commits
    held = [number for number in target.stored(connection) if 0 < number < 10]
    assert held == [1 if commits else 2]
    clean(connection)
    assert target.write(connection, "a", 3) == (place, True)


@pytest.mark.parametrize("level", LEVELS)
def test_a_segment_that_was_sealed_just_now(
    connect: Connect, connection: Session, clock: Clock, target: Target, level: str
) -> None:
    """No cleanup has looked yet who was running then: all may be."""
    winner, other = connect(), connect(isolation_level=level)
    first = target.write(winner, "a", 1)[0]
    clock.advance("9 hours")
    assert "segment sealed" in actions(connection)
    answer = blocked(
        connection,
        other,
        lambda: second_answer_of(other, lambda: target.write(other, "a", 2)),
    )
    winner.commit()
    assert results(answer) == [(first, True)]


@pytest.mark.parametrize("level", LEVELS)
def test_the_segment_changes_while_the_other_waits(
    connect: Connect, connection: Session, clock: Clock, target: Target, level: str
) -> None:
    winner, other, third = connect(), connect(isolation_level=level), connect(autocommit=True)
    first = target.write(winner, "a", 1)[0]
    answer = blocked(
        connection,
        other,
        lambda: second_answer_of(other, lambda: target.write(other, "a", 2)),
    )
    clock.advance("9 hours")
    assert "segment sealed" in actions(connection)
    more = blocked(connection, third, lambda: target.write(third, "a", 3))
    winner.commit()
    assert results(answer, more) == [(first, True)] * 2
    assert target.stored(connection) == [0, 1]


@pytest.mark.parametrize("kind", KINDS)
def test_who_lost_in_a_later_segment_leaves_nothing_in_an_earlier_one(
    connect: Connect, connection: Session, clock: Clock, kind: str
) -> None:
    """Two keys, of which the other one has one, and a segment that the other one does not know."""
    winner, other = connect(), connect(autocommit=True)
    # so that the next segment has a lower number than the first one
    connection.create_topic(topic="low", retention="5 days", partitions=1)
    target = new_target(connection, kind)
    target.write(connection, "there", 0)
    connection.drop_topic(topic="low")
    assert "segment truncated" in clean(connection)
    target.write(winner, "b", 1)
    clock.advance("9 hours")
    assert "segment sealed" in actions(connection)
    answer = blocked(connection, other, lambda: target.write_batch(other, ["a", "b", "c"]))
    winner.commit()
    [rows] = results(answer)
    assert sorted(found.duplicate for found in rows)[-1] is True
    assert target.stored(connection) == [0, 0, 1, 2]
    assert row(
        connection,
        "select count(*) from pgq.idempotency where job_id is null and partition is null",
    ) == (0,)
    assert row(
        connection,
        "select count(distinct (job_id, partition, log_offset)) from pgq.idempotency"
        " where idempotency_key = 'b'",
    ) == (1,)


# ------------------------------------------------------------------- beside a change of the window


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("window", ["1 hour", "5 days"])
def test_the_window_changes_between_the_two(
    connect: Connect,
    connection: Session,
    target: Target,
    level: str,
    commits: bool,
    window: str,
) -> None:
    """The first one noted its key by the window before."""
    winner, other = connect(), connect(isolation_level=level)
    target.write(winner, "a", 1)
    target.alter(connection, idempotency_window=window)
    for _ in range(3):
        connection.cleanup()
    answer = blocked(
        connection,
        other,
        lambda: second_answer_of(other, lambda: target.write(other, "a", 2)),
    )
    winner.commit() if commits else winner.rollback()
    [(_, duplicate)] = results(answer)
    assert duplicate is commits
    assert target.stored(connection) == [0, 1 if commits else 2]
    for _ in range(3):
        connection.cleanup()
    assert target.write(connection, "a", 3)[1] is True


@pytest.mark.parametrize("level", STRICT)
def test_an_old_snapshot_shows_the_window_before(
    connect: Connect, connection: Session, target: Target, level: str
) -> None:
    """It would note its key where nobody looks any more: 40001."""
    session = old_session(connect, level)
    target.alter(connection, idempotency_window="5 days")
    for _ in range(4):
        connection.cleanup()
    assert answer_of(session, lambda: target.write(session, "a", 1)) == TRY_AGAIN
    first, duplicate = target.write(session, "a", 1)
    session.commit()
    assert duplicate is False
    assert target.write(connection, "a", 2) == (first, True)


@pytest.mark.parametrize("level", STRICT)
def test_a_class_of_others_goes_on_after_the_snapshot(
    connect: Connect, connection: Session, clock: Clock, target: Target, level: str
) -> None:
    """That is no reason to try again."""
    connection.create_topic(topic="other", partitions=1, retention="1 hour")
    connection.publish(topic="other", payload=1)
    session = old_session(connect, level)
    clock.advance("40 minutes")
    assert "segment sealed" in actions(connection)
    assert answer_of(session, lambda: target.write(session, "a", 1))[1] is False
    assert target.stored(connection) == [0, 1]


def test_a_window_changes_beside_the_first_key_of_all(
    connect: Connect, connection: Session
) -> None:
    """Whose class nobody else can see."""
    target = new_target(connection, "queue")
    winner, other = connect(), connect(autocommit=True)
    first = target.write(winner, "a", 1)[0]
    target.alter(connection, idempotency_window="5 days")
    answer = blocked(connection, other, lambda: target.write(other, "a", 2))
    winner.commit()
    assert results(answer) == [(first, True)]


# ------------------------------------------------------------------------------ dropped, or many


def test_it_is_dropped_and_made_anew_beside_a_call(connect: Connect, connection: Session) -> None:
    """A call that waits for a key of the one before notes it anew; a topic is not dropped then."""
    winner, other = connect(), connect(autocommit=True)
    target = new_target(connection, "queue")
    target.write(connection, "there", 0)
    target.write(winner, "a", 1)
    answer = blocked(connection, other, lambda: target.write(other, "a", 2))
    target.drop(connection)
    target.create(connection)
    winner.rollback()
    [(place, duplicate)] = results(answer)
    assert duplicate is False
    assert target.write(connection, "a", 3) == (place, True)
    assert row(connection, "select count(*) from pgq.job") == (1,)


@pytest.mark.parametrize("level", LEVELS)
def test_many_at_once(
    connect: Connect, connection: Session, clock: Clock, target: Target, level: str
) -> None:
    """Beside cleanup and a clock that seals the segments: one key, one of them."""
    calls = 60

    def work(seed: int) -> list[tuple[str, Any]]:
        rng = random.Random(seed)
        session = connect(isolation_level=level)
        done = []
        for _ in range(calls):
            key = f"key {rng.randrange(40)}"
            while True:
                try:
                    place, _ = target.write(session, key, 1)
                    if rng.random() < 0.2:
                        session.rollback()
                    else:
                        session.commit()
                        done.append((key, place))
                    break
                except psycopg.errors.SerializationFailure:
                    session.rollback()
        return done

    def tidy() -> list[tuple[str, Any]]:
        # less than a window altogether
        for _ in range(10):
            clock.advance("2 hours")
            connection.cleanup()
        return []

    with ThreadPoolExecutor(5) as pool:
        futures = [pool.submit(work, seed) for seed in range(4)]
        futures.append(pool.submit(tidy))
        done = [answer for future in futures for answer in future.result()]
    places = {key: {place for other, place in done if other == key} for key, _ in done}
    assert {len(found) for found in places.values()} == {1}
    assert len(target.stored(connection)) == len(places) + 1
