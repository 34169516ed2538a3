"""Jobs that are enqueued while a queue without a retention is dropped.

Their transactions end after cleanup has removed what the queue had stored; what they stored goes
as well, for its segment may never be emptied.
"""

from __future__ import annotations

import pytest

from support.queue import enqueue, new_queue
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
            (select count(*) from pgq.job_archive), (select count(*) from pgq.dropped_range)
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
