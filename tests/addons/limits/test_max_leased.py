"""max_leased: no more jobs of a queue are leased at one time."""

from __future__ import annotations

import pytest

from support.clock import Clock
from support.queue import ack, claim, claim_one, enqueue, enqueue_many, new_queue, settings
from support.session import Session, refused, row


def held_by(session: Session, queue: str) -> str | None:
    [reason] = row(session, "select held_by from pgq.queue_stats where queue = %s", [queue])
    return None if reason is None else str(reason)


def test_no_more_than_so_many(connection: Session) -> None:
    queue = new_queue(connection, max_leased=3)
    ids = enqueue_many(connection, queue, 10)
    assert held_by(connection, queue) is None
    first = claim_one(connection, queue)
    assert [job.job_id for job in claim(connection, queue, 5)] == ids[1:3]
    assert held_by(connection, queue) == "max_leased"
    assert claim(connection, queue) == []
    assert claim(connection, queue, 5) == []
    assert ack(connection, first)
    assert held_by(connection, queue) is None
    assert [job.job_id for job in claim(connection, queue, 5)] == ids[3:4]


@pytest.mark.parametrize(
    "end", ["ack", "nack", "release_job", "archive_job", "reject_job", "cancel"]
)
def test_whatever_ends_a_lease_makes_room(connection: Session, end: str) -> None:
    queue = new_queue(connection, max_leased=1, backoff="1 hour")
    enqueue_many(connection, queue, 3)
    for _ in range(3):
        job = claim_one(connection, queue)
        assert claim(connection, queue) == []
        lease = {"job_id": job.job_id, "lease_token": job.lease_token}
        if end == "cancel":
            assert connection.cancel_job(job_id=job.job_id)
        elif end == "archive_job":
            assert connection.archive_job(**lease, outcome="done")
        elif end == "reject_job":
            assert connection.reject_job(**lease, error="no")
        else:
            assert getattr(connection, end)(**lease)
        if end == "release_job":
            break
    assert len(claim(connection, queue)) == (1 if end == "release_job" else 0)


def test_a_lease_that_has_run_out_does_not_count(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, max_leased=2, lease="1 minute")
    enqueue_many(connection, queue, 5)
    lost = claim(connection, queue, 2)
    clock.advance("59 seconds")
    assert claim(connection, queue) == []
    clock.advance("1 second")
    assert not connection.extend_lease(job_id=lost[0].job_id, lease_token=lost[0].lease_token)
    again = claim(connection, queue, 5)
    assert len(again) == 2
    assert claim(connection, queue) == []


def test_an_extended_lease_counts_longer(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, max_leased=2, lease="1 minute")
    enqueue_many(connection, queue, 5)
    kept, lost = claim(connection, queue, 2)
    assert connection.extend_lease(
        job_id=kept.job_id, lease_token=kept.lease_token, lease="10 minutes"
    )
    clock.advance("2 minutes")
    assert [job.job_id for job in claim(connection, queue, 5)] != [lost.job_id, kept.job_id]
    assert claim(connection, queue, 5) == []
    assert ack(connection, kept)
    assert len(claim(connection, queue, 5)) == 1


def test_what_a_call_finishes_makes_room_for_what_it_claims(connection: Session) -> None:
    queue = new_queue(connection, max_leased=2)
    ids = enqueue_many(connection, queue, 6)
    held = claim(connection, queue, 2)
    for expected in (ids[2:4], ids[4:6], []):
        claimed = connection.finish_and_claim(
            queue=queue,
            job_ids=[job.job_id for job in held],
            lease_token=held[0].lease_token,
            max_jobs=5,
        )
        assert [job.job_id for job in claimed] == expected
        held = claimed


def test_one_by_one_in_the_same_call(connection: Session) -> None:
    queue = new_queue(connection, max_leased=1)
    ids = enqueue_many(connection, queue, 3)
    job = claim_one(connection, queue)
    for expected in ids[1:]:
        [job] = connection.finish_and_claim(
            queue=queue, job_ids=[job.job_id], lease_token=job.lease_token
        )
        assert job.job_id == expected
    assert connection.finish_and_claim(queue=queue) == []


