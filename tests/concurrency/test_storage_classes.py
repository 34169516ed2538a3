"""Several who need a storage class that goes out of use at this moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.clock import Clock
from support.queue import enqueue
from support.session import Connect, Session
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session
from support.storage import actions
from support.waiting import results, started


@pytest.mark.parametrize("kind", ["topic", "queue"])
def test_many_take_up_a_class_again(
    connect: Connect, connection: Session, clock: Clock, kind: str
) -> None:
    """They wait for the cleanup that takes it out of use, and not for each other."""
    for turn in range(3):
        connection.create_queue(queue="old")
        enqueue(connection, "old")
        connection.drop_queue(queue="old")
        cleaner = connect()
        assert "segment sealed" in actions(cleaner)
        sessions = [connect(autocommit=True) for _ in range(6)]

        def create(session: Session, name: str) -> None:
            if kind == "topic":
                session.create_topic(topic=name, partitions=1, retention="14 days")
            else:
                session.create_queue(queue=name)

        names = [f"{kind}-{turn}-{number}" for number in range(6)]
        waiting = [
            started(connection, session, lambda s=session, n=name: create(s, n))  # type: ignore[misc]
            for session, name in zip(sessions, names, strict=True)
        ]
        cleaner.commit()
        results(*waiting)
        for name in names:
            (connection.drop_topic if kind == "topic" else connection.drop_queue)(**{kind: name})
        for _ in range(4):
            connection.cleanup()


KINDS: dict[str, Callable[[Session], Any]] = {
    "create_topic": lambda session: session.create_topic(topic="new", retention="9 hours"),
    "alter_topic": lambda session: session.alter_topic(topic="t", partitions=2),
    "create_queue": lambda session: session.create_queue(queue="new", retention="9 hours"),
    "alter_queue": lambda session: session.alter_queue(queue="q", notify=True),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_class_that_has_gone_on_since_the_snapshot(
    connect: Connect, connection: Session, clock: Clock, kind: str, level: str
) -> None:
    """Nothing new goes to the segment that it has left: 40001."""
    connection.create_topic(topic="t", partitions=1, retention="9 hours")
    if kind == "alter_queue":
        connection.create_queue(queue="q", retention="9 hours", job_ttl="9 hours")
    connection.publish(topic="t", payload=1)
    session = old_session(connect, level)
    clock.advance("5 hours")
    assert "segment sealed" in actions(connection)
    assert answer_of(session, lambda: KINDS[kind](session)) == TRY_AGAIN
    assert answer_of(session, lambda: KINDS[kind](session)) != TRY_AGAIN
