"""Idempotency keys over the life of segments: found as long as they count, then gone with them."""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.keys import KINDS, Target, new_target, rows_of
from support.queue import new_queue
from support.session import Connect, Session, row
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session, second_answer_of
from support.storage import actions, clean, states

ALL_LEVELS = ["read committed", *LEVELS]


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, connection: Session) -> Target:
    """With a window of a day, and messages or jobs that are kept for longer."""
    return new_target(connection, request.param)


def key_states(session: Session) -> list[str]:
    """The states of the segments whose class is for the windows of a day, oldest first."""
    rows = session.execute(
        "select s.state from pgq.segment as s inner join pgq.storage_class as c"
        " using (storage_class_id) where c.retention = '1 day' order by s.opened_at, s.segment"
    )
    return [state for (state,) in rows.fetchall()]


def age(session: Session, clock: Clock) -> None:
    """Let the open segment of the keys be sealed; it stays so while a transaction is open."""
    clock.advance("9 hours")
    session.cleanup()


# ------------------------------------------------------------------------- over several segments


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_found_over_several_segments(
    connect: Connect, connection: Session, clock: Clock, target: Target, level: str
) -> None:
    """In the open one, a sealed one and closed ones."""
    session = connect(autocommit=True, isolation_level=level)
    first = target.write(session, "a")[0]
    assert key_states(connection) == ["open"]
    clock.advance("9 hours")
    assert "segment sealed" in actions(connection)
    assert key_states(connection) == ["sealed", "open"]
    assert target.write(session, "a", 1) == (first, True)
    second = target.write(session, "b", 2)[0]
    clean(connection)
    assert key_states(connection) == ["closed", "open"]
    assert target.write(session, "a", 3) == (first, True)
    assert target.write(session, "b", 4) == (second, True)
    clock.advance("9 hours")
    clean(connection)
    assert key_states(connection) == ["closed", "closed", "open"]
    assert target.write(session, "a", 5) == (first, True)
    assert target.write(session, "b", 6) == (second, True)
    assert target.stored(connection) == [0, 2]


def test_cleanup_removes_them(connection: Session, clock: Clock, target: Target) -> None:
    """By truncation, a window after their segment was closed."""
    for hour in range(0, 60, 3):
        target.write(connection, f"at {hour}")
        clean(connection)
        clock.advance("3 hours")
    oldest = row(connection, "select pgq._clock() + '1 day' - min(ends_at) from pgq.idempotency")[0]
    assert 24 * 3600 <= oldest.total_seconds() <= 36 * 3600
    assert rows_of(connection) <= 14
    for hour in range(39, 60, 3):
        assert target.write(connection, f"at {hour}", 1)[1] is True
    clock.advance("1 day")
    clean(connection)
    clock.advance("1 day")
    clean(connection)
    assert rows_of(connection) == 0
    sizes = connection.execute(
        "select relname from pg_class where relname ~ '^idempotency_\\d+$' and relkind = 'r'"
        " and pg_relation_size(oid) > 0"
    ).fetchall()
    assert sizes == []


def test_an_empty_leaf_is_not_truncated(connection: Session, clock: Clock) -> None:
    """Its file stays the same, beside that of the messages."""
    connection.create_topic(topic="t", partitions=1, retention="9 hours")
    connection.publish(topic="t", payload=1)
    segment = row(connection, "select segment from pgq.partition")[0]
    query = (
        f"select pg_relation_filenode('pgq.idempotency_{segment}'::regclass),"
        f" pg_relation_filenode('pgq.message_{segment}'::regclass)"
    )
    before = row(connection, query)
    for _ in range(3):
        clock.advance("10 hours")
        clean(connection)
    after = row(connection, query)
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_keys_share_segments_with_messages(connection: Session, clock: Clock) -> None:
    """Of the same retention; what holds nothing but keys ages as well."""
    queue = new_queue(connection, retention="1 day", job_ttl="1 day")
    topic = new_target(connection, "topic")
    assert len(states(connection)) == 2
    topic.write(connection, "a")
    assert len(states(connection)) == 2
    clock.advance("9 hours")
    assert "segment sealed" in actions(connection)
    assert row(
        connection,
        "select s.state from pgq.queue as q inner join pgq.segment as s using (segment)"
        " where q.queue = %s",
        [queue],
    ) == ("open",)
    assert topic.write(connection, "a", 1)[1] is True


