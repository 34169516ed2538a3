"""A queue is dropped while its jobs are leased: all functions say the same of such a job."""

from __future__ import annotations

import time
from uuid import UUID

import pytest

from support.queue import claim_one, enqueue, new_queue
from support.session import Connect, Session, row
from support.snapshots import LEVELS, old_session
from support.waiting import blocked, results

# a claim raises the floor at most this often
PAUSE = 0.03
ENDINGS = ["ack", "nack", "archive_job", "extend_lease"]


def _ended(session: Session, ending: str, job_id: int, token: UUID) -> bool:
    """Whether the caller held the job, as the function says and its form for many."""
    of_many = f"{ending}_batch"
    with session.transaction(force_rollback=True):
        several = session.call(of_many, job_ids=[job_id], lease_token=token)
    one = session.call(ending, job_id=job_id, lease_token=token)
    assert [tuple(found) for found in several] == [(job_id,)] * one
    return bool(one)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_queue_dropped_beside_a_heartbeat(
    connect: Connect, connection: Session, ending: str
) -> None:
    """The job goes with it, though the heartbeat had its row replaced: nobody holds it then."""
    queue = new_queue(connection)
    job_id = enqueue(connection, queue)
    token = claim_one(connection, queue).lease_token
    worker, owner = connect(), connect(autocommit=True)
    assert worker.extend_lease(job_id=job_id, lease_token=token)
    dropped = blocked(connection, owner, lambda: owner.drop_queue(queue=queue))
    worker.commit()
    results(dropped)
    assert row(connection, "select count(*) from pgq.job") == (0,)
    assert not _ended(connection, ending, job_id, token)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_job_that_outlives_its_queue_for_a_moment(connection: Session, ending: str) -> None:
    """Cleanup removes it. Until then its worker holds it, as all functions say."""
    queue = new_queue(connection)
    job_id = enqueue(connection, queue)
    token = claim_one(connection, queue).lease_token
    # as a claim that was in progress leaves it
    connection.execute("delete from pgq.queue")
    assert _ended(connection, ending, job_id, token)
    assert row(connection, "select count(*) from pgq.job_archive") == (0,)
    connection.cleanup()
    assert row(connection, "select count(*) from pgq.job") == (0,)


@pytest.mark.parametrize("level", LEVELS)
def test_floors_that_the_drop_does_not_see(
    connect: Connect, connection: Session, level: str
) -> None:
    """Claims have written them since its snapshot; cleanup removes them."""
    others = [new_queue(connection) for _ in range(2)]
    queue = new_queue(connection)
    others.append(new_queue(connection))
    owner = old_session(connect, level)
    for _ in range(3):
        enqueue(connection, queue)
        claim_one(connection, queue)
        time.sleep(PAUSE)
    owner.drop_queue(queue=queue)
    owner.commit()
    connection.cleanup()
    left = "select count(distinct f.queue_id) from pgq.queue_floor as f"
    assert row(connection, left) == (len(others),)
