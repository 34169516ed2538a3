"""Attempts that did not succeed: what job_history shows of each of them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from support.clock import Clock
from support.queue import Job, claim, claim_one, enqueue, enqueue_many, new_queue
from support.session import Connect, Session, refused, row, unchanged

BEGAN = datetime(2026, 5, 4, 3, 2, 1, tzinfo=timezone.utc)


@pytest.fixture
def queue(connection: Session) -> str:
    """Retries are due at once."""
    return new_queue(connection, backoff="0", no_limit=["max_attempts"])


def attempts(session: Session, job_id: int) -> list[tuple[int, str, str | None]]:
    """Number, outcome and error of each, the latest first."""
    return [(a.attempt, a.outcome, a.error) for a in session.job_history(job_id=job_id)]


def held(job: Job) -> dict[str, Any]:
    return {"job_id": job.job_id, "lease_token": job.lease_token}


def test_all_that_is_known_of_an_attempt(connection: Session, queue: str) -> None:
    number = enqueue(connection, queue)
    before = row(connection, "select clock_timestamp()")[0]
    for error in ("first", "second"):
        job = claim_one(connection, queue)
        assert connection.nack(**held(job), error=error, worker="w-1", began_at=BEGAN)
    job = claim_one(connection, queue)
    assert connection.reject_job(**held(job), error="never", worker="w-2", began_at=BEGAN)
    found = connection.job_history(job_id=number)
    assert [(a.attempt, a.outcome, a.worker, a.error) for a in found] == [
        (3, "rejected", "w-2", "never"),
        (2, "failed", "w-1", "second"),
        (1, "failed", "w-1", "first"),
    ]
    assert {a.began_at for a in found} == {BEGAN}
    times = [a.ended_at for a in found]
    assert before < times[2] < times[1] < times[0] < row(connection, "select clock_timestamp()")[0]


def test_what_is_not_told_is_null(connection: Session, queue: str) -> None:
    """Also the error: that of an earlier attempt is not the one of this."""
    number = enqueue(connection, queue)
    connection.nack(**held(claim_one(connection, queue)), error="first")
    connection.nack(**held(claim_one(connection, queue)))
    connection.reject_job(**held(claim_one(connection, queue)))
    assert attempts(connection, number) == [
        (3, "rejected", None),
        (2, "failed", None),
        (1, "failed", "first"),
    ]
    assert {(a.worker, a.began_at) for a in connection.job_history(job_id=number)} == {(None, None)}


def test_a_batch(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 3)
    jobs = claim(connection, queue, 3)
    token = jobs[0].lease_token
    given = {"error": "e", "worker": "w", "began_at": BEGAN}
    connection.nack_batch(job_ids=ids[:2], lease_token=token, **given)
    for number in ids[:2]:
        [found] = connection.job_history(job_id=number)
        assert found[:3] == (1, "failed", BEGAN)
        assert found[4:] == ("w", "e")
    assert attempts(connection, ids[2]) == []


def test_the_last_attempt_stays_known_of_a_dead_letter(connection: Session) -> None:
    queue = new_queue(connection, backoff="0", max_attempts=2)
    number = enqueue(connection, queue)
    for error in ("a", "b"):
        connection.nack(**held(claim_one(connection, queue)), error=error)
    assert attempts(connection, number) == [(2, "failed", "b"), (1, "failed", "a")]
    connection.redrive(queue=queue, job_id=number)
    connection.nack(**held(claim_one(connection, queue)), error="c")
    assert attempts(connection, number)[0] == (1, "failed", "c")
    connection.ack(**held(claim_one(connection, queue)))
    assert len(attempts(connection, number)) == 3, "the one that succeeded is none of them"


def test_what_is_given_back_unused_is_no_attempt(connection: Session, queue: str) -> None:
    number = enqueue(connection, queue)
    connection.release_job(**held(claim_one(connection, queue)))
    connection.release_job(**held(claim_one(connection, queue)), delay="0")
    job = claim_one(connection, queue)
    connection.release_job_batch(job_ids=[number], lease_token=job.lease_token)
    assert claim_one(connection, queue).attempt == 1
    assert attempts(connection, number) == []


def test_a_stale_token_notes_nothing(connection: Session, queue: str, clock: Clock) -> None:
    number = enqueue(connection, queue)
    stale = claim_one(connection, queue)
    clock.advance("1 minute")
    claim_one(connection, queue)
    with unchanged(connection):
        assert connection.nack(**held(stale), error="late") is False
        assert connection.reject_job(**held(stale), error="late") is False
        assert connection.nack_batch(job_ids=[number], lease_token=stale.lease_token) == []
    assert attempts(connection, number) == [(1, "lost", None)]


def test_a_job_that_expired(connection: Session, clock: Clock) -> None:
    """Cleanup notices that its worker was lost, and not in a job that waited."""
    queue = new_queue(connection, job_ttl="1 hour")
    tried, waited = enqueue_many(connection, queue, 2)
    assert claim_one(connection, queue).job_id == tried
    clock.advance("2 hours")
    connection.cleanup()
    assert attempts(connection, tried) == [(1, "lost", None)]
    assert attempts(connection, waited) == []


def test_twice_in_one_transaction_and_rolled_back(connection: Session, queue: str) -> None:
    number = enqueue(connection, queue)
    with connection.transaction(force_rollback=True):
        for _ in range(2):
            connection.nack(**held(claim_one(connection, queue)), error="e")
        assert [a[0] for a in attempts(connection, number)] == [2, 1]
    assert attempts(connection, number) == []


# -------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "bad",
    [{"worker": "w" * 256}, {"began_at": "infinity"}, {"began_at": "-infinity"}],
    ids=["worker", "infinity", "-infinity"],
)
def test_what_cannot_be_noted(connection: Session, queue: str, bad: dict[str, str]) -> None:
    """Whether or not the lease is held, and nothing changes."""
    number = enqueue(connection, queue)
    job = claim_one(connection, queue)
    other = "00000000-0000-4000-8000-000000000000"
    with unchanged(connection):
        for token in (job.lease_token, other):
            refused("22023", connection.nack, job_id=number, lease_token=token, **bad)
            refused("22023", connection.reject_job, job_id=number, lease_token=token, **bad)
            refused("22023", connection.nack_batch, job_ids=[number], lease_token=token, **bad)


def test_the_longest_name_of_a_worker(connection: Session, queue: str) -> None:
    """In characters, whatever bytes they have."""
    number = enqueue(connection, queue)
    connection.nack(**held(claim_one(connection, queue)), worker="ä" * 255)
    assert connection.job_history(job_id=number)[0].worker == "ä" * 255


def test_an_error_that_the_client_cannot_read(
    connect: Connect, connection: Session, queue: str
) -> None:
    """It is stored as it is; who reads with an encoding that lacks it is told so."""
    number = enqueue(connection, queue)
    connection.nack(**held(claim_one(connection, queue)), error="✗ 失敗")
    other = connect(autocommit=True)
    other.execute("set client_encoding = 'LATIN1'")
    refused("22P05", other.job_history, job_id=number)
    assert other.execute(
        "select attempt, outcome from pgq.job_history(%s)", [number]
    ).fetchall() == [(1, "failed")]
    assert attempts(connection, number) == [(1, "failed", "✗ 失敗")]


def test_ids_of_nothing(connection: Session) -> None:
    assert connection.job_history(job_id=0) == []
    assert connection.job_history(job_id=2**62) == []
    refused("22004", connection.job_history, job_id=None)


# ------------------------------------------------------------------------------------- how many


def stored(session: Session, job_id: int) -> int:
    (number,) = row(session, "select count(*) from pgq.job_event where job_id = %s", [job_id])
    return int(number)


def fail(session: Session, queue: str, times: int) -> None:
    """Claim and nack the job of a queue so often, each with its number as the error."""
    session.execute(
        "select set_config('test.queue', %s, false), set_config('test.times', %s, false)",
        [queue, str(times)],
    )
    session.execute(
        """
        do $$
        begin
            for n in 1..current_setting('test.times')::integer loop
                perform pgq.nack(c.job_id, c.lease_token, error => c.attempt::text)
                from pgq.claim_job(current_setting('test.queue')) as c;
                -- else dead rows of earlier attempts make it slow
                commit;
            end loop;
        end
        $$
        """
    )


@pytest.mark.parametrize(
    "often", [[1] * 45, [7] * 20, pytest.param([37] * 270, marks=pytest.mark.slow)], ids=sum
)
def test_however_often_it_is_tried(connection: Session, queue: str, often: list[int]) -> None:
    """The latest 20 are shown, and fewer than 40 are stored."""
    number = enqueue(connection, queue)
    most = 0
    for times in often:
        fail(connection, queue, times)
        most = max(most, stored(connection, number))
    assert 20 <= most < 40
    assert [(n, e) for n, _, e in attempts(connection, number)] == [
        (n, str(n)) for n in range(sum(often), sum(often) - 20, -1)
    ]


def test_however_often_it_is_redriven(connection: Session) -> None:
    """Its attempts begin with 1 again, and never come to 20."""
    queue = new_queue(connection, backoff="0", max_attempts=3)
    number, other = enqueue_many(connection, queue, 2)
    most = 0
    for life in range(25):
        for _ in range(3):
            job = claim_one(connection, queue)
            if job.job_id == other:
                connection.reject_job(**held(job), error="other")
                job = claim_one(connection, queue)
            connection.nack(**held(job), error=str(life))
        most = max(most, stored(connection, number))
        connection.redrive(queue=queue, job_id=number)
    assert 20 <= most < 40
    assert [a[2] for a in attempts(connection, number)[:4]] == ["24", "24", "24", "23"]
    assert len(attempts(connection, number)) == 20
    assert attempts(connection, other) == [(1, "rejected", "other")]


# ------------------------------------------------------------------------------------ who sees it


def test_a_dropped_queue(connection: Session, queue: str) -> None:
    number = enqueue(connection, queue)
    connection.nack(**held(claim_one(connection, queue)))
    connection.drop_queue(queue=queue)
    assert connection.job_history(job_id=number) == []
    connection.create_queue(queue=queue)
    assert connection.job_history(job_id=number) == []
