"""delete_effect: it takes back one note, and the effect is begun as if for the first time."""

from __future__ import annotations

from uuid import uuid4

import pytest

from support.effects import GIVEN_UP, begin, finish, forget, noted
from support.queue import claim_one, enqueue, new_queue
from support.session import Connect, Session, unchanged

LEVELS = ["read committed", "repeatable read", "serializable"]


@pytest.mark.parametrize("end", GIVEN_UP)
def test_a_job_that_was_given_up(connection: Session, end: str) -> None:
    """Whoever began it may say that it did not happen, once, and only of what is not finished."""
    queue = new_queue(connection)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    for effect in ("mail", "done"):
        begin(connection, job, effect)
    finish(connection, job, "done", result=1)
    GIVEN_UP[end](connection, queue, job)
    with unchanged(connection):
        stranger = {"job_id": job.job_id, "lease_token": uuid4(), "effect": "mail"}
        assert connection.delete_effect(**stranger) is False
        assert forget(connection, job, "done") is False
    assert forget(connection, job) is True
    with unchanged(connection):
        assert forget(connection, job) is False
        assert finish(connection, job) is False
    if end in ("nack", "release_job"):
        again = claim_one(connection, queue)
        state = begin(connection, again)
        assert (state.state, state.attempt) == ("begun", again.attempt)
        assert begin(connection, again, "done").result == 1


def test_whoever_has_the_job_and_began_nothing(connection: Session, queue: str) -> None:
    for _ in range(2):
        enqueue(connection, queue)
    one, other = claim_one(connection, queue), claim_one(connection, queue)
    begin(connection, one)
    with unchanged(connection):
        assert forget(connection, other) is False
        assert forget(connection, one, "Mail") is False
    assert noted(connection, one.job_id) == {"mail": "begun"}


@pytest.mark.parametrize("level", LEVELS)
def test_again_and_again_in_one_transaction(
    connect: Connect, connection: Session, queue: str, level: str
) -> None:
    """Each begin is a first one; a rollback leaves the one that was committed."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    begin(connection, job)
    session = connect(isolation_level=level)
    for end in ("rollback", "commit"):
        for _ in range(2):
            assert forget(session, job) is True
            assert forget(session, job) is False
            assert begin(session, job).state == "begun"
        assert forget(session, job) is True
        getattr(session, end)()
        assert noted(connection, job.job_id) == ({"mail": "begun"} if end == "rollback" else {})