def test_no_class_without_keys(connection: Session, clock: Clock, target: Target) -> None:
    """It is made by the first call with a key, and stays while there is such a window."""
    target.write(connection, None)
    assert key_states(connection) == []
    target.write(connection, "a")
    assert key_states(connection) == ["open"]
    for _ in range(8):
        clock.advance("1 day")
        clean(connection)
    assert key_states(connection) == ["open"]
    target.drop(connection)
    clock.advance("9 hours")
    clean(connection)
    assert key_states(connection) == []
    assert row(connection, "select count(*) from pgq.storage_class where retention = '1 day'") == (
        0,
    )


def test_a_class_that_goes_out_of_use_keeps_its_keys(
    connect: Connect, connection: Session, clock: Clock, target: Target
) -> None:
    """Those of a transaction that was open when its last topic was dropped."""
    connection.create_topic(topic="t", retention="1 day")
    late = connect()
    first = target.write(late, "a")[0]
    connection.drop_topic(topic="t")
    clean(connection)
    assert key_states(connection) == ["sealed"]
    late.commit()
    clean(connection)
    assert key_states(connection) == ["closed"]
    assert target.write(connection, "a", 1) == (first, True)
    assert target.write(connection, "b", 2)[1] is False
    assert key_states(connection) == ["closed", "open"]
    clean(connection)
    assert target.write(connection, "a", 1) == (first, True)


# ---------------------------------------------------------------------- beside long transactions


def test_segments_are_sealed_beside_open_transactions(
    connect: Connect, connection: Session, clock: Clock, target: Target
) -> None:
    """At every level; keys of both sides are found by everybody in the end."""
    target.write(connection, "before")
    open_ones = [connect(isolation_level=level) for level in ALL_LEVELS]
    for number, session in enumerate(open_ones):
        assert target.write(session, f"open {number}", number + 1)[1] is False
    for turn in range(3):
        age(connection, clock)
        assert target.write(connection, f"turn {turn}", 10 + turn)[1] is False
        assert target.write(connection, f"turn {turn}", 99)[1] is True
    assert key_states(connection) == [*["sealed"] * 3, "open"]
    for session in open_ones:
        session.commit()
    clean(connection)
    assert "sealed" not in key_states(connection)
    # the first ones were noted 27 hours ago, these less than a day
    for turn in range(3):
        assert target.write(connection, f"turn {turn}", 99)[1] is True
    assert target.stored(connection) == [0, 1, 2, 3, 10, 11, 12]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("closed", [False, True])
def test_an_old_snapshot(
    connect: Connect,
    connection: Session,
    clock: Clock,
    target: Target,
    level: str,
    closed: bool,
) -> None:
    """Taken before a key was noted and its segment sealed: 40001, then a duplicate."""
    target.write(connection, "there", 0)
    session = old_session(connect, level)
    first = target.write(connection, "a", 1)[0]
    clock.advance("9 hours")
    clean(connection) if closed else actions(connection)
    assert second_answer_of(session, lambda: target.write(session, "a", 2)) == (first, True)
    assert target.stored(connection) == [0, 1]


@pytest.mark.parametrize("level", LEVELS)
def test_an_old_snapshot_and_a_new_key(
    connect: Connect, connection: Session, clock: Clock, target: Target, level: str
) -> None:
    """Its class has gone on: 40001, as it would note the key where nobody looks."""
    target.write(connection, "there", 0)
    session = old_session(connect, level)
    clock.advance("9 hours")
    clean(connection)
    assert answer_of(session, lambda: target.write(session, "a", 1)) == TRY_AGAIN
    assert target.write(session, "a", 1)[1] is False


@pytest.mark.parametrize("level", LEVELS)
def test_an_old_snapshot_of_a_segment_that_was_emptied(
    connect: Connect, connection: Session, clock: Clock, target: Target, level: str
) -> None:
    """Its keys are past their window; so they are new, once the call gets through."""
    target.write(connection, "a", 0)
    clock.advance("9 hours")
    clean(connection)
    target.write(connection, "b", 1)
    session = old_session(connect, level)
    clock.advance("26 hours")
    assert "segment truncated" in clean(connection)
    answer = second_answer_of(session, lambda: target.write(session, "a", 2))
    assert answer[1] is False
    assert target.stored(connection) == [0, 1, 2]


