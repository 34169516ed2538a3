"""The queue under every isolation level: a loser gets 40001, a job is never given out twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest
from psycopg.errors import SerializationFailure

from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, refused

STRICT = ["repeatable read", "serializable"]
LEVELS = ["read committed", *STRICT]


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


@pytest.mark.parametrize("level", LEVELS)
def test_a_whole_life(shared_connect: Connect, level: str) -> None:
    """All that a worker calls works in every level when nobody interferes, and also twice."""
    session = shared_connect(isolation_level=level)
    queue = new_queue(session, max_attempts=1)
    for _ in range(2):
        enqueue(session, queue, label="l")
        enqueue_many(session, queue, 2)
        kept, failed, done = claim(session, queue, 3)
        token = kept.lease_token
        assert session.extend_lease(job_id=kept.job_id, lease_token=token)
        assert session.nack(job_id=failed.job_id, lease_token=token)
        assert session.ack(job_id=done.job_id, lease_token=token)
        assert session.ack(job_id=kept.job_id, lease_token=token)
    session.commit()
    assert stats(session, queue) == {"dead": 2}
    session.commit()
    # and each in a transaction of its own
    enqueue(session, queue)
    session.commit()
    job = claim_one(session, queue)
    session.commit()
    assert session.ack(job_id=job.job_id, lease_token=job.lease_token)
    session.commit()
    assert stats(session, queue) == {"dead": 2}


@pytest.mark.parametrize("level", STRICT)
def test_a_job_claimed_since_the_snapshot(
    shared_connect: Connect, connection: Session, level: str
) -> None:
    queue = new_queue(connection)
    enqueue(connection, queue)
    session = shared_connect(isolation_level=level)
    session.execute("select")
    claim_one(connection, queue)
    refused("40001", session.claim_job, queue=queue)
    session.rollback()
    assert claim(session, queue) == []


@pytest.mark.parametrize("level", STRICT)
def test_a_job_being_claimed(shared_connect: Connect, connection: Session, level: str) -> None:
    """It is passed by, as in READ COMMITTED, though SERIALIZABLE may refuse the second commit."""
    queue = new_queue(connection)
    enqueue_many(connection, queue, 2)
    one, other = (shared_connect(isolation_level=level) for _ in range(2))
    assert [job.payload for job in claim(one, queue)] == [0]
    assert [job.payload for job in claim(other, queue)] == [1]
    one.commit()
    with suppress(SerializationFailure):
        other.commit()


@pytest.mark.parametrize("level", STRICT)
@pytest.mark.parametrize("end", ["ack", "nack", "archive_job", "extend_lease"])
def test_a_job_ended_since_the_snapshot(
    shared_connect: Connect, connection: Session, level: str, end: str
) -> None:
    queue = new_queue(connection)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    arguments = {"job_id": job.job_id, "lease_token": job.lease_token}
    session = shared_connect(isolation_level=level)
    session.execute("select")
    assert connection.ack(**arguments)
    refused("40001", session.call, end, **arguments)
    session.rollback()
    assert session.call(end, **arguments) is False


@pytest.mark.parametrize("level", STRICT)
@pytest.mark.parametrize("end", ["ack", "nack", "archive_job", "extend_lease"])
def test_a_job_that_is_to_come(
    shared_connect: Connect, connection: Session, level: str, end: str
) -> None:
    """Nobody has it, so there is nothing to prove, and its enqueue waits for nobody."""
    queue = new_queue(connection)
    last = enqueue(connection, queue)
    session = shared_connect(isolation_level=level)
    assert session.call(end, job_id=last + 1, lease_token=uuid4()) is False
    connection.execute("set lock_timeout = '1s'")
    assert enqueue(connection, queue) == last + 1
    session.commit()


@pytest.mark.parametrize("level", STRICT)
def test_jobs_younger_than_the_snapshot(
    shared_connect: Connect, connection: Session, level: str
) -> None:
    """They are not seen: no row, no error."""
    queue = new_queue(connection)
    session = shared_connect(isolation_level=level)
    session.execute("select")
    enqueue(connection, queue)
    assert claim(session, queue) == []
    enqueue(session, queue, "own")
    assert claim_one(session, queue).payload == "own"
    session.commit()
    assert len(claim(connection, queue, 10)) == 1


@pytest.mark.parametrize("way", [{"payload": "1"}, {"payloads": ["1", "2"]}])
@pytest.mark.parametrize("level", STRICT)
def test_settings_changed_since_the_snapshot(
    shared_connect: Connect, connection: Session, level: str, way: dict[str, Any]
) -> None:
    """An enqueue that cannot see where to write now is told to try again."""
    queue = new_queue(connection)
    session = shared_connect(isolation_level=level)
    session.execute("select")
    connection.alter_queue(queue=queue, retention="100 hours")
    call = session.enqueue if "payload" in way else session.enqueue_batch
    refused("40001", call, queue=queue, **way)
    session.rollback()
    enqueue(session, queue)
    session.commit()


@pytest.mark.parametrize("level", LEVELS)
def test_many_workers(shared_connect: Connect, connection: Session, level: str) -> None:
    """Each with retries; claim, work and ack in one transaction: every job once."""
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 60)
    done: list[int] = []

    def work(session: Session) -> None:
        while True:
            try:
                jobs = claim(session, queue)
                if not jobs and stats(session, queue) == {}:
                    session.commit()
                    return
                for job in jobs:
                    assert session.ack(job_id=job.job_id, lease_token=job.lease_token)
                session.commit()
                done.extend(job.job_id for job in jobs)
            except SerializationFailure:
                session.rollback()

    sessions = [shared_connect(isolation_level=level) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, session) for session in sessions]:
            future.result()
    assert sorted(done) == ids
