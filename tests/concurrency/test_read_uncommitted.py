"""READ UNCOMMITTED is what PostgreSQL makes of it: READ COMMITTED, with no failed transactions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.bulk import contents_of, waiting
from support.log import new_topic
from support.queue import new_queue
from support.session import Connect, Session
from support.waiting import PATIENCE, aside, wait_until_blocked

Publish = Callable[[Session, str, int], object]

PUBLISH: dict[str, Publish] = {
    "publish": lambda connection, topic, n: connection.publish(topic=topic, payload=n),
    "publish with a key": lambda connection, topic, n: connection.publish(
        topic=topic, payload=n, key="k"
    ),
    "publish_batch": lambda connection, topic, n: connection.publish_batch(
        topic=topic, payloads=[n]
    ),
    "publish_batch with keys": lambda connection, topic, n: connection.publish_batch(
        topic=topic, payloads=[n], keys=["k"]
    ),
}
ENQUEUE: dict[str, Publish] = {
    "enqueue": lambda connection, queue, n: connection.enqueue(queue=queue, payload=n),
    "enqueue_batch": lambda connection, queue, n: connection.enqueue_batch(
        queue=queue, payloads=[n]
    ),
}


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


@pytest.mark.parametrize("function", PUBLISH)
def test_publishers_wait_for_each_other(connect: Connect, function: str) -> None:
    """And go on behind what the other one wrote, whatever they had read before."""
    connection = connect(autocommit=True)
    topic = new_topic(connection)
    sessions = [connect(isolation_level="read uncommitted") for _ in range(2)]
    first, second = sessions
    for session in sessions:
        session.execute("select from pgq.topic")
    PUBLISH[function](first, topic, 1)
    late = aside(lambda: PUBLISH[function](second, topic, 2))
    wait_until_blocked(connection, sessions[1].pid)
    sessions[0].commit()
    late.result(PATIENCE)
    PUBLISH[function](second, topic, 3)
    sessions[1].commit()
    assert contents_of(connection, topic) == {0: [1, 2, 3]}


@pytest.mark.parametrize("function", ENQUEUE)
def test_jobs_are_added_beside_a_change_of_the_queue(connect: Connect, function: str) -> None:
    """Nobody waits for a lock that only an old snapshot needs."""
    connection = connect(autocommit=True)
    queue = new_queue(connection)
    changing, adding = connect(), connect(isolation_level="read uncommitted")
    adding.execute("set lock_timeout = '1s'")
    changing.alter_queue(queue=queue, archive=False)
    ENQUEUE[function](adding, queue, 1)
    ENQUEUE[function](adding, queue, 2)
    adding.commit()
    changing.rollback()
    assert waiting(connection, queue) == [1, 2]
