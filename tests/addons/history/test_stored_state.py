"""What must never be stored of attempts and results is found, and what is right is not."""

from __future__ import annotations

import pytest

from stored_state import NEVER
from support.queue import ack, claim_one, enqueue, new_queue
from support.session import Session

MISSED = "an attempt that nobody has noted"
TWO_ENDS = "the end of a job that has not ended, or two"
FREE = "an event in a segment that nobody uses"
MANY = "40 attempts of a job in a segment, or more"

BROKEN = {
    "a failed one": (MISSED, "delete from pgq.job_event where (job_id, attempt) = (%(job)s, 2)"),
    "the last one": (MISSED, "delete from pgq.job_event where (job_id, attempt) = (%(dead)s, 2)"),
    "an end of a job that goes on": (
        TWO_ENDS,
        "insert into pgq.job_event select %(job)s, queue_id, ended_at, began_at, segment, attempt,"
        " event from pgq.job_event where job_id = %(done)s",
    ),
    "an end of a dead letter": (
        TWO_ENDS,
        "insert into pgq.job_event select %(dead)s, queue_id, ended_at, began_at, segment, attempt,"
        " event from pgq.job_event where job_id = %(done)s",
    ),
    "two ends": (
        TWO_ENDS,
        "insert into pgq.job_event select * from pgq.job_event where job_id = %(done)s",
    ),
    "a segment of nobody": (
        FREE,
        "update pgq.job_event set segment = (select min(leaf) from pgq.leaf where free)"
        " where job_id = %(done)s",
    ),
    "too many": (
        MANY,
        "insert into pgq.job_event select e.* from pgq.job_event as e, generate_series(1, 39)"
        " where (job_id, attempt) = (%(job)s, 1)",
    ),
}


@pytest.fixture
def dsn(emptied_dsn: str) -> str:
    """A database in which no other test has made anything up."""
    return emptied_dsn


@pytest.mark.parametrize("broken", BROKEN)
def test_each_is_found(connection: Session, broken: str) -> None:
    queue = new_queue(connection, backoff="0", keep_results=True, max_attempts=2)
    ids = {"done": enqueue(connection, queue)}
    assert ack(connection, claim_one(connection, queue))
    for name, most in (("dead", 2), ("job", 9)):
        ids[name] = enqueue(connection, queue, max_attempts=most)
        for _ in range(most if name == "dead" else 4):
            job = claim_one(connection, queue)
            connection.nack(job_id=job.job_id, lease_token=job.lease_token)
    claim_one(connection, queue)
    what, statement = BROKEN[broken]
    with connection.transaction(force_rollback=True):
        for query in NEVER.values():
            assert connection.execute(query).fetchall() == []
        connection.execute(statement.encode(), ids)
        found = [name for name, query in NEVER.items() if connection.execute(query).fetchall()]
        assert found == [what]
