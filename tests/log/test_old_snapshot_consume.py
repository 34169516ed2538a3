"""Members of a group whose snapshot is older than the group's history that cleanup has kept.

Whatever they are told is true of what is committed, or they get 40001: no range comes twice, and no
call does nothing and says that it did something.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from support.log import committed_offsets, new_topic
from support.session import Connect, Session
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session, second_answer_of
from support.storage import clean

READERS: dict[str, Any] = {"consumer_group": "readers"}
MESSAGES = 1200
MOVED = 1100
"""How far the group has gone, step by step; more steps than cleanup keeps."""


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """A database in which cleanup disturbs nobody."""
    return emptied_dsn


@pytest.fixture
def log(connection: psycopg.Connection[Any]) -> Session:
    """The log in that database."""
    return connection


def go_on(log: Session, topic: str, first: int = 1, last: int = MOVED) -> None:
    """Others commit the messages one by one, and cleanup forgets how it began."""
    log.execute(
        "select pgq.commit_offset(%s, 'readers', 0, n)"
        " from generate_series(%s::integer, %s::integer) as n",
        [topic, first, last],
    )
    clean(log)
    assert committed_offsets(log, topic, "readers") == [last]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("named", [True, False], ids=["named partition", "any partition"])
@pytest.mark.parametrize("function", ["claim_offsets", "consume", "poll"])
def test_no_range_is_given_out_twice(
    connect: Connect, log: Session, function: str, named: bool, level: str
) -> None:
    """The first message that nobody has had, or 40001; then the group goes on where it was."""
    topic = new_topic(log, messages=MESSAGES)
    late = old_session(connect, level)
    go_on(log, topic)
    place = {"partition": 0} if named else {}

    def work() -> list[Any]:
        rows: list[Any] = late.call(function, topic=topic, max_messages=10, **READERS, **place)
        return rows

    rows = second_answer_of(late, work)
    assert rows != TRY_AGAIN
    first = rows[0].first_offset if function == "claim_offsets" else rows[0].log_offset
    assert first == MOVED + 1
    if function != "poll":
        rest = log.consume(topic=topic, **READERS)
        assert [row.log_offset for row in rest] == list(range(MOVED + 11, MESSAGES + 1))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "target",
    [{"log_offset": 5}, {"log_offset": MESSAGES}, {"start": "earliest"}, {"start": "latest"}],
    ids=str,
)
def test_a_seek_counts(connect: Connect, log: Session, target: dict[str, Any], level: str) -> None:
    """The group stands where the seek says that it stands."""
    topic = new_topic(log, messages=MESSAGES)
    late = old_session(connect, level)
    go_on(log, topic)

    def work() -> list[Any]:
        rows: list[Any] = late.seek(topic=topic, partition=0, **target, **READERS)
        return rows

    told = second_answer_of(late, work)
    assert told != TRY_AGAIN
    assert committed_offsets(log, topic, "readers") == [told[0].position - 1]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("last_offset", [0, 10, MOVED, MOVED + 50])
def test_a_commit_counts(connect: Connect, log: Session, last_offset: int, level: str) -> None:
    """The group stands where commit_offset says: no lower than others have brought it."""
    topic = new_topic(log, messages=MESSAGES)
    late = old_session(connect, level)
    go_on(log, topic)

    def work() -> int:
        committed: int = late.commit_offset(
            topic=topic, partition=0, committed_offset=last_offset, **READERS
        )
        return committed

    told = second_answer_of(late, work)
    assert told == max(last_offset, MOVED)
    assert committed_offsets(log, topic, "readers") == [told]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("trimmed", [True, False])
def test_a_commit_that_has_nothing_to_do_knows_so(
    connect: Connect, log: Session, trimmed: bool, level: str
) -> None:
    """What the snapshot shows as done was taken back by a seek: it must not be called done."""
    topic = new_topic(log, messages=MESSAGES)
    if trimmed:
        go_on(log, topic)
    else:
        log.commit_offset(topic=topic, partition=0, committed_offset=MOVED, **READERS)
    late = old_session(connect, level)
    log.seek(topic=topic, start="earliest", **READERS)

    def work() -> int:
        committed: int = late.commit_offset(
            topic=topic, partition=0, committed_offset=1000, **READERS
        )
        return committed

    told = second_answer_of(late, work)
    assert told == 1000
    assert committed_offsets(log, topic, "readers") == [1000]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("function", ["extend_poll", "release_poll", "commit_offset"])
def test_a_lease_that_was_lost(connect: Connect, log: Session, function: str, level: str) -> None:
    """A seek has ended it, and others went on: the old member is not told that it still has it."""
    topic = new_topic(log, messages=MESSAGES)
    rows = log.poll(topic=topic, max_messages=10, **READERS)
    late = old_session(connect, level)
    log.seek(topic=topic, start="earliest", **READERS)
    go_on(log, topic)
    [taken, *_] = log.poll(topic=topic, **READERS)
    more = {"committed_offset": 10} if function == "commit_offset" else {}

    def work() -> Any:
        return late.call(
            function, topic=topic, partition=0, lease_token=rows[0].lease_token, **READERS, **more
        )

    told = answer_of(late, work)
    assert told == TRY_AGAIN or told == (MOVED if function == "commit_offset" else False)
    assert committed_offsets(log, topic, "readers") == [MOVED]
    assert log.poll(topic=topic, **READERS) == []
    assert log.extend_poll(topic=topic, partition=0, lease_token=taken.lease_token, **READERS)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("function", ["extend_poll", "release_poll"])
def test_a_lease_that_the_snapshot_misses(
    connect: Connect, log: Session, function: str, level: str
) -> None:
    """It is the caller's: to say that it was lost would be wrong."""
    topic = new_topic(log, messages=10)
    late = old_session(connect, level)
    [taken, *_] = log.poll(topic=topic, **READERS)

    def work() -> Any:
        return late.call(
            function, topic=topic, partition=0, lease_token=taken.lease_token, **READERS
        )

    told = second_answer_of(late, work)
    assert told is True


@pytest.mark.parametrize("level", LEVELS)
def test_a_new_group_of_an_old_name(connect: Connect, log: Session, level: str) -> None:
    """The group was dropped and made anew: what the old one had done with does not count."""
    topic = new_topic(log, messages=MESSAGES)
    go_on(log, topic)
    late = old_session(connect, level)
    log.drop_group(topic=topic, **READERS)
    log.create_group(topic=topic, **READERS)

    def work() -> list[Any]:
        rows: list[Any] = late.consume(topic=topic, max_messages=1, **READERS)
        return rows

    rows = second_answer_of(late, work)
    assert rows != TRY_AGAIN
    assert [row.log_offset for row in rows] == [1]
