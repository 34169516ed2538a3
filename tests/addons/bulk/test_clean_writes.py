"""cleanup and bulk writes: what nobody commits is forgotten, what goes on is left alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from support.bulk import MODES, begin, contents_of, numbers, stage, staged, waiting
from support.clock import Clock
from support.log import new_topic
from support.queue import new_queue
from support.session import Connect, Session, refused


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """In place of the one that the tests of this folder share."""
    return emptied_dsn


@pytest.fixture
def clock(emptied_clock: Clock) -> Clock:
    """The clock of that database."""
    return emptied_clock


def done(connection: Session) -> list[tuple[str, str]]:
    """What cleanup says of bulk writes."""
    rows: list[Any] = connection.cleanup()
    return [(row[0], row[1]) for row in rows if "write" in f"{row[0]} {row[1]}"]


def known(connection: Session) -> set[UUID]:
    """The writes that there are."""
    return {row[0] for row in connection.execute("select write_id from pgq.bulk_write").fetchall()}


@MODES
def test_a_write_past_its_timeout(connection: Session, clock: Clock, atomic: bool) -> None:
    """It is forgotten with all that was staged; those who come late are refused."""
    target = {"topic": new_topic(connection), "producer": "job", "seq": 1, "atomic": atomic}
    write_id = begin(connection, **target, timeout=timedelta(hours=2))
    stage(connection, write_id, numbers(1, 2))
    clock.advance("119 minutes")
    assert done(connection) == []
    assert staged(connection) == (3 if atomic else 0)
    clock.advance("1 minute")
    found = done(connection)
    assert found[0] == ("bulk write forgotten", str(write_id))
    assert found[1:] == ([("staged write removed", str(write_id))] if atomic else [])
    assert staged(connection) == 0
    assert done(connection) == []
    refused("MQ008", connection.commit_write, write_id=write_id)
    refused("MQ008", lambda: stage(connection, write_id, numbers(3, 4), chunk=1))
    assert not connection.begin_write(**target).duplicate
    assert contents_of(connection, target["topic"]) == ({} if atomic else {0: numbers(1, 2)})


def test_started_again_the_time_starts_again(connection: Session, clock: Clock) -> None:
    """The timeout is that of the last begin."""
    target = {"topic": new_topic(connection), "producer": "job", "seq": 1}
    begin(connection, **target, timeout=timedelta(hours=2))
    clock.advance("1 hour")
    write_id = begin(connection, **target, timeout=timedelta(hours=2))
    clock.advance("119 minutes")
    assert done(connection) == []
    assert known(connection) == {write_id}
    clock.advance("1 minute")
    assert done(connection)[0] == ("bulk write forgotten", str(write_id))


def test_each_task_starts_the_time_again(
    connection: Session, connect: Connect, clock: Clock
) -> None:
    """However long the write takes, and however long a task: its last chunk counts."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic, timeout=timedelta(hours=2))
    with connect() as session:
        stage(session, write_id, numbers(1, 2), last_chunk=False)
        clock.advance("3 hours")
        stage(session, write_id, numbers(3, 4), chunk=1)
    clock.advance("90 minutes")
    assert done(connection) == []
    stage(connection, write_id, numbers(5, 6), task=1)
    clock.advance("119 minutes")
    assert done(connection) == []
    clock.advance("1 minute")
    assert done(connection)[0] == ("bulk write forgotten", str(write_id))
    error = refused("MQ008", connection.commit_write, write_id=write_id)
    assert "forgotten after its timeout" in str(error)
    assert contents_of(connection, topic) == {}


def test_a_write_in_progress_keeps_what_is_staged(connection: Session, connect: Connect) -> None:
    """Whatever of it is committed already, and by whom."""
    topic = new_topic(connection)
    writes = [begin(connection, topic=topic) for _ in range(3)]
    other = connect()
    stage(other, writes[0], numbers(1, 2))
    stage(connection, writes[1], numbers(3, 4), last_chunk=False)
    assert done(connection) == []
    other.commit()
    assert done(connection) == []
    stage(connection, writes[1], numbers(5, 6), chunk=1)
    assert [connection.commit_write(write_id=write_id).messages for write_id in writes] == [2, 4, 0]


@pytest.mark.parametrize("late", [{"chunk": 1}, {"task": 1}], ids=["chunk", "task"])
def test_what_late_writers_staged_is_removed(
    connection: Session, connect: Connect, late: dict[str, int]
) -> None:
    """Those who were at it when their write ended: all of it, once they have committed."""
    write_id = begin(connection, topic=new_topic(connection))
    stage(connection, write_id, numbers(1, 2), last_chunk=False)
    with connect() as session:
        stage(session, write_id, numbers(3, 4), last_chunk=False, **late)
        assert connection.abort_write(write_id=write_id)
        assert done(connection) == []
        assert staged(connection, write_id) == 4
    assert staged(connection, write_id) == (7 if "task" in late else 5)
    assert done(connection) == [("staged write removed", str(write_id))]
    assert staged(connection) == 0
    assert done(connection) == []


