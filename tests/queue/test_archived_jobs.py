"""archived_jobs: what was finished, when and how, with all that it carried."""

from __future__ import annotations

from psycopg.types.json import Jsonb

from support.queue import claim_one, enqueue, new_queue
from support.session import Session, row


def test_what_it_shows(connection: Session, queue: str) -> None:
    first = enqueue(connection, queue, [1], label="l", key="k", headers={"h": "1"})
    second = enqueue(connection, queue, body=b"\x00")
    job = claim_one(connection, queue)
    connection.ack(job_id=first, lease_token=job.lease_token)
    job = claim_one(connection, queue)
    connection.archive_job(
        job_id=second, lease_token=job.lease_token, outcome="skipped", result=Jsonb({"why": "old"})
    )
    cursor = connection.execute(
        "select * from pgq.archived_jobs where queue = %s order by job_id", [queue]
    )
    assert cursor.description is not None
    assert [column.name for column in cursor.description] == [
        "queue",
        "job_id",
        "outcome",
        "attempt",
        "enqueued_at",
        "ended_at",
        "result",
        "last_error",
        "key",
        "label",
        "headers",
        "payload",
        "body",
    ]
    found = cursor.fetchall()
    assert all(enqueued_at < ended_at for enqueued_at, ended_at in (row[4:6] for row in found))
    assert [row[:4] + row[6:] for row in found] == [
        (queue, first, "acked", 1, None, None, "k", "l", {"h": "1"}, [1], None),
        (queue, second, "skipped", 1, {"why": "old"}, None, None, None, None, None, b"\x00"),
    ]


def test_each_queue_has_its_own(connection: Session) -> None:
    queues = [new_queue(connection) for _ in range(2)]
    for queue in queues:
        enqueue(connection, queue, queue)
        job = claim_one(connection, queue)
        connection.ack(job_id=job.job_id, lease_token=job.lease_token)
    for queue in queues:
        assert row(
            connection, "select payload from pgq.archived_jobs where queue = %s", [queue]
        ) == (queue,)
