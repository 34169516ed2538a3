"""Runs of bulk writes: how long they are kept before the commit, and behind it."""

from __future__ import annotations

import pytest

from support.bulk import begin, contents_of, numbers, runs, stage_long
from support.clock import Clock
from support.session import Session
from support.storage import clean, held, ranges, seal_and_close

LONG = 600


def topic_of(session: Session, retention: str | None) -> str:
    """A topic that keeps its messages so long."""
    kept = {"no_limit": ["retention"]} if retention is None else {"retention": retention}
    session.create_topic(topic="t", partitions=1, **kept)
    return "t"


def test_what_is_staged_stays_until_the_commit(connection: Session, clock: Clock) -> None:
    """Long behind its retention it is not emptied; and it is kept from the commit on."""
    topic = topic_of(connection, "3 days")
    write_id = begin(connection, topic=topic, timeout="90 days")
    stage_long(connection, write_id, numbers(1, LONG))
    seal_and_close(connection, clock, "2 days")
    clock.advance("20 days")
    assert "segment busy" in [one.action for one in connection.cleanup()]
    assert held(connection)[0] == LONG
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {0: numbers(1, LONG)}
    assert runs(connection, topic) == []
    clean(connection)
    clock.advance("2 days")
    clean(connection)
    assert contents_of(connection, topic) == {0: numbers(1, LONG)}
    assert held(connection)[0] == LONG
    for _ in range(3):
        clock.advance("3 days")
        clean(connection)
    assert contents_of(connection, topic) == {}
    assert held(connection)[0] == 0
    assert ranges(connection, topic) == [(LONG + 1, LONG)]


def test_in_a_sealed_segment(connection: Session, clock: Clock) -> None:
    """A chunk behind the move of its class is stored in the new one; order is kept."""
    topic = topic_of(connection, "3 days")
    write_id = begin(connection, topic=topic, timeout="90 days")
    stage_long(connection, write_id, numbers(1, LONG), task=0)
    seal_and_close(connection, clock, "2 days")
    stage_long(connection, write_id, numbers(1001, 1000 + LONG), task=1)
    connection.publish(topic=topic, payload=0)
    connection.commit_write(write_id=write_id)
    assert contents_of(connection, topic) == {
        0: [0, *numbers(1, LONG), *numbers(1001, 1000 + LONG)]
    }
    assert runs(connection, topic) == [(0, 2 + LONG)]


def test_retention_takes_runs_with_it(connection: Session, clock: Clock) -> None:
    """Offsets go on behind them, and what comes later is read as ever."""
    topic = topic_of(connection, "3 days")
    for _ in range(2):
        write_id = begin(connection, topic=topic)
        stage_long(connection, write_id, numbers(1, LONG))
        connection.commit_write(write_id=write_id)
        connection.publish(topic=topic, payload=1)
    seal_and_close(connection, clock, "2 days")
    connection.publish(topic=topic, payload=2)
    clock.advance("4 days")
    assert "segment truncated" in clean(connection)
    assert ranges(connection, topic) == [(2 * LONG + 3, 2 * LONG + 3)]
    assert contents_of(connection, topic) == {0: [2]}
    assert held(connection)[0] == 1
    assert runs(connection, topic) == []


@pytest.mark.parametrize("retention", ["3 days", None], ids=["3 days", "for ever"])
@pytest.mark.parametrize("how", ["abort", "begin again", "forget", "drop the topic"])
def test_what_is_given_up_is_removed(
    connection: Session, clock: Clock, retention: str | None, how: str
) -> None:
    """With its segment, or row by row where no segment is ever emptied."""
    topic = topic_of(connection, retention)
    connection.create_topic(topic="other", partitions=1, no_limit=["retention"])
    connection.publish(topic="other", payload=1)
    write_id = begin(connection, topic=topic, producer="p", seq=1, timeout="1 hour")
    stage_long(connection, write_id, numbers(1, LONG))
    if how == "abort":
        assert connection.abort_write(write_id=write_id)
    elif how == "begin again":
        begin(connection, topic=topic, producer="p", seq=1)
    elif how == "drop the topic":
        connection.drop_topic(topic=topic)
    else:
        clock.advance("2 hours")
        assert "bulk write forgotten" in clean(connection)
    for _ in range(4):
        clean(connection)
        clock.advance("2 days")
    clean(connection)
    assert connection.execute("select count(*) from pgq.staged_extent").fetchone() == (0,)
    assert held(connection)[0] == 1
    assert connection.execute("select count(*) from pgq.dropped_range").fetchone() == (0,)
    assert contents_of(connection, "other") == {0: [1]}


def test_a_topic_without_retention_is_dropped(connection: Session, clock: Clock) -> None:
    """Runs and what came behind them go, and nothing else."""
    connection.create_topic(topic="other", partitions=1, no_limit=["retention"])
    connection.publish(topic="other", payload=1)
    topic = topic_of(connection, None)
    for _ in range(2):
        write_id = begin(connection, topic=topic)
        stage_long(connection, write_id, numbers(1, LONG))
        connection.commit_write(write_id=write_id)
        connection.publish(topic=topic, payload=1)
    connection.drop_topic(topic=topic)
    clean(connection)
    assert held(connection)[0] == 1
    assert contents_of(connection, "other") == {0: [1]}


def test_given_up_messages_let_a_segment_age(connection: Session, clock: Clock) -> None:
    """A segment that has nothing else is emptied in its time too."""
    topic = topic_of(connection, "3 days")
    write_id = begin(connection, topic=topic)
    stage_long(connection, write_id, numbers(1, LONG))
    connection.abort_write(write_id=write_id)
    for _ in range(4):
        clock.advance("2 days")
        clean(connection)
    assert held(connection)[0] == 0
