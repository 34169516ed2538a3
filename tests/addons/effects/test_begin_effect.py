"""begin_effect for jobs that their worker has given up; test_effects.py has the rest."""

from __future__ import annotations

from uuid import uuid4

import pytest

from support.clock import Clock
from support.effects import GIVEN_UP, begin, noted
from support.queue import claim_one, enqueue, new_queue
from support.session import Connect, Session, refused, unchanged


@pytest.mark.parametrize("end", GIVEN_UP)
def test_a_job_that_was_given_up(connection: Session, end: str) -> None:
    """Neither a new effect nor one that it had begun; nor by at_least_once."""
    queue = new_queue(connection)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    begin(connection, job, "begun")
    assert GIVEN_UP[end](connection, queue, job) is not False
    with unchanged(connection):
        for effect in ("begun", "new"):
            for at_least_once in (None, True):
                error = refused(
                    "MQ006", begin, connection, job, effect, at_least_once=at_least_once
                )
        assert "another worker" in str(error.diag.message_detail)
        assert "Nothing was begun" in str(error.diag.message_hint)


def test_no_job_at_all(connection: Session) -> None:
    with unchanged(connection):
        for job_id in (2**62, 0, -1):
            refused(
                "MQ006",
                connection.begin_effect,
                job_id=job_id,
                lease_token=uuid4(),
                effect="mail",
            )


def test_an_attempt_that_was_released(connection: Session, queue: str) -> None:
    """It did not count, but what it has begun did begin: the next one has the same number."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    begin(connection, job)
    GIVEN_UP["release_job"](connection, queue, job)
    again = claim_one(connection, queue)
    assert again.attempt == job.attempt == 1
    state = begin(connection, again)
    assert (state.state, state.attempt) == ("interrupted", 1)
    assert begin(connection, again, at_least_once=True).state == "begun"


def test_a_lease_that_was_extended(connection: Session, queue: str, clock: Clock) -> None:
    """What counts is when the lease ends now, to the moment."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    connection.extend_lease(job_id=job.job_id, lease_token=job.lease_token, lease="1 hour")
    clock.advance("59 minutes")
    assert begin(connection, job, "a").state == "begun"
    clock.advance("2 minutes")
    refused("MQ006", begin, connection, job, "b")
    connection.extend_lease(job_id=job.job_id, lease_token=job.lease_token, lease="1 hour")
    refused("MQ006", begin, connection, job, "b")


def test_a_paused_queue(connection: Session, queue: str) -> None:
    """Who has a job goes on with it."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    connection.pause_queue(queue=queue)
    assert begin(connection, job).state == "begun"
    assert noted(connection, job.job_id) == {"mail": "begun"}


def test_in_a_transaction_that_only_reads(
    connect: Connect, connection: Session, queue: str
) -> None:
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    session = connect()
    session.execute("set transaction read only")
    refused("25006", begin, session, job)
    session.rollback()
    assert begin(connection, job).state == "begun"
