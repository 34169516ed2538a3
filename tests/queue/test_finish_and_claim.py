"""finish_and_claim: the last jobs are finished and the next ones claimed, in one call."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.rows import class_row

from support.clock import Clock
from support.queue import Job, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, contents, refused, row, unchanged

_ARGUMENTS = ("queue", "job_ids", "lease_token", "max_jobs", "lease", "label")


def go_on(connection: Session, queue: str, *jobs: Job, **options: Any) -> list[Job]:
    """Finish these jobs, which are of one claim, and claim the next ones."""
    arguments = {"queue": queue, **options}
    if jobs:
        arguments["job_ids"] = [job.job_id for job in jobs]
        arguments["lease_token"] = jobs[0].lease_token
    named = ", ".join(f"{name} => %({name})s" for name in _ARGUMENTS if name in arguments)
    with connection.cursor(row_factory=class_row(Job)) as cursor:
        statement = f"select * from pgq.finish_and_claim({named})"
        return cursor.execute(statement.encode(), arguments).fetchall()


def lost(connection: Session, queue: str, job_ids: list[int], token: UUID) -> str:
    """The DETAIL of the error that says that these are not the caller's any more."""
    before = contents(connection)
    with pytest.raises(psycopg.Error) as caught:
        connection.finish_and_claim(queue=queue, job_ids=job_ids, lease_token=token)
    assert caught.value.sqlstate == "MQ006"
    assert contents(connection) == before
    assert caught.value.diag.message_detail
    return caught.value.diag.message_detail


def test_one_after_the_other(connection: Session, queue: str) -> None:
    """The loop of a worker: the first call has nothing to finish, the last one nothing to give."""
    ids = enqueue_many(connection, queue, 3)
    found: list[Job] = []
    jobs = go_on(connection, queue)
    while jobs:
        found += jobs
        assert stats(connection, queue).get("leased") == 1
        jobs = go_on(connection, queue, *jobs)
    assert [job.job_id for job in found] == ids
    assert [job.payload for job in found] == [0, 1, 2]
    assert len({job.lease_token for job in found}) == 3
    assert stats(connection, queue) == {}
    assert connection.execute(
        "select job_id, outcome, attempt, payload from pgq.archived_jobs"
        " where queue = %s order by job_id",
        [queue],
    ).fetchall() == [(job_id, "acked", 1, n) for n, job_id in enumerate(ids)]


def test_many(connection: Session, queue: str) -> None:
    enqueue_many(connection, queue, 25)
    found: list[int] = []
    jobs = go_on(connection, queue, max_jobs=10)
    while jobs:
        found.append(len(jobs))
        assert len({job.lease_token for job in jobs}) == 1
        jobs = go_on(connection, queue, *jobs, max_jobs=10)
    assert found == [10, 10, 5]
    assert stats(connection, queue) == {}


@pytest.mark.parametrize("nothing", [{}, {"job_ids": None}, {"job_ids": None, "lease_token": None}])
@pytest.mark.parametrize("token", [False, True])
def test_nothing_to_finish(
    connection: Session, queue: str, nothing: dict[str, Any], token: bool
) -> None:
    """It claims, as claim_job does; a token without jobs does no harm, nor an empty array."""
    ids = enqueue_many(connection, queue, 2)
    options: dict[str, Any] = dict(nothing)
    if token:
        options["lease_token"] = uuid4()
    [job] = go_on(connection, queue, **options)
    assert (job.job_id, job.attempt) == (ids[0], 1)
    [job] = go_on(connection, queue, job_ids=[], lease_token=uuid4())
    assert (job.job_id, job.attempt) == (ids[1], 1)
    assert stats(connection, queue) == {"leased": 2}


def test_nothing_to_claim(connection: Session, queue: str) -> None:
    """With max_jobs 0 it finishes and returns no row, whatever waits."""
    enqueue_many(connection, queue, 3)
    jobs = claim(connection, queue, 2)
    assert go_on(connection, queue, *jobs, max_jobs=0) == []
    assert stats(connection, queue) == {"ready": 1}
    before = contents(connection)
    assert go_on(connection, queue, max_jobs=0) == []
    assert contents(connection) == before


def test_null_is_the_default(connection: Session, queue: str) -> None:
    enqueue_many(connection, queue, 3)
    assert len(go_on(connection, queue, max_jobs=None, lease=None, label=None)) == 1


