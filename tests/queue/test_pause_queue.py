"""pause_queue: no job is given out, all else goes on."""

from __future__ import annotations

from support.queue import claim, claim_one, enqueue, stats
from support.session import Connect, Session, refused, row, unchanged


def test_nothing_is_given_out(connection: Session, queue: str) -> None:
    enqueue(connection, queue, "before", label="x")
    held = claim_one(connection, queue)
    enqueue(connection, queue, "waiting", label="x")
    connection.execute("select pgq.pause_queue(%s)", [queue])
    enqueue(connection, queue, "after", label="x")

    assert claim(connection, queue, 10) == []
    assert claim(connection, queue, 10, label="x") == []
    assert row(
        connection, "select ready, leased, paused from pgq.queue_stats where queue = %s", [queue]
    ) == (2, 1, True)
    # a worker can still finish what it has
    assert connection.extend_lease(job_id=held.job_id, lease_token=held.lease_token)
    assert connection.ack(job_id=held.job_id, lease_token=held.lease_token)
    # bad arguments are refused all the same
    with unchanged(connection):
        refused("22023", connection.claim_job, queue=queue, max_jobs=0)


def test_again_changes_nothing(connection: Session, queue: str) -> None:
    [before] = [one for one in connection.list_queues() if one.queue == queue]
    for _ in range(2):
        assert connection.pause_queue(queue=queue) == before._replace(paused=True)
    enqueue(connection, queue)
    assert claim(connection, queue) == []
    assert connection.resume_queue(queue=queue) == before
    assert len(claim(connection, queue)) == 1


def test_a_transaction_may_pause_twice_and_roll_back(connect: Connect, queue: str) -> None:
    connection = connect()
    enqueue(connection, queue)
    connection.commit()
    for _ in range(2):
        connection.execute("select pgq.pause_queue(%s)", [queue])
    assert claim(connection, queue) == []
    connection.rollback()
    assert stats(connection, queue) == {"ready": 1}
    assert len(claim(connection, queue)) == 1


def test_refusals(connection: Session) -> None:
    with unchanged(connection):
        refused("MQ002", connection.pause_queue, queue="no-such-queue")
    with unchanged(connection):
        refused("22004", connection.pause_queue, queue=None)
