"""Readers that miss, or wait for, the emptying of a segment: all that they asked for, or an error.

TRUNCATE empties a leaf for every snapshot. So whoever reads must find out that a part is gone, at
the beginning of its range or in the middle of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from support.clock import Clock
from support.log import offsets
from support.session import Connect, Session, new_name, refused, row
from support.snapshots import LEVELS, old_session
from support.storage import clean
from support.waiting import PATIENCE, blocked, started

READERS = {"consumer_group": "readers"}
GONE = {"first": 1, "middle": 4}
"""The first offset of the segment that is emptied."""


@pytest.fixture
def log(connection: psycopg.Connection[Any]) -> Session:
    """The log in the database of this folder."""
    return connection


def three_segments(log: Session, clock: Clock, gone: str) -> str:
    """A topic with the messages 1 to 9, three in a segment; one is about to be emptied.

    Those before it would be kept longer by themselves, and go from sight with it; they stand in a
    segment of which another topic still has need.
    """
    topic = new_name("topic")
    retentions = {"first": ["9 hours", "90 days", "80 days"]}.get(
        gone, ["90 days", "9 hours", "80 days"]
    )
    keeper = new_name("topic")
    log.create_topic(topic=keeper, partitions=1, retention="90 days")
    log.publish(topic=keeper, payload=0)
    log.create_topic(topic=topic, partitions=1)
    for group, out_of_range in (("readers", "error"), ("skippers", "skip")):
        log.create_group(topic=topic, consumer_group=group, out_of_range=out_of_range)
    for turn, retention in enumerate(retentions):
        log.alter_topic(topic=topic, retention=retention)
        payloads = list(range(3 * turn + 1, 3 * turn + 4))
        log.publish_batch(topic=topic, payloads=payloads)
        clock.advance("1 minute")
    clean(log)
    clock.advance("4 hours")
    clean(log)
    clock.advance("9 hours")
    return topic


def reads(session: Session, topic: str) -> dict[str, Callable[[], list[int]]]:
    """The ways to read the messages 1 to 9; each returns the offsets it was given."""
    whole: dict[str, Any] = {"topic": topic, "partition": 0, "first_offset": 1, "last_offset": 9}

    def from_view() -> list[int]:
        rows = session.execute(
            "select log_offset from pgq.messages where partition_id ="
            " (select pgq.check_range(%(topic)s, 0, 1, 9)) and log_offset between 1 and 9",
            {"topic": topic},
        ).fetchall()
        return sorted(offset for (offset,) in rows)

    def checked() -> list[int]:
        session.check_range(**whole)
        return from_view()

    return {
        "fetch": lambda: offsets(session.fetch(topic=topic, **READERS)),
        "fetch of a partition": lambda: offsets(session.fetch(topic=topic, partition=0, **READERS)),
        "fetch_range": lambda: offsets(session.fetch_range(**whole)),
        "consume": lambda: offsets(session.consume(topic=topic, **READERS)),
        "poll": lambda: offsets(session.poll(topic=topic, **READERS)),
        "messages": from_view,
        "check_range": checked,
    }


WAYS = [
    "fetch",
    "fetch of a partition",
    "fetch_range",
    "consume",
    "poll",
    "messages",
    "check_range",
]


def told(work: Callable[[], list[int]]) -> list[int] | str | None:
    """What a reader was given, or the code of its error."""
    try:
        return work()
    except psycopg.Error as error:
        return error.sqlstate


def allowed(way: str) -> list[Any]:
    """All of it, or that a part is gone; what moves a position may have to be tried again."""
    whole = list(range(1, 10))
    return [whole, "MQ004", "40001"] if way in ("consume", "poll") else [whole, "MQ004"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("way", WAYS)
def test_an_old_snapshot_reads_all_or_is_told(
    connect: Connect, log: Session, clock: Clock, way: str, gone: str, level: str
) -> None:
    topic = three_segments(log, clock, gone)
    late = old_session(connect, level)
    assert "segment truncated" in clean(log)
    assert told(reads(late, topic)[way]) in allowed(way)


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("way", ["fetch", "fetch of a partition", "fetch_range", "check_range"])
def test_an_old_snapshot_is_told_that_retention_was_first(
    connect: Connect, log: Session, clock: Clock, way: str, gone: str
) -> None:
    """Not that messages, whose offsets it still shows, are yet to come; and what is still there."""
    topic = three_segments(log, clock, gone)
    late = old_session(connect, "repeatable read")
    assert "segment truncated" in clean(log)
    error = refused("MQ004", reads(late, topic)[way])
    assert "offset 1 of topic" in str(error)
    detail = f"First available offset: {GONE[gone] + 3}; last available offset: 9."
    assert error.diag.message_detail == detail
    assert "Retention has removed it" in str(error.diag.message_hint)


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("way", WAYS)
def test_who_waits_for_the_emptying_reads_all_or_is_told(
    connect: Connect, log: Session, clock: Clock, way: str, gone: str
) -> None:
    topic = three_segments(log, clock, gone)
    cleaner, reader = connect(), connect(autocommit=True)
    assert "segment truncated" in [row.action for row in cleaner.cleanup()]
    reading = started(log, reader, lambda: told(reads(reader, topic)[way]))
    cleaner.commit()
    assert reading.result(PATIENCE) in allowed(way)


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("function", ["fetch", "consume", "poll", "claim_offsets"])
def test_a_group_that_skips_gets_no_gap(
    connect: Connect, log: Session, clock: Clock, function: str, gone: str
) -> None:
    """In an old snapshot, it goes on behind what is gone, or has to try again."""
    topic = three_segments(log, clock, gone)
    late = old_session(connect, "repeatable read")
    clean(log)
    group = {"consumer_group": "skippers"}

    def work() -> list[int]:
        rows = late.call(function, topic=topic, **group)
        if function == "claim_offsets":
            [[_, first, last]] = rows
            rows = late.fetch_range(topic=topic, partition=0, first_offset=first, last_offset=last)
        return offsets(rows)

    first = GONE[gone] + 3
    result = told(work)
    assert result in (list(range(1, 10)), list(range(first, 10)), "MQ004", "40001")
    late.rollback()
    assert offsets(log.fetch(topic=topic, **group)) == list(range(first, 10))


def test_the_view_begins_where_the_log_begins(log: Session, clock: Clock) -> None:
    """What would be kept longer by itself, but stands before what is gone, is not shown."""
    topic = three_segments(log, clock, "middle")
    clean(log)
    rows = log.execute(
        "select log_offset from pgq.messages where topic = %s order by log_offset", [topic]
    ).fetchall()
    assert [offset for (offset,) in rows] == [7, 8, 9]
    [place] = log.list_offsets(topic=topic)
    assert (place.first_offset, place.last_offset) == (7, 9)


def by_time(session: Session, topic: str, function: str, moment: Any) -> list[int]:
    """Where the messages from a moment on begin."""
    if function == "seek":
        rows = session.seek(topic=topic, published_at=moment, **READERS)
        return [row.position for row in rows]
    return offsets(session.list_offsets(topic=topic, published_at=moment))


def time_of(log: Session, topic: str, offset: int) -> Any:
    [found] = log.fetch_range(topic=topic, partition=0, first_offset=offset, last_offset=offset)
    return found.published_at


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("function", ["list_offsets", "seek"])
def test_a_moment_is_not_found_too_early_in_an_old_snapshot(
    connect: Connect, log: Session, clock: Clock, function: str, gone: str
) -> None:
    """The halving looks at messages that are gone: what it cannot read says nothing of time."""
    topic = three_segments(log, clock, gone)
    moment = time_of(log, topic, 7)
    late = old_session(connect, "repeatable read")
    assert "segment truncated" in clean(log)
    found = told(lambda: by_time(late, topic, function, moment))
    assert found in ([7], "MQ004", "40001")


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("function", ["list_offsets", "seek"])
def test_a_moment_is_not_found_too_early_during_the_emptying(
    connect: Connect, log: Session, clock: Clock, function: str, gone: str
) -> None:
    topic = three_segments(log, clock, gone)
    moment = time_of(log, topic, 7)
    cleaner, reader = connect(), connect(autocommit=True)
    assert "segment truncated" in [row.action for row in cleaner.cleanup()]
    finding = started(log, reader, lambda: told(lambda: by_time(reader, topic, function, moment)))
    cleaner.commit()
    assert finding.result(PATIENCE) in ([7], "MQ004", "40001")


@pytest.fixture
def halting(log: Session) -> Iterator[None]:
    """Seeks of sessions that say so wait, once they know the first offset, for advisory lock 1."""
    name = "pgq._first_available(bigint)"
    [definition] = row(log, "select pg_get_functiondef(%s::regprocedure)", [name])
    log.execute(
        """
        create or replace function pgq._first_available(partition_id bigint)
        returns bigint language plpgsql stable
        as $$
        #variable_conflict use_column
        declare
            found_offset bigint;
        begin
            select min(r.first_offset)
            into found_offset
            from pgq.segment_range as r
            where r.partition_id = _first_available.partition_id;

            if current_setting('pgq_test.gate', true) = 'here' then
                perform pg_catalog.pg_advisory_xact_lock(1);
            end if;
            return found_offset;
        end
        $$
        """
    )
    yield
    log.execute(definition.encode())


@pytest.mark.parametrize("wanted", [1, 7])
@pytest.mark.parametrize("gone", GONE)
def test_a_seek_to_a_moment_while_messages_go(
    connect: Connect, log: Session, clock: Clock, halting: None, gone: str, wanted: int
) -> None:
    """What was there when it looked for the first offset is gone when it looks at the times."""
    topic = three_segments(log, clock, gone)
    moment = time_of(log, topic, wanted)
    seeker = connect(autocommit=True)
    seeker.execute("set pgq_test.gate = 'here'")
    log.execute("select pg_advisory_lock(1)")
    seeking = blocked(log, seeker, lambda: by_time(seeker, topic, "seek", moment))
    assert "segment truncated" in clean(log)
    log.execute("select pg_advisory_unlock(1)")
    assert seeking.result(PATIENCE) == [max(wanted, GONE[gone] + 3)]