def test_it_claims_as_claim_job_does(connection: Session, queue: str, clock: Clock) -> None:
    """By priority, then by time; of a label; for a length of time; counted as an attempt."""
    last = enqueue(connection, queue, "last", priority=5)
    blue = enqueue(connection, queue, "blue", label="blue", headers={"h": "1"}, key="k")
    enqueue(connection, queue, "first")
    [before] = row(connection, "select pgq._clock()")
    [job] = go_on(connection, queue, label="blue", lease="2 hours")
    [after] = row(connection, "select pgq._clock()")
    assert (job.job_id, job.label, job.headers, job.key) == (blue, "blue", {"h": "1"}, "k")
    assert before + timedelta(hours=2) <= job.leased_until <= after + timedelta(hours=2)
    assert before - timedelta(minutes=1) < job.enqueued_at < after
    assert go_on(connection, queue, job, label="blue") == []
    jobs = go_on(connection, queue, max_jobs=5)
    assert [(job.payload, job.priority) for job in jobs] == [("first", 0), ("last", 5)]
    clock.advance("31 seconds")
    [again] = go_on(connection, queue, jobs[0])
    assert (again.job_id, again.attempt) == (last, 2)


def test_archive_switched_off(connection: Session) -> None:
    queue = new_queue(connection, archive=False)
    enqueue_many(connection, queue, 2)
    go_on(connection, queue, *claim(connection, queue, 2))
    assert stats(connection, queue) == {}
    assert row(connection, "select count(*) from pgq.archived_jobs where queue = %s", [queue]) == (
        0,
    )


@pytest.mark.parametrize("archive", [True, False])
def test_a_job_of_another_queue(connection: Session, queue: str, archive: bool) -> None:
    """It is finished as its own queue says; the next one comes from the queue that is named."""
    other = new_queue(connection, archive=archive)
    enqueue(connection, other, "first")
    next_id = enqueue(connection, queue, "next")
    held = claim_one(connection, other)
    assert [job.job_id for job in go_on(connection, queue, held)] == [next_id]
    assert stats(connection, other) == {}
    assert connection.execute(
        "select job_id, payload from pgq.archived_jobs where queue = %s", [other]
    ).fetchall() == ([(held.job_id, "first")] if archive else [])


def test_an_array_that_begins_elsewhere(connection: Session, queue: str) -> None:
    """What the array calls its first element does not matter."""
    enqueue(connection, queue)
    held = claim_one(connection, queue)
    connection.execute(
        "select from pgq.finish_and_claim(%s, format('[5:5]={%%s}', %s)::bigint[], %s)",
        [queue, held.job_id, held.lease_token],
    )
    assert stats(connection, queue) == {}


def test_a_paused_queue(connection: Session, queue: str) -> None:
    """Work in hand is finished, and nothing new is given out."""
    enqueue_many(connection, queue, 2)
    job = claim_one(connection, queue)
    connection.execute("select pgq.pause_queue(%s)", [queue])
    assert go_on(connection, queue, job) == []
    assert stats(connection, queue) == {"ready": 1}
    assert go_on(connection, queue) == []
    connection.execute("select pgq.resume_queue(%s)", [queue])
    assert len(go_on(connection, queue)) == 1


def test_a_lease_that_ran_out(connection: Session, queue: str, clock: Clock) -> None:
    """As for ack it still counts, as long as nobody else got the job; and it is not given again."""
    enqueue(connection, queue)
    job = claim_one(connection, queue)
    clock.advance("31 seconds")
    assert go_on(connection, queue, job) == []
    assert stats(connection, queue) == {}


def test_a_job_that_another_worker_has(connection: Session, queue: str, clock: Clock) -> None:
    """The call is refused, names the job, and has done neither half."""
    enqueue_many(connection, queue, 3)
    kept, gone = claim(connection, queue, 2)
    token = kept.lease_token
    assert connection.extend_lease(job_id=kept.job_id, lease_token=token, lease="1 hour")
    clock.advance("31 seconds")
    [other] = [job for job in claim(connection, queue, 2) if job.job_id == gone.job_id]
    ids = [kept.job_id, gone.job_id]
    assert str(gone.job_id) in lost(connection, queue, ids, token)
    # with their own calls both workers go on
    assert connection.ack_batch(job_ids=ids, lease_token=token) == [(kept.job_id,)]
    assert connection.ack(job_id=gone.job_id, lease_token=other.lease_token)


@pytest.mark.parametrize("end", ["ack", "nack", "archive_job"])
def test_a_job_that_is_ended_already(connection: Session, queue: str, end: str) -> None:
    """Those alone are named that are lost."""
    enqueue_many(connection, queue, 4)
    jobs = claim(connection, queue, 3)
    ids, token = [job.job_id for job in jobs], jobs[0].lease_token
    assert connection.call(end, job_id=ids[1], lease_token=token)
    detail = lost(connection, queue, ids, token)
    named = {word.strip(".,:;{}()[]\"'") for word in detail.replace(",", " ").split()}
    assert {str(job_id) for job_id in ids} & named == {str(ids[1])}
    assert [job.job_id for job in claim(connection, queue, 1)]