def test_a_commit_in_progress_is_left_alone(
    connection: Session, connect: Connect, clock: Clock
) -> None:
    """Also past the timeout; cleanup does not wait for it."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    stage(connection, write_id, numbers(1, 2))
    clock.advance("2 days")
    with connect() as session:
        assert session.commit_write(write_id=write_id).messages == 2
        assert done(connection) == []
    assert done(connection) == []
    assert contents_of(connection, topic) == {0: numbers(1, 2)}
    assert connection.commit_write(write_id=write_id).duplicate


@MODES
def test_a_chunk_in_flight_keeps_its_write(
    connection: Session, connect: Connect, clock: Clock, atomic: bool
) -> None:
    """Past the timeout."""
    write_id = begin(connection, topic=new_topic(connection), atomic=atomic)
    clock.advance("2 days")
    with connect() as session:
        stage(session, write_id, numbers(1, 2))
        assert done(connection) == []
    assert connection.commit_write(write_id=write_id).messages == 2


def test_committed_writes_are_kept_for_their_producers(connection: Session, clock: Clock) -> None:
    """Those without a producer for a day, for a commit that is repeated."""
    topic = new_topic(connection)
    named, nameless = (
        begin(connection, topic=topic, producer="job", seq=1),
        begin(connection, topic=topic),
    )
    for write_id in (named, nameless):
        connection.commit_write(write_id=write_id)
    clock.advance("23 hours")
    assert done(connection) == []
    assert known(connection) == {named, nameless}
    clock.advance("30 days")
    assert done(connection) == []
    assert known(connection) == {named}
    assert connection.begin_write(topic=topic, producer="job", seq=1).duplicate


def test_writes_to_what_was_dropped(connection: Session) -> None:
    """Open ones and committed ones; others stay, also where numbers are the same."""
    topic, queue = new_topic(connection), new_queue(connection)
    kept = new_topic(connection)
    staying = begin(connection, topic=kept)
    for target in ({"topic": topic}, {"queue": queue}):
        stage(connection, begin(connection, **target), numbers(1, 2))
        connection.commit_write(write_id=begin(connection, **target, producer="job", seq=1))
    connection.drop_topic(topic=topic)
    connection.drop_queue(queue=queue)
    assert len(known(connection)) == 5
    assert sorted(action for action, _ in done(connection)) == [
        "bulk write forgotten",
        "bulk write forgotten",
        "staged write removed",
        "staged write removed",
    ]
    assert known(connection) == {staying}
    assert connection.commit_write(write_id=staying).messages == 0


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
def test_an_open_chunk_of_an_atomic_write_past_its_timeout(
    connection: Session, connect: Connect, clock: Clock, commits: bool
) -> None:
    """The write is kept until the chunk has ended, which was staged too long ago by then."""
    topic = new_topic(connection)
    write_id = begin(connection, topic=topic)
    stage(connection, write_id, numbers(1, 2))
    session = connect()
    stage(session, write_id, numbers(3, 4), task=1)
    clock.advance("2 days")
    assert done(connection) == []
    if commits:
        session.commit()
    else:
        session.rollback()
    assert staged(connection, write_id) == (5 if commits else 3)
    assert done(connection) == [
        ("bulk write forgotten", str(write_id)),
        ("staged write removed", str(write_id)),
    ]
    assert staged(connection) == 0
    refused("MQ008", connection.commit_write, write_id=write_id)
    refused("MQ008", lambda: stage(connection, write_id, numbers(5, 6), task=2))
    assert contents_of(connection, topic) == {}


def test_locked_writes_are_left_alone(connection: Session, connect: Connect, clock: Clock) -> None:
    """Whoever holds them, and whatever of them: cleanup waits for nobody and does the others."""
    topic, dropped = new_topic(connection), new_topic(connection)
    held = [
        begin(connection, topic=topic),
        begin(connection, topic=topic, atomic=False),
        begin(connection, topic=dropped),
        begin(connection, topic=topic),
    ]
    connection.commit_write(write_id=held[3])
    with connect() as session:
        session.execute("select from pgq.bulk_write for update")
        session.execute("select from pgq.staged_write for update")
        session.execute("select from pgq.published_write for update")
        free = begin(connection, topic=topic)
        connection.drop_topic(topic=dropped)
        clock.advance("2 days")
        rows = connection.cleanup()
        assert "busy" not in [row[0] for row in rows]
        assert [row[1] for row in rows if "write" in row[0]] == [str(free)] * 2
    assert known(connection) == set(held)
    assert len(done(connection)) == 5
    assert known(connection) == set()
    assert staged(connection) == 0


def test_much_is_removed_in_several_calls(connection: Session, clock: Clock) -> None:
    """1000 at a time, of writes and of what was staged or noted for them."""
    topic = new_topic(connection)
    atomic = begin(connection, topic=topic)
    stage(connection, atomic, [b"x"])
    fast = begin(connection, topic=topic, atomic=False)
    stage(connection, fast, [b"x"])
    connection.execute(
        """
        insert into pgq.staged_chunk (write_id, task, chunk, messages)
        select %s, n, 0, 0 from generate_series(1, 2200) as n
        """,
        [atomic],
    )
    connection.execute(
        """
        insert into pgq.published_chunk
        select bulk_write_id, n, 0, 0, digest, 1
        from pgq.published_chunk, generate_series(1, 2200) as n
        """
    )
    connection.execute(
        """
        insert into pgq.bulk_write
            (topic_id, atomic, write_id, begun_at, expires_at, committed_at)
        select topic_id, true, gen_random_uuid(), begun_at, expires_at, begun_at
        from pgq.bulk_write as w, generate_series(1, 2200)
        where w.write_id = %s
        """,
        [atomic],
    )

    def left() -> tuple[Any, ...]:
        row = connection.execute(
            """
            select (select count(*) from pgq.bulk_write), (select count(*) from pgq.staged_chunk),
                (select count(*) from pgq.published_chunk)
            """
        ).fetchone()
        assert row is not None
        return row

    assert left() == (2202, 2201, 2201)
    clock.advance("2 days")
    assert done(connection) == [
        ("bulk write forgotten", str(atomic)),
        ("bulk write forgotten", str(fast)),
        ("more", "writes"),
    ]
    assert left() == (1200, 1201, 1201)
    assert done(connection) == [("more", "writes")]
    assert left() == (200, 201, 201)
    assert done(connection) == [("staged write removed", str(atomic))]
    assert left() == (0, 0, 0)
    assert staged(connection) == 0
    assert connection.execute("select count(*) from pgq.published_write").fetchone() == (0,)


def test_many_writes_to_what_was_dropped(connection: Session) -> None:
    """With the memory of their producers; also where there are many targets, most of them there."""
    topics = [new_topic(connection) for _ in range(6)]
    for topic in topics:
        for seq in (1, 2):
            connection.commit_write(
                write_id=begin(connection, topic=topic, producer="job", seq=seq)
            )
        connection.begin_write(topic=topic)
    connection.execute(
        "insert into pgq.bulk_producer select 'job', topic_id, null, 0 from pgq.topic"
    )
    for topic in topics[::2]:
        connection.drop_topic(topic=topic)
    assert len(known(connection)) == 18
    connection.cleanup()
    assert len(known(connection)) == 9
    row = connection.execute("select count(*) from pgq.bulk_producer").fetchone()
    assert row == (3,)
    for topic in topics[1::2]:
        assert connection.begin_write(topic=topic, producer="job", seq=2).duplicate


@pytest.mark.parametrize("why", ["nobody commits them", "dropped", "nameless"])
def test_more_than_one_call_forgets(connection: Session, clock: Clock, why: str) -> None:
    """It says that there is more, and the next one goes on."""
    topic, count = new_topic(connection), 2001
    begin(connection, topic=topic)
    connection.execute(
        """
        insert into pgq.bulk_write
            (topic_id, producer, seq, atomic, write_id, begun_at, expires_at, committed_at)
        select topic_id, case when %(named)s then 'p' end, case when %(named)s then n end,
            true, gen_random_uuid(), begun_at, expires_at, case when %(ended)s then begun_at end
        from pgq.bulk_write, generate_series(1, %(count)s) as n
        """,
        {"named": why == "dropped", "ended": why != "nobody commits them", "count": count - 1},
    )
    if why == "dropped":
        connection.drop_topic(topic=topic)
    else:
        clock.advance("3 days")
    said = []
    while not said or said[-1]:
        said.append(("more", "writes") in done(connection))
        assert len(known(connection)) <= count - 1000 * min(len(said), 2)
    assert said == [True, True, False]
    assert known(connection) == set()


def test_messages_that_went_while_their_write_was_open(connection: Session, clock: Clock) -> None:
    """A write that lasts longer than the retention: what it published is not published again."""
    topic, queue = new_topic(connection), new_queue(connection)
    writes = [
        begin(connection, **target, producer="p", seq=1, atomic=False, timeout=timedelta(days=90))
        for target in ({"topic": topic}, {"queue": queue})
    ]
    for write_id in writes:
        assert stage(connection, write_id, numbers(1, 3), last_chunk=False)
    connection.publish(topic=new_topic(connection), body=b"")
    for move in ("3 days", "0", "12 days", "0"):
        clock.advance(move)
        connection.cleanup()
    assert connection.list_offsets(topic=topic)[0].first_offset == 4
    for write_id in writes:
        assert not stage(connection, write_id, numbers(1, 3), last_chunk=False)
        assert stage(connection, write_id, numbers(4, 5), chunk=1)
        assert connection.commit_write(write_id=write_id).messages == 5
    assert [
        m.body
        for m in connection.fetch_range(topic=topic, partition=0, first_offset=4, last_offset=5)
    ] == numbers(4, 5)
    assert waiting(connection, queue) == numbers(4, 5)


def test_cleanup_under_read_uncommitted(connect: Connect) -> None:
    """PostgreSQL treats it as READ COMMITTED."""
    session = connect(isolation_level="read uncommitted")
    assert session.cleanup() == []
    session.rollback()
    session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with pytest.raises(psycopg.errors.ActiveSqlTransaction):
        session.cleanup()
