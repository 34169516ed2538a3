"""cancel_job: a job is taken back, whether it waits or a worker has it."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.queue import ack, claim, claim_one, enqueue, new_queue, stats
from support.session import Connect, Session, refused, row, unchanged


def archived(connection: Session, job_id: int) -> Any:
    """What is noted of a job: outcome, attempt, label, error, payload, result; None: nothing."""
    return connection.execute(
        "select outcome, attempt, label, last_error, payload, result from pgq.archived_jobs"
        " where job_id = %s",
        [job_id],
    ).fetchone()


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("options", [{}, {"delay": "1 hour"}, {"priority": 5, "label": "l"}])
def test_a_job_that_waits(connection: Session, options: dict[str, Any], archive: bool) -> None:
    queue = new_queue(connection, archive=archive)
    number, other = (enqueue(connection, queue, {"n": n}, **options) for n in range(2))
    assert connection.cancel_job(job_id=number) is True
    noted = ("cancelled", 0, options.get("label"), None, {"n": 0}, None)
    assert archived(connection, number) == (noted if archive else None)
    with unchanged(connection):
        assert connection.cancel_job(job_id=number) is False
    assert connection.cancel_job(job_id=other) is True
    assert stats(connection, queue) == {}
    assert claim(connection, queue, 9) == []


def test_a_job_that_a_worker_has(connection: Session, queue: str) -> None:
    """It is told so by whatever it does next."""
    number = enqueue(connection, queue, label="l")
    job = claim_one(connection, queue)
    connection.nack(job_id=number, lease_token=job.lease_token, delay="0", error="no answer")
    job = claim_one(connection, queue)
    assert connection.cancel_job(job_id=number) is True
    held = {"job_id": number, "lease_token": job.lease_token}
    batch = {"job_ids": [number], "lease_token": job.lease_token}
    with unchanged(connection):
        for end in ("extend_lease", "ack", "nack", "archive_job", "release_job", "reject_job"):
            assert connection.call(end, **held) is False, end
        for end in ("extend_lease", "ack", "nack", "archive_job", "release_job"):
            assert connection.call(f"{end}_batch", **batch) == [], end
        refused("MQ006", connection.finish_and_claim, queue=queue, **batch)
        refused("MQ006", connection.begin_effect, **held, effect="mail")
    assert archived(connection, number) == ("cancelled", 2, "l", "no answer", None, None)
    assert stats(connection, queue) == {}


def test_a_lease_that_has_run_out(connection: Session, queue: str, clock: Clock) -> None:
    number = enqueue(connection, queue)
    job = claim_one(connection, queue)
    clock.advance("31 seconds")
    assert connection.cancel_job(job_id=number) is True
    assert ack(connection, job) is False
    assert claim(connection, queue) == []


def test_what_cannot_be_cancelled(connection: Session, clock: Clock) -> None:
    """Finished ones, dead letters, and ids that nobody has."""
    queue = new_queue(connection, max_attempts=1)
    finished, dead = enqueue(connection, queue), enqueue(connection, queue)
    assert ack(connection, claim_one(connection, queue))
    job = claim_one(connection, queue)
    connection.nack(job_id=dead, lease_token=job.lease_token)
    with unchanged(connection):
        for number in (finished, dead, 0, -1, 2**62):
            assert connection.cancel_job(job_id=number) is False
        refused("22004", connection.cancel_job, job_id=None)
    assert stats(connection, queue) == {"dead": 1}
    assert connection.redrive(queue=queue, job_id=dead).taken == 1
    assert connection.cancel_job(job_id=dead) is True


def test_a_dead_letter_to_be(connection: Session, clock: Clock) -> None:
    """Its last worker is lost, and cleanup has not come yet."""
    queue = new_queue(connection, max_attempts=1)
    number = enqueue(connection, queue)
    claim_one(connection, queue)
    clock.advance("31 seconds")
    assert connection.cancel_job(job_id=number) is True
    connection.cleanup()
    assert stats(connection, queue) == {}


def test_paused_and_twice_in_one_transaction(connect: Connect, connection: Session) -> None:
    queue = new_queue(connection)
    connection.pause_queue(queue=queue)
    session = connect()
    number = enqueue(session, queue)
    assert session.cancel_job(job_id=number) is True
    assert session.cancel_job(job_id=number) is False
    other = enqueue(session, queue)
    session.execute("savepoint s")
    assert session.cancel_job(job_id=other) is True
    session.execute("rollback to savepoint s")
    session.commit()
    assert archived(connection, number)[0] == "cancelled"
    assert stats(connection, queue) == {"ready": 1}


def test_its_effects_go_with_it(connection: Session, queue: str) -> None:
    number = enqueue(connection, queue)
    job = claim_one(connection, queue)
    connection.begin_effect(job_id=number, lease_token=job.lease_token, effect="mail")
    assert connection.cancel_job(job_id=number) is True
    assert row(connection, "select count(*) from pgq.effects where job_id = %s", [number]) == (0,)
    connection.cleanup()
    assert row(connection, "select count(*) from pgq.effect where job_id = %s", [number]) == (0,)


def test_a_payload_that_was_moved(connection: Session, clock: Clock) -> None:
    """The note says where it stands."""
    queue = new_queue(connection, retention="1 hour", job_ttl="30 days")
    number = enqueue(connection, queue, {"a": 1}, delay="10 days")
    for _ in range(8):
        clock.advance("1 hour")
        connection.cleanup()
    assert connection.get_job(job_id=number).payload == {"a": 1}
    assert connection.cancel_job(job_id=number) is True
    assert archived(connection, number)[4] == {"a": 1}


def test_a_job_that_a_worker_has_may_stay(connection: Session, queue: str, clock: Clock) -> None:
    """With leased => false, for as long as the lease runs."""
    number = enqueue(connection, queue)
    waits = enqueue(connection, queue)
    job = claim_one(connection, queue)
    with unchanged(connection):
        assert connection.cancel_job(job_id=number, leased=False) is False
    assert connection.cancel_job(job_id=waits, leased=False) is True
    assert connection.extend_lease(job_id=number, lease_token=job.lease_token) is True
    clock.advance("1 hour")
    assert connection.cancel_job(job_id=number, leased=False) is True
    assert connection.cancel_job(job_id=enqueue(connection, queue), leased=None) is True
