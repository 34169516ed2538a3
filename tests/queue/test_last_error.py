"""The error that a dead letter keeps: what the last nack said, and that a lease ran out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.clock import Clock
from support.queue import claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Session, row

RAN_OUT = "the lease of the last attempt ran out"


def _by_a_claim(connection: Session, queue: str) -> None:
    assert claim(connection, queue) == []


def _by_a_claim_of_many(connection: Session, queue: str) -> None:
    assert claim(connection, queue, 10) == []


def _by_a_claim_of_a_label(connection: Session, queue: str) -> None:
    assert claim(connection, queue, label="l") == []


BURIALS = [_by_a_claim, _by_a_claim_of_many, _by_a_claim_of_a_label]
Burial = Callable[[Session, str], None]


def _error(connection: Session, queue: str) -> str:
    [error] = row(connection, "select last_error from pgq.dead_letters where queue = %s", [queue])
    assert isinstance(error, str)
    return error


def _lost(connection: Session, clock: Clock, *errors: str | None) -> str:
    """A queue with a job that was given back with these errors; then its last worker was lost."""
    queue = new_queue(connection, max_attempts=len(errors) + 1)
    enqueue(connection, queue, label="l")
    for error in errors:
        job = claim_one(connection, queue)
        arguments = {"job_id": job.job_id, "lease_token": job.lease_token, "delay": "0"}
        assert connection.nack(**arguments, error=error)
    claim_one(connection, queue)
    clock.advance("31 seconds")
    return queue


@pytest.mark.parametrize("bury", BURIALS)
def test_it_is_not_lost_with_the_last_worker(
    connection: Session, clock: Clock, bury: Burial
) -> None:
    """Both are said: what the nack before had said, and how it ended."""
    queue = _lost(connection, clock, "the disk is full")
    bury(connection, queue)
    assert stats(connection, queue) == {"dead": 1}
    error = _error(connection, queue)
    assert error.startswith("the disk is full")
    assert RAN_OUT in error


@pytest.mark.parametrize("bury", BURIALS)
def test_the_last_of_several(connection: Session, clock: Clock, bury: Burial) -> None:
    """The newest one that was given; a nack without an error leaves the one before."""
    queue = _lost(connection, clock, "first", "second", None)
    bury(connection, queue)
    error = _error(connection, queue)
    assert error.startswith("second")
    assert "first" not in error
    assert RAN_OUT in error


@pytest.mark.parametrize("bury", BURIALS)
def test_without_an_error_before(connection: Session, clock: Clock, bury: Burial) -> None:
    queue = _lost(connection, clock, None)
    bury(connection, queue)
    assert _error(connection, queue) == RAN_OUT


def test_many_die_each_with_its_own(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, max_attempts=2)
    enqueue_many(connection, queue, 3)
    for n, job in enumerate(claim(connection, queue, 2)):
        arguments = {"job_id": job.job_id, "lease_token": job.lease_token, "delay": "0"}
        assert connection.nack(**arguments, error=f"error {n}")
    claim(connection, queue, 1)
    clock.advance("31 seconds")
    claim(connection, queue, 3)
    clock.advance("31 seconds")
    assert claim(connection, queue, 3) == []
    errors = connection.execute(
        "select payload, last_error from pgq.dead_letters where queue = %s order by job_id", [queue]
    ).fetchall()
    for (n, error), begin in zip(errors, ("error 0", "error 1", RAN_OUT), strict=True):
        assert error.startswith(begin), n
        assert error.count(RAN_OUT) == 1


def test_a_nack_at_last_says_it_alone(connection: Session, clock: Clock) -> None:
    """No lease ran out then."""
    queue = new_queue(connection, max_attempts=1)
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    arguments = {"job_id": job.job_id, "lease_token": job.lease_token}
    assert connection.nack(**arguments, error="the disk is full")
    assert _error(connection, queue) == "the disk is full"


@pytest.mark.parametrize("error", ["the disk is full", None])
def test_a_second_life(connection: Session, clock: Clock, error: str | None) -> None:
    """A letter redriven that dies by lost workers again does not say it twice."""
    queue = _lost(connection, clock, error)
    assert claim(connection, queue) == []
    assert connection.redrive(queue=queue, all_jobs=True).taken == 1
    for _ in range(2):
        claim_one(connection, queue)
        clock.advance("31 seconds")
    assert claim(connection, queue) == []
    found = _error(connection, queue)
    assert found.startswith(error or RAN_OUT)
    assert found.count(RAN_OUT) == 1
