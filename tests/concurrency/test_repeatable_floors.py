"""Low-water marks of claims that keep a snapshot, and their subtransactions."""

from __future__ import annotations

import time

from support.failing import ids
from support.queue import claim, enqueue_many, new_queue
from support.session import Connect, Session, row

RISES = 70
"""More than there are rows of low-water marks of a queue."""


def rise(session: Session, queue: str, times: int) -> None:
    """Claims that raise the marks of a queue, which do so 50 times a second at most."""
    for _ in range(times):
        time.sleep(0.021)
        claim(session, queue, 1, label="other")


def test_claims_have_no_subtransactions(connection: Session) -> None:
    queue = new_queue(connection)
    enqueue_many(connection, queue, 10)
    with connection.transaction():
        (first,) = row(connection, "select pg_current_xact_id()::text::bigint")
        for _ in range(5):
            time.sleep(0.021)
            claim(connection, queue, 1)
    writers = ids(connection, "select xmin::text::bigint from pgq.queue_floor where seq > 1")
    assert len(writers) > 1
    assert {*writers} == {first % (1 << 32)}


def test_marks_that_have_risen_often_since_the_snapshot(
    connection: Session, connect: Connect
) -> None:
    """They do not end a transaction of whose jobs nobody took any."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 1, labels=["mine"])
    enqueue_many(connection, queue, 2 * RISES, labels=["other"] * 2 * RISES)
    rise(connection, queue, RISES)
    reader = connect(isolation_level="repeatable read")
    reader.execute("select from pgq.queue")
    rise(connection, queue, RISES)
    for _ in range(2):
        time.sleep(0.021)
        reader.execute("savepoint s")
        assert len(claim(reader, queue, 1, label="mine")) == 1
        reader.execute("rollback to savepoint s")
    reader.rollback()


def test_marks_from_an_old_snapshot_go(connection: Session, connect: Connect) -> None:
    queue = new_queue(connection)
    enqueue_many(connection, queue, 1, labels=["mine"])
    enqueue_many(connection, queue, RISES + 10, labels=["other"] * (RISES + 10))
    rise(connection, queue, 1)
    reader = connect(isolation_level="repeatable read")
    reader.execute("select from pgq.queue")
    rise(connection, queue, RISES + 8)
    claim(reader, queue, 1, label="mine")
    reader.commit()
    rise(connection, queue, 1)
    connection.cleanup()
    rows = "select max(seq) - min(seq) < 64 from pgq.queue_floor where label = ''"
    assert row(connection, rows) == (True,)
