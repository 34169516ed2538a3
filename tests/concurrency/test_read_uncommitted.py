"""READ UNCOMMITTED is what PostgreSQL makes of it: READ COMMITTED, with no failed transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from bulk_support import contents_of, new_queue, new_topic, waiting
from log_support import PATIENCE, aside
from pgq import Client
from support import backend_pid, wait_until_blocked

Connect = Callable[..., "psycopg.Connection[Any]"]
Publish = Callable[[Client, str, int], object]

PUBLISH: dict[str, Publish] = {
    "publish": lambda client, topic, n: client.publish(topic, n),
    "publish with a key": lambda client, topic, n: client.publish(topic, n, key="k"),
    "publish_batch": lambda client, topic, n: client.publish_batch(topic, [n]),
    "publish_batch with keys": lambda client, topic, n: client.publish_batch(
        topic, [n], keys=["k"]
    ),
}
ENQUEUE: dict[str, Publish] = {
    "enqueue": lambda client, queue, n: client.enqueue(queue, n),
    "enqueue_batch": lambda client, queue, n: client.enqueue_batch(queue, [n]),
}


@pytest.fixture
def dsn(shared_dsn: str) -> str:
    """In place of a fresh database for each test."""
    return shared_dsn


@pytest.mark.parametrize("function", PUBLISH)
def test_publishers_wait_for_each_other(connect: Connect, function: str) -> None:
    """And go on behind what the other one wrote, whatever they had read before."""
    client = Client(connect(autocommit=True))
    topic = new_topic(client)
    sessions = [connect(isolation_level="read uncommitted") for _ in range(2)]
    first, second = map(Client, sessions)
    for session in sessions:
        session.execute("select from pgq.topic")
    PUBLISH[function](first, topic, 1)
    late = aside(lambda: PUBLISH[function](second, topic, 2))
    wait_until_blocked(client.connection, backend_pid(sessions[1]))
    sessions[0].commit()
    late.result(PATIENCE)
    PUBLISH[function](second, topic, 3)
    sessions[1].commit()
    assert contents_of(client, topic) == {0: [1, 2, 3]}


@pytest.mark.parametrize("function", ENQUEUE)
def test_jobs_are_added_beside_a_change_of_the_queue(connect: Connect, function: str) -> None:
    """Nobody waits for a lock that only an old snapshot needs."""
    client = Client(connect(autocommit=True))
    queue = new_queue(client)
    changing, adding = connect(), connect(isolation_level="read uncommitted")
    adding.execute("set lock_timeout = '1s'")
    Client(changing).alter_queue(queue, archive=False)
    ENQUEUE[function](Client(adding), queue, 1)
    ENQUEUE[function](Client(adding), queue, 2)
    adding.commit()
    changing.rollback()
    assert waiting(client, queue) == [1, 2]
