"""Jobs that are enqueued while a queue without a retention is dropped, or gets a retention.

Their transactions end after cleanup has removed what the queue had stored; what they stored goes
as well, for its segment may never be emptied.
"""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.queue import claim_one, enqueue, new_queue
from support.session import Connect, Session, row
from support.storage import clean


@pytest.fixture
def queue(connection: Session) -> str:
    return new_queue(connection, no_limit=["job_ttl", "retention"])


def _left(connection: Session) -> tuple[int, int, int]:
    """How many payloads and finished jobs there are, and notes of what is to be removed."""
    payloads, finished, notes = row(
        connection,
        """
        select (select count(*) from pgq.message where isfinite(published_at)),
            (select count(*) from pgq.job_archive), (select count(*) from pgq.leftover)
        """,
    )
    return payloads, finished, notes


@pytest.mark.parametrize("began", ["before the drop", "during the drop"])
def test_a_queue_that_is_dropped(
    connect: Connect, connection: Session, queue: str, began: str
) -> None:
    """Others that come later hold up nothing."""
    slow, dropper, later = connect(), connect(), connect()
    if began == "before the drop":
        enqueue(slow, queue)
    dropper.drop_queue(queue=queue)
    if began == "during the drop":
        enqueue(slow, queue)
    dropper.commit()
    for _ in range(3):
        clean(connection)
    later.execute("select pg_current_xact_id(), count(*) from pgq.queue")
    slow.commit()
    assert _left(connection) == (1, 0, 1)
    for _ in range(2):
        clean(connection)
    assert _left(connection) == (0, 0, 0)


def test_a_queue_that_gets_a_retention(
    connect: Connect, connection: Session, clock: Clock, queue: str
) -> None:
    """The transaction lasts longer than that; its job lives on, and its payload is moved."""
    slow = connect()
    enqueue(slow, queue, "late")
    connection.alter_queue(queue=queue, retention="6 days")
    clock.advance("7 days")
    for _ in range(3):
        clean(connection)
    slow.commit()
    for _ in range(2):
        clean(connection)
    assert _left(connection) == (1, 0, 0)
    kept = row(
        connection,
        """
        select c.retention is not null, j.segment = m.segment
        from pgq.job as j, pgq.message as m
        inner join pgq.segment as s on s.segment = m.segment
        inner join pgq.storage_class as c on c.storage_class_id = s.storage_class_id
        where isfinite(m.published_at)
        """,
    )
    assert kept == (True, True)
    assert claim_one(connection, queue).payload == "late"


def test_cleanup_in_the_middle_of_a_transaction(
    connect: Connect, connection: Session, queue: str
) -> None:
    """It cannot tell who is at work then, and leaves the last look to the next one."""
    slow, early = connect(), connect()
    enqueue(slow, queue)
    early.execute("select pg_current_xact_id()")
    connection.drop_queue(queue=queue)
    for _ in range(2):
        clean(early)
    early.commit()
    clean(connection)
    slow.commit()
    for _ in range(2):
        clean(connection)
    assert _left(connection) == (0, 0, 0)
