"""Push workers behind PgBouncer in transaction mode, which is killed and started again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from support.log import committed_offsets, new_topic
from support.pooler import PgBouncer
from support.push_config import settings
from support.receiver import Receiver, Reply, first_deliveries
from support.session import Session
from support.waiting import PATIENCE, wait_until


@pytest.fixture
def pgbouncer(shared_dsn: str) -> Iterator[PgBouncer]:
    pgbouncer = PgBouncer(shared_dsn)
    try:
        pgbouncer.start()
        yield pgbouncer
    finally:
        pgbouncer.close()


def test_two_workers(log: Session, pgbouncer: PgBouncer, receiver: Receiver, run_push: Any) -> None:
    """In order and all of it; what always fails is given up after so many attempts in all."""
    topic, dead = new_topic(log, 2, messages=12), new_topic(log)
    receiver.reply = lambda request: Reply(500 if 5 in request.offsets else 200)
    text = settings(topic, receiver.url, max_messages=3, max_attempts=2, dead_letter_topic=dead)
    for _ in range(2):
        run_push(text, pgbouncer.dsn)
    wait_until(lambda: sum(committed_offsets(log, topic, "readers")) > 0, PATIENCE)
    pgbouncer.kill()
    pgbouncer.start()
    wait_until(lambda: committed_offsets(log, topic, "readers") == [12, 12], 2 * PATIENCE)
    assert first_deliveries(receiver.requests) == {p: [*range(1, 13)] for p in range(2)}
    letters = log.fetch(topic=dead, consumer_group="readers")
    places = Counter((one.headers["pgq_partition"], one.headers["pgq_offset"]) for one in letters)
    assert places == {(0, 5): 1, (1, 5): 1}
    assert {one.headers["pgq_attempts"] for one in letters} == {2}
