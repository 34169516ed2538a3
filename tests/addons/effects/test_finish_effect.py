"""finish_effect for jobs that were given up; test_effects.py has the rest."""

from __future__ import annotations

from uuid import uuid4

import pytest

from support.effects import GIVEN_UP, begin, finish, noted
from support.queue import claim_one, enqueue, new_queue
from support.session import Connect, Session, refused, unchanged


@pytest.mark.parametrize("end", GIVEN_UP)
def test_a_job_that_was_given_up(connection: Session, end: str) -> None:
    """Whoever began it may say that it happened, until cleanup has removed the note."""
    queue = new_queue(connection)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    begin(connection, job)
    begin(connection, job, "other")
    GIVEN_UP[end](connection, queue, job)
    assert finish(connection, job, result="sent") is True
    with unchanged(connection):
        assert finish(connection, job, result="again") is True
        assert finish(connection, job, "new") is False
        stranger = {"job_id": job.job_id, "lease_token": uuid4(), "effect": "other"}
        assert connection.finish_effect(**stranger) is False
    if end == "reject_job":
        assert noted(connection, job.job_id) == {"mail": "finished", "other": "interrupted"}
        assert connection.redrive(queue=queue, job_id=job.job_id).taken == 1
    if end in ("nack", "release_job", "reject_job"):
        again = claim_one(connection, queue)
        assert begin(connection, again).result == "sent"
        assert begin(connection, again, "other").state == "interrupted"


def test_no_job_at_all(connection: Session) -> None:
    with unchanged(connection):
        for function in ("finish_effect", "delete_effect"):
            for job_id in (2**62, 0, -1):
                arguments = {"job_id": job_id, "lease_token": uuid4(), "effect": "mail"}
                assert connection.call(function, **arguments) is False


def test_a_result_as_large_as_a_payload(connection: Session, queue: str) -> None:
    """It comes back whole."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    begin(connection, job)
    result = {"pages": ["".join(chr(33 + (n * 7 + m) % 90) for m in range(999)) for n in range(99)]}
    assert finish(connection, job, result=result) is True
    assert begin(connection, job).result == result


def test_in_a_transaction_that_only_reads(
    connect: Connect, connection: Session, queue: str
) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    begin(connection, job)
    session = connect()
    for function in ("finish_effect", "delete_effect"):
        session.execute("set transaction read only")
        place = {"job_id": job.job_id, "lease_token": job.lease_token, "effect": "mail"}
        refused("25006", session.call, function, **place)
        session.rollback()
    assert noted(connection, job.job_id) == {"mail": "begun"}
