"""Members of a group whose snapshot is older than the group's history that cleanup has kept.

Whatever they are told is true of what is committed, or they get 40001: no range comes twice, and no
call does nothing and says that it did something.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from log_support import Log, committed_offsets, new_topic
from storage_support import LEVELS, Connect, clean, old_snapshot, right_or_again

READERS: dict[str, Any] = {"consumer_group": "readers"}
MESSAGES = 1200
MOVED = 1100
"""How far the group has gone, step by step; more steps than cleanup keeps."""


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """A database in which cleanup disturbs nobody."""
    return emptied_dsn


@pytest.fixture
def log(connection: psycopg.Connection[Any]) -> Log:
    """The log in that database."""
    return Log(connection)


def go_on(log: Log, topic: str, first: int = 1, last: int = MOVED) -> None:
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
    connect: Connect, log: Log, function: str, named: bool, level: str
) -> None:
    """The first message that nobody has had, or 40001; then the group goes on where it was."""
    topic = new_topic(log, messages=MESSAGES)
    late = old_snapshot(connect, level)
    go_on(log, topic)
    place = {"partition": 0} if named else {}

    def work() -> list[Any]:
        rows: list[Any] = getattr(late, function)(topic=topic, max_messages=10, **READERS, **place)
        return rows

    rows = right_or_again(late, work)
    if rows is None:
        rows = right_or_again(late, work)
    assert rows
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
def test_a_seek_counts(connect: Connect, log: Log, target: dict[str, Any], level: str) -> None:
    """The group stands where the seek says that it stands."""
    topic = new_topic(log, messages=MESSAGES)
    late = old_snapshot(connect, level)
    go_on(log, topic)

    def work() -> list[Any]:
        rows: list[Any] = late.seek(topic=topic, partition=0, **target, **READERS)
        return rows

    told = right_or_again(late, work)
    if told is None:
        told = right_or_again(late, work)
    assert told is not None
    assert committed_offsets(log, topic, "readers") == [told[0].position - 1]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("last_offset", [0, 10, MOVED, MOVED + 50])
def test_a_commit_counts(connect: Connect, log: Log, last_offset: int, level: str) -> None:
    """The group stands where commit_offset says: no lower than others have brought it."""
    topic = new_topic(log, messages=MESSAGES)
    late = old_snapshot(connect, level)
    go_on(log, topic)

    def work() -> int:
        committed: int = late.commit_offset(
            topic=topic, partition=0, last_offset=last_offset, **READERS
        )
        return committed

    told = right_or_again(late, work)
    if told is None:
        told = right_or_again(late, work)
    assert told == max(last_offset, MOVED)
    assert committed_offsets(log, topic, "readers") == [told]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("trimmed", [True, False])
def test_a_commit_that_has_nothing_to_do_knows_so(
    connect: Connect, log: Log, trimmed: bool, level: str
) -> None:
    """What the snapshot shows as done was taken back by a seek: it must not be called done."""
    topic = new_topic(log, messages=MESSAGES)
    if trimmed:
        go_on(log, topic)
    else:
        log.commit_offset(topic=topic, partition=0, last_offset=MOVED, **READERS)
    late = old_snapshot(connect, level)
    log.seek(topic=topic, start="earliest", **READERS)

    def work() -> int:
        committed: int = late.commit_offset(topic=topic, partition=0, last_offset=1000, **READERS)
        return committed

    told = right_or_again(late, work)
    if told is None:
        told = right_or_again(late, work)
    assert told == 1000
    assert committed_offsets(log, topic, "readers") == [1000]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("function", ["extend_poll", "release_poll", "commit_offset"])
def test_a_lease_that_was_lost(connect: Connect, log: Log, function: str, level: str) -> None:
    """A seek has ended it, and others went on: the old member is not told that it still has it."""
    topic = new_topic(log, messages=MESSAGES)
    rows = log.poll(topic=topic, max_messages=10, **READERS)
    late = old_snapshot(connect, level)
    log.seek(topic=topic, start="earliest", **READERS)
    go_on(log, topic)
    [taken, *_] = log.poll(topic=topic, **READERS)
    more = {"last_offset": 10} if function == "commit_offset" else {}

    def work() -> Any:
        return getattr(late, function)(
            topic=topic, partition=0, lease_token=rows[0].lease_token, **READERS, **more
        )

    told = right_or_again(late, work)
    assert told is None or told == (MOVED if function == "commit_offset" else False)
    assert committed_offsets(log, topic, "readers") == [MOVED]
    assert log.poll(topic=topic, **READERS) == []
    assert log.extend_poll(topic=topic, partition=0, lease_token=taken.lease_token, **READERS)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("function", ["extend_poll", "release_poll"])
def test_a_lease_that_the_snapshot_misses(
    connect: Connect, log: Log, function: str, level: str
) -> None:
    """It is the caller's: to say that it was lost would be wrong."""
    topic = new_topic(log, messages=10)
    late = old_snapshot(connect, level)
    [taken, *_] = log.poll(topic=topic, **READERS)

    def work() -> Any:
        return getattr(late, function)(
            topic=topic, partition=0, lease_token=taken.lease_token, **READERS
        )

    told = right_or_again(late, work)
    if told is None:
        told = right_or_again(late, work)
    assert told is True


@pytest.mark.parametrize("level", LEVELS)
def test_a_new_group_of_an_old_name(connect: Connect, log: Log, level: str) -> None:
    """The group was dropped and made anew: what the old one had done with does not count."""
    topic = new_topic(log, messages=MESSAGES)
    go_on(log, topic)
    late = old_snapshot(connect, level)
    log.drop_group(topic=topic, **READERS)
    log.create_group(topic=topic, **READERS)

    def work() -> list[Any]:
        rows: list[Any] = late.consume(topic=topic, max_messages=1, **READERS)
        return rows

    rows = right_or_again(late, work)
    if rows is None:
        rows = right_or_again(late, work)
    assert rows is not None
    assert [row.log_offset for row in rows] == [1]