@pytest.mark.parametrize("level", ALL_LEVELS)
def test_lookups_do_not_keep_segments(
    connect: Connect, connection: Session, clock: Clock, target: Target, level: str
) -> None:
    """A transaction that looked into a closed one hinders neither its truncation nor a sealing."""
    target.write(connection, "a", 0)
    clock.advance("9 hours")
    clean(connection)
    session = connect(isolation_level=level)
    assert target.write(session, "a", 1)[1] is True
    assert target.write(session, "b", 2)[1] is False
    target.write(connection, "c", 4)
    clock.advance("26 hours")
    done = clean(connection)
    assert "segment truncated" in done
    assert "segment sealed" in done
    assert "segment busy" not in done
    session.commit()
    assert target.write(connection, "b", 3)[1] is False


# -------------------------------------------------------------------------------- other windows


@pytest.mark.parametrize(
    ("window", "passed", "duplicate"),
    [
        ("2 hours", "23 hours", True),
        ("2 hours", "24 hours", False),
        ("3 days", "23 hours", True),
        ("3 days", "24 hours", False),
    ],
)
@pytest.mark.parametrize("cleaned", [False, True])
def test_a_changed_window(
    connection: Session,
    clock: Clock,
    target: Target,
    window: str,
    passed: str,
    duplicate: bool,
    cleaned: bool,
) -> None:
    """Counts for what is noted from then on: what was noted before ends by the one of then."""
    target.write(connection, "a", 0)
    target.alter(connection, idempotency_window=window)
    if cleaned:
        for _ in range(3):
            clean(connection)
    clock.advance(passed)
    if cleaned:
        for _ in range(3):
            clean(connection)
    assert target.write(connection, "a", 1)[1] is duplicate
    assert target.write(connection, "a", 2)[1] is True


def test_a_window_is_exact_within_its_tier(
    connection: Session, clock: Clock, target: Target
) -> None:
    """Whatever else keeps its keys in the same segments, which last longer than any of them."""
    for window, key in (("61 minutes", "a"), ("1 day", "b"), ("5 hours", "c")):
        target.alter(connection, idempotency_window=window)
        target.write(connection, key, 0)
    assert len(key_states(connection)) == 1
    clock.advance("60 minutes")
    assert [target.write(connection, key, 1)[1] for key in "abc"] == [True, True, True]
    clock.advance("1 minute")
    assert [target.write(connection, key, 2)[1] for key in "bca"] == [True, True, False]
    clock.advance("239 minutes")
    assert [target.write(connection, key, 3)[1] for key in "bca"] == [True, False, True]


def test_a_window_that_changes_to_and_fro(
    connection: Session, clock: Clock, target: Target
) -> None:
    """What each of them noted is found."""
    for number, window in enumerate(("2 days", "1 day", "3 days", "2 days", "1 day")):
        target.write(connection, f"{number}", number)
        target.alter(connection, idempotency_window=window)
        clock.advance("1 hour")
        clean(connection)
    for number in range(5):
        assert target.write(connection, f"{number}", 9)[1] is True
    assert target.stored(connection) == [0, 1, 2, 3, 4]


def test_former_windows_are_forgotten(
    connect: Connect, connection: Session, clock: Clock, target: Target
) -> None:
    """A window after all have ended who may know nothing else."""
    target.write(connection, "a", 0)
    late = connect()
    late.execute("select pg_current_xact_id(), count(*) from pgq.topic")
    target.alter(connection, idempotency_window="2 days")
    target.alter(connection, idempotency_window="2 days")
    former = "select count(*), count(horizon), count(ends_at) from pgq.former_window"
    assert row(connection, former) == (1, 0, 0)
    for _ in range(3):
        connection.cleanup()
    assert row(connection, former) == (1, 1, 0)
    late.commit()
    connection.cleanup()
    assert row(connection, former) == (1, 1, 1)
    clock.advance("23 hours")
    connection.cleanup()
    assert row(connection, former) == (1, 1, 1)
    clock.advance("1 hour")
    connection.cleanup()
    assert row(connection, former) == (0, 0, 0)


def test_a_window_of_a_second(connection: Session, clock: Clock, target: Target) -> None:
    """Cleanup comes later than that; the row of a key is used again."""
    target.alter(connection, idempotency_window="1 second")
    for number in range(5):
        assert target.write(connection, "a", number)[1] is False
        assert target.write(connection, "a", 9)[1] is True
        batch = target.write_batch(connection, ["a", "b", "b"])
        assert [found.duplicate for found in batch].count(False) == 1
        clock.advance("2 seconds")
        if number == 3:
            clean(connection)
    assert rows_of(connection) <= 6