def test_labels_and_priorities_count_as_well(connection: Session) -> None:
    queue = new_queue(connection, max_leased=3)
    late = enqueue(connection, queue, priority=9)
    mail = enqueue(connection, queue, label="mail", priority=5)
    first = enqueue(connection, queue, priority=1)
    enqueue(connection, queue, label="mail", priority=9)
    assert claim_one(connection, queue, label="mail").job_id == mail
    assert [job.job_id for job in claim(connection, queue, 9)] == [first, late]
    assert claim(connection, queue, label="mail") == []


def test_a_rollback_gives_back(connection: Session, connect: object) -> None:
    queue = new_queue(connection, max_leased=2)
    enqueue_many(connection, queue, 5)
    with connection.transaction(force_rollback=True):
        assert len(claim(connection, queue, 5)) == 2
        assert claim(connection, queue) == []
    assert len(claim(connection, queue)) == 1
    with connection.transaction():
        with connection.transaction(force_rollback=True):
            assert len(claim(connection, queue, 5)) == 1
        assert len(claim(connection, queue, 5)) == 1
    assert claim(connection, queue, 5) == []


def test_it_changes_at_any_time(connection: Session) -> None:
    queue = new_queue(connection)
    enqueue_many(connection, queue, 20)
    first = claim(connection, queue, 4)
    connection.alter_queue(queue=queue, max_leased=3)
    assert claim(connection, queue) == []
    assert ack(connection, first[0])
    assert claim(connection, queue) == []
    assert ack(connection, first[1])
    assert len(claim(connection, queue, 9)) == 1
    connection.alter_queue(queue=queue, max_leased=5)
    assert len(claim(connection, queue, 9)) == 2
    connection.alter_queue(queue=queue, max_leased=1)
    assert ack(connection, first[2])
    assert claim(connection, queue) == []
    connection.alter_queue(queue=queue, no_limit=["max_leased"])
    assert len(claim(connection, queue, 6)) == 6
    connection.alter_queue(queue=queue, max_leased=11)
    assert len(claim(connection, queue, 6)) == 1
    assert claim(connection, queue, 6) == []


def test_jobs_leased_before_are_counted_in_every_priority(connection: Session) -> None:
    queue = new_queue(connection)
    for priority in (0, 4, 9):
        enqueue(connection, queue, priority=priority)
        enqueue(connection, queue, priority=priority, delay="1 hour")
    assert len(claim(connection, queue, 9)) == 3
    enqueue_many(connection, queue, 5)
    connection.alter_queue(queue=queue, max_leased=4)
    assert len(claim(connection, queue, 9)) == 1


def test_the_setting(connection: Session) -> None:
    queue = new_queue(connection)
    assert settings(connection, queue)["max_leased"] is None
    for wrong in (0, -1, 10001):
        refused("22023", connection.alter_queue, queue=queue, max_leased=wrong)
        refused("22023", connection.create_queue, queue="new", max_leased=wrong)
    assert connection.alter_queue(queue=queue, max_leased=10000).max_leased == 10000
    refused("MQ005", connection.create_queue, queue=queue, max_leased=3)
    refused("MQ005", connection.create_queue, queue=queue, no_limit=["max_leased"])
    assert connection.create_queue(queue=queue, max_leased=10000).queue == queue
    refused("22023", connection.alter_queue, queue=queue, max_leased=3, no_limit=["max_leased"])
    assert connection.alter_queue(queue=queue, no_limit=["max_leased"]).max_leased is None


def test_a_journal_row_is_kept_no_longer_than_needed(connection: Session) -> None:
    queue = new_queue(connection, max_leased=5)
    for _ in range(40):
        enqueue(connection, queue)
        assert ack(connection, claim_one(connection, queue))
    [rows] = row(
        connection,
        "select count(*) from pgq.claim_count as c inner join pgq.queue as q using (queue_id)"
        " where q.queue = %s",
        [queue],
    )
    assert rows <= 7
