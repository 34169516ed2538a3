"""resume_queue: jobs are given out again, in their order."""

from __future__ import annotations

from jobs import AnyConnection, Connect, claim, enqueue_many, refused, row


def test_jobs_come_in_their_order(connection: AnyConnection, queue: str) -> None:
    ids = enqueue_many(connection, queue, 2)
    connection.execute("select pgq.pause_queue(%s)", [queue])
    ids += enqueue_many(connection, queue, 2)
    assert claim(connection, queue, 10) == []
    connection.execute("select pgq.resume_queue(%s)", [queue])
    assert [job.job_id for job in claim(connection, queue, 10)] == ids


def test_a_queue_that_runs_goes_on(connect: Connect, queue: str) -> None:
    connection = connect()
    for _ in range(2):
        connection.execute("select pgq.resume_queue(%s)", [queue])
    connection.commit()
    assert row(connection, "select paused from pgq.queue_stats where queue = %s", [queue]) == (
        False,
    )


def test_refusals(connection: AnyConnection) -> None:
    refused(connection, "MQ002", "resume_queue", queue="no-such-queue")
    refused(connection, "22004", "resume_queue", queue=None)
