"""resume_queue: jobs are given out again, in their order."""

from __future__ import annotations

from support.queue import claim, enqueue_many
from support.session import Connect, Session, refused, row, unchanged


def test_jobs_come_in_their_order(connection: Session, queue: str) -> None:
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


def test_refusals(connection: Session) -> None:
    with unchanged(connection):
        refused("MQ002", connection.resume_queue, queue="no-such-queue")
    with unchanged(connection):
        refused("22004", connection.resume_queue, queue=None)
