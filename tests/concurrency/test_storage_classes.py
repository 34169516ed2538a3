"""Several who need a storage class that goes out of use at this moment."""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.queue import enqueue
from support.session import Connect, Session
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
