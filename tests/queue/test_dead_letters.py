"""dead_letters: what became of the jobs that used up their attempts, with all that they carried."""

from __future__ import annotations

from support.queue import claim_one, enqueue, new_queue
from support.session import Connect, Session, row


def test_what_it_shows(connection: Session) -> None:
    queue = new_queue(connection, max_attempts=1)
    [before] = row(connection, "select pgq._clock()")
    first = enqueue(connection, queue, [1], priority=2, label="l", key="k", headers={"h": "1"})
    second = enqueue(connection, queue, body=b"\x00", priority=3)
    for error in ("boom", None):
        job = claim_one(connection, queue)
        connection.nack(job_id=job.job_id, lease_token=job.lease_token, error=error)
    [after] = row(connection, "select pgq._clock()")
    cursor = connection.execute(
        "select * from pgq.dead_letters where queue = %s order by job_id", [queue]
    )
    assert cursor.description is not None
    assert [column.name for column in cursor.description] == [
        "queue",
        "job_id",
        "attempt",
        "last_error",
        "enqueued_at",
        "died_at",
        "priority",
        "key",
        "label",
        "headers",
        "payload",
        "body",
        "stops_key",
    ]
    found = cursor.fetchall()
    assert all(
        before <= enqueued_at <= died_at <= after
        for enqueued_at, died_at in [row[4:6] for row in found]
    )
    assert [row[:4] + row[6:] for row in found] == [
        (queue, first, 1, "boom", 2, "k", "l", {"h": "1"}, [1], None, False),
        (queue, second, 1, None, 3, None, None, None, None, b"\x00", False),
    ]


def test_it_goes_with_a_rollback(connect: Connect, connection: Session) -> None:
    queue = new_queue(connection, max_attempts=1)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    session = connect()
    session.nack(job_id=job.job_id, lease_token=job.lease_token)
    count = "select count(*) from pgq.dead_letters where queue = %s"
    assert row(session, count, [queue]) == (1,)
    assert row(connection, count, [queue]) == (0,)
    session.rollback()
    assert row(connection, count, [queue]) == (0,)
