"""The newest segment of a partition is emptied: it is not taken for one that is empty.

Nothing is published any more, retention removes all that is there, and somebody looks with a
snapshot that shows the partition still in that segment. To TRUNCATE it is all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.clock import Clock
from support.session import Connect, Session, row
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session
from support.storage import actions, clean
from support.waiting import blocked, results

PLACE = {"topic": "t", "consumer_group": "readers", "partition": 0}
LAST = 10


def prepared(connection: Session, **retention: str) -> None:
    """A topic whose group has read half of what is there."""
    connection.create_topic(topic="t", partitions=1, **retention)
    connection.create_group(topic="t", consumer_group="readers")
    connection.create_group(topic="t", consumer_group="skippers", out_of_range="skip")
    connection.publish_batch(topic="t", payloads=list(range(LAST)))
    connection.commit_offset(**PLACE, committed_offset=LAST // 2)


def calls(session: Session) -> dict[str, Callable[[], Any]]:
    """What tells, or uses, the newest offset; and what is true of it, wherever messages stand."""
    skippers = {"topic": "t", "consumer_group": "skippers"}
    return {
        "list_offsets": lambda: session.list_offsets(topic="t")[0].last_offset,
        "seek to the end": lambda: session.seek(**PLACE, start="latest")[0].position - 1,
        "seek to a moment": lambda: session.seek(**PLACE, published_at="infinity")[0].position - 1,
        "create_group": lambda: _created(session),
        "commit_offset": lambda: session.commit_offset(**PLACE, committed_offset=LAST),
        "fetch": lambda: session.fetch(**PLACE)[-1].log_offset,
        "fetch of skippers": lambda: session.fetch(**skippers)[-1].log_offset,
        "fetch_range": lambda: (
            session.fetch_range(topic="t", partition=0, first_offset=LAST, last_offset=LAST)[
                0
            ].log_offset
        ),
        "check_range": lambda: (
            session.check_range(topic="t", partition=0, first_offset=1, last_offset=LAST) and LAST
        ),
    }


def gone(function: str) -> list[str]:
    """The code where messages are gone; what was reached can be committed all the same."""
    return [] if function == "commit_offset" else ["MQ004"]


def _created(session: Session) -> int:
    session.create_group(topic="t", consumer_group="new", start="latest")
    [committed] = row(
        session, "select committed_offset from pgq.group_lag where consumer_group = 'new'"
    )
    return int(committed)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("function", calls(None))  # type: ignore[arg-type]
def test_an_old_snapshot(
    connect: Connect, connection: Session, clock: Clock, function: str, level: str
) -> None:
    """The answer is right, or the call has to be made again, or the messages are gone."""
    prepared(connection, retention="30 seconds")
    session = old_session(connect, level)
    for _ in range(4):
        clock.advance("40 seconds")
        clean(connection)
    assert connection.list_offsets(topic="t")[0].first_offset == LAST + 1
    answer = answer_of(session, calls(session)[function], *gone(function))
    if function == "fetch of skippers":
        assert answer == TRY_AGAIN
    else:
        assert answer in (TRY_AGAIN, LAST)
    assert connection.publish(topic="t", payload=1).log_offset == LAST + 1


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("function", ["consume", "poll", "claim_offsets"])
def test_an_old_snapshot_does_not_say_that_nothing_is_to_be_read(
    connect: Connect, connection: Session, clock: Clock, function: str, level: str
) -> None:
    prepared(connection, retention="30 seconds")
    session = old_session(connect, level)
    for _ in range(4):
        clock.advance("40 seconds")
        clean(connection)
    read = getattr(session, function)
    answer = answer_of(session, lambda: read(topic="t", consumer_group="readers"))
    assert answer == TRY_AGAIN


@pytest.mark.parametrize("function", calls(None))  # type: ignore[arg-type]
def test_during_the_emptying(
    connect: Connect, connection: Session, clock: Clock, function: str
) -> None:
    """The same at READ COMMITTED: the call waits, and then knows what it has waited for."""
    prepared(connection, retention="30 seconds")
    clock.advance("12 seconds")
    connection.cleanup()
    cleaner, reader = connect(), connect(autocommit=True)
    # The partition leaves the segment in the transaction that empties it. An autovacuum that has an
    # id holds up the closing.
    while "segment closed" not in actions(cleaner):
        pass
    clock.advance("40 seconds")
    assert "segment truncated" in actions(cleaner)
    looking = blocked(
        connection, reader, lambda: answer_of(reader, calls(reader)[function], *gone(function))
    )
    cleaner.commit()
    [answer] = results(looking)
    assert answer in (TRY_AGAIN, LAST)