def test_what_was_never_the_callers(connection: Session, queue: str) -> None:
    """A job that waits, one that is not there, and one with another token."""
    ids = enqueue_many(connection, queue, 3)
    mine = claim_one(connection, queue)
    theirs = claim_one(connection, queue)
    for job_id in (ids[2], -1, theirs.job_id):
        assert str(job_id) in lost(connection, queue, [mine.job_id, job_id], mine.lease_token)
    assert str(mine.job_id) in lost(connection, queue, [mine.job_id], uuid4())
    assert stats(connection, queue) == {"leased": 2, "ready": 1}


def test_an_id_named_twice(connection: Session, queue: str) -> None:
    """It is finished once, and not lost for that."""
    enqueue_many(connection, queue, 2)
    first = claim_one(connection, queue)
    [second] = go_on(connection, queue, first, first)
    assert second.payload == 1
    assert row(connection, "select count(*) from pgq.archived_jobs where queue = %s", [queue]) == (
        1,
    )


@pytest.mark.parametrize("claims_first", [True, False])
def test_exhausted_jobs_die(connection: Session, clock: Clock, claims_first: bool) -> None:
    """Those in front whose last worker was lost become dead letters, the next good one comes."""
    queue = new_queue(connection, max_attempts=1)
    enqueue_many(connection, queue, 4)
    claim(connection, queue, 3)
    mine = claim_one(connection, queue, lease="1 hour") if claims_first else None
    clock.advance("31 seconds")
    good = enqueue(connection, queue, "good")
    jobs = go_on(connection, queue, *([mine] if mine else []), max_jobs=1)
    if not claims_first:
        jobs += go_on(connection, queue, *jobs)
    assert good in [job.job_id for job in jobs]
    assert stats(connection, queue) == {"leased": 1, "dead": 3}


def test_a_message_that_is_missing(connection: Session, queue: str) -> None:
    """The job comes without its content, and can be finished."""
    key = f"lost from {queue}"
    job_id = enqueue(connection, queue, key=key)
    connection.execute("delete from pgq.message where key = %s", [key])
    [job] = go_on(connection, queue)
    assert (job.job_id, job.payload, job.body) == (job_id, None, None)
    assert go_on(connection, queue, job) == []
    assert stats(connection, queue) == {}


@pytest.mark.parametrize(
    ("sqlstate", "bad"),
    [
        ("MQ002", {"queue": "no-such-queue"}),
        ("22004", {"queue": None}),
        ("22004", {"lease_token": None}),
        ("22004", {"job_ids": "null"}),
        ("22023", {"job_ids": [[1]]}),
        ("22023", {"job_ids": [[1], [2]]}),
        ("22023", {"label": "x" * 256}),
        ("22023", {"max_jobs": -1}),
        ("22023", {"max_jobs": 100_001}),
        ("22023", {"lease": "0"}),
        ("22023", {"lease": "-1 second"}),
        ("22023", {"lease": "-12 months 361 days"}),
        ("22023", {"lease": "36501 days"}),
    ],
)
@pytest.mark.parametrize("max_jobs", [0, 1, 3])
def test_refusals(
    connection: Session, queue: str, sqlstate: str, bad: dict[str, Any], max_jobs: int
) -> None:
    """Neither half is done then."""
    enqueue_many(connection, queue, 2)
    job = claim_one(connection, queue)
    if bad.get("job_ids") == "null":
        bad = {"job_ids": [job.job_id, None]}
    arguments: dict[str, Any] = {
        "queue": queue,
        "job_ids": [job.job_id],
        "lease_token": job.lease_token,
        "max_jobs": max_jobs,
    }
    with unchanged(connection):
        refused(sqlstate, connection.finish_and_claim, **{**arguments, **bad})
    assert stats(connection, queue) == {"leased": 1, "ready": 1}


def test_twice_in_one_transaction_and_rolled_back(
    connect: Connect, connection: Session, queue: str
) -> None:
    """Both halves are undone: the first jobs are the caller's again, the next ones free."""
    ids = enqueue_many(connection, queue, 3)
    first = claim_one(connection, queue)
    session = connect()
    [second] = go_on(session, queue, first)
    [third] = go_on(session, queue, second)
    assert [job.job_id for job in (first, second, third)] == ids
    assert claim(connection, queue) == []
    session.rollback()
    assert stats(connection, queue) == {"leased": 1, "ready": 2}
    [again] = go_on(connection, queue, first)
    assert (again.job_id, again.attempt) == (second.job_id, 1)
