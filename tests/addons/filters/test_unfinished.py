"""cancel_jobs and retry_jobs: in which states jobs are taken, and what becomes of the others."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.filters import add_one, at, walk
from support.ordered import add, broken, ordered_queue
from support.queue import Job, ack, claim, claim_one, enqueue, enqueue_many, new_queue, stats
from support.session import Connect, Session, row, unchanged


def ids_of(jobs: list[Job]) -> list[int]:
    return [job.job_id for job in jobs]


def outcomes(session: Session, queue: str) -> dict[int, tuple[Any, ...]]:
    rows = session.execute(
        "select job_id, outcome, label, last_error, payload from pgq.archived_jobs"
        " where queue = %s",
        [queue],
    )
    return {job_id: tuple(rest) for job_id, *rest in rows}


# ---------------------------------------------------------------------------- cancel_jobs


@pytest.mark.parametrize("archive", [True, False])
def test_what_a_cancel_leaves(connection: Session, archive: bool) -> None:
    queue = new_queue(connection, archive=archive)
    failed = add_one(connection, "cancel_jobs", queue, label="x", error="no", payload=2)
    first = enqueue(connection, queue, {"n": 1}, label="x")
    kept = enqueue(connection, queue, 3, label="y", delay="1 hour")
    assert connection.cancel_jobs(queue=queue, label="x") == (2, 3, None)
    noted = {
        first: ("cancelled", "x", None, {"n": 1}),
        failed: ("cancelled", "x", "no", 2),
    }
    assert outcomes(connection, queue) == (noted if archive else {})
    assert stats(connection, queue) == {"delayed": 1}
    with unchanged(connection):
        assert connection.cancel_jobs(queue=queue, label="x") == (0, 1, None)
    assert connection.cancel_jobs(queue=queue, all_jobs=True) == (1, 1, None)
    assert (kept in outcomes(connection, queue)) is archive


@pytest.mark.parametrize("given", [{"label": "x"}, {"all_jobs": True}])
def test_jobs_that_a_worker_has(connection: Session, given: dict[str, Any]) -> None:
    """They stay, unless they are asked for; then their workers learn it."""
    queue = new_queue(connection)
    ids = enqueue_many(connection, queue, 3, labels=["x"] * 3)
    held = claim(connection, queue, 2)
    assert ids_of(held) == ids[:2]
    for leased in (None, False):
        assert connection.cancel_jobs(queue=queue, **given, leased=leased, dry_run=True).taken == 1
    assert connection.cancel_jobs(queue=queue, **given) == (1, 3, None)
    assert ack(connection, held[0])
    assert connection.cancel_jobs(queue=queue, **given) == (0, 1, None)
    assert connection.cancel_jobs(queue=queue, **given, leased=True) == (1, 1, None)
    assert ack(connection, held[1]) is False
    assert set(outcomes(connection, queue)) == {*ids}


def test_a_lease_that_has_run_out(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, lease="1 minute")
    enqueue(connection, queue, label="x")
    job = claim_one(connection, queue)
    assert connection.cancel_jobs(queue=queue, label="x").taken == 0
    clock.advance("61 seconds")
    assert connection.cancel_jobs(queue=queue, label="x").taken == 1
    assert ack(connection, job) is False


def test_until_when_they_are_leased(connection: Session) -> None:
    queue = new_queue(connection)
    enqueue_many(connection, queue, 2)
    short, long = (claim_one(connection, queue, lease=lease) for lease in ("1 hour", "2 hours"))
    before = {"queue": queue, "leased": True, "due_before": long.leased_until}
    assert connection.cancel_jobs(**before) == (1, 2, None)
    assert set(outcomes(connection, queue)) == {short.job_id}
    assert connection.cancel_jobs(queue=queue, leased=True, due_since=long.leased_until).taken == 1


def test_jobs_that_have_expired(connection: Session, clock: Clock) -> None:
    """As cancel_job does, and before cleanup sees them."""
    queue = new_queue(connection, job_ttl="1 hour")
    job_id = enqueue(connection, queue, label="x")
    clock.advance("2 hours")
    assert stats(connection, queue) == {"expired": 1}
    assert connection.retry_jobs(queue=queue, label="x").taken == 0
    assert connection.cancel_jobs(queue=queue, label="x").taken == 1
    assert outcomes(connection, queue)[job_id][0] == "cancelled"


def test_ended_jobs_and_dead_letters(connection: Session) -> None:
    queue = new_queue(connection)
    done = enqueue(connection, queue, label="x")
    assert ack(connection, claim_one(connection, queue))
    add_one(connection, "redrive", queue, label="x", error="no")
    with unchanged(connection):
        for function in ("cancel_jobs", "retry_jobs"):
            assert connection.call(function, queue=queue, label="x") == (0, 0, None)
    assert set(outcomes(connection, queue)) == {done}
    assert stats(connection, queue) == {"dead": 1}


def test_jobs_that_a_subscription_has_still_to_make(connection: Session) -> None:
    """They have no id yet, so they stay, and come."""
    queue = new_queue(connection)
    connection.create_topic(topic="t", partitions=1)
    connection.subscribe(subscription="s", topic="t", queue=queue)
    connection.publish_batch(topic="t", payloads=list(range(250)))
    assert connection.cancel_jobs(queue=queue, all_jobs=True, leased=True) == (0, 0, None)
    jobs = claim(connection, queue, 100)
    assert len(jobs) == 100
    assert connection.cancel_jobs(queue=queue, all_jobs=True, leased=True).taken >= 100
    assert not any(ack(connection, job) for job in jobs)


def test_unique_keys_are_free(connection: Session) -> None:
    queue = new_queue(connection)
    given = {"queue": queue, "payload": "1", "unique_key": "u"}
    first, _ = connection.enqueue(**given, label="x")
    assert connection.enqueue(**given).duplicate is True
    assert connection.cancel_jobs(queue=queue, label="x").taken == 1
    second, duplicate = connection.enqueue(**given)
    assert (second > first, duplicate) == (True, False)
    assert row(connection, "select count(*) from pgq.unique_job") == (1,)


@pytest.mark.parametrize("which", [[0], [1], [0, 1], [1, 2], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("leased", [False, True])
def test_jobs_of_an_ordered_key(connection: Session, which: list[int], leased: bool) -> None:
    """The next one that is left goes on, in order; no job goes before a leased one has ended."""
    queue = ordered_queue(connection)
    ids = [add(connection, queue, label="xy"[n not in which]) for n in range(3)]
    other = add(connection, queue, "l", label="y")
    held = claim(connection, queue, 9) if leased else []
    assert len(held) == 2 * leased
    gone = [ids[n] for n in which if n or not leased]
    assert connection.cancel_jobs(queue=queue, label="x") == (len(gone), 4, None)
    assert set(outcomes(connection, queue)) == {*gone}
    assert broken(connection) == []
    if leased:
        assert claim(connection, queue, 9) == []
        assert all(ack(connection, job) for job in held)
        assert broken(connection) == []
    left = [job_id for job_id in ids[leased:] if job_id not in gone]
    for job_id in left:
        jobs = {job.job_id: job for job in claim(connection, queue, 9)}
        assert set(jobs) - {other} == {job_id}
        assert ack(connection, jobs[job_id])
    assert set(ids_of(claim(connection, queue, 9))) <= {other}
    added = add(connection, queue)
    assert added in ids_of(claim(connection, queue, 9))


def test_a_leased_job_of_an_ordered_key(connection: Session) -> None:
    queue = ordered_queue(connection)
    ids = [add(connection, queue, label=label) for label in ("x", "x", "y")]
    held = claim_one(connection, queue)
    assert connection.cancel_jobs(queue=queue, label="x", leased=True) == (2, 3, None)
    assert ack(connection, held) is False
    assert ids_of(claim(connection, queue, 9)) == [ids[2]]
    assert broken(connection) == []


def test_a_blocked_job_has_the_time_at_which_it_would_be_due(connection: Session) -> None:
    queue = ordered_queue(connection, no_limit=["job_ttl"])
    first = add(connection, queue, run_at=at("12:00"))
    blocked = add(connection, queue, run_at=at("10:00"))
    assert connection.cancel_jobs(queue=queue, due_before=at("11:00")) == (1, 2, None)
    assert set(outcomes(connection, queue)) == {blocked}
    assert connection.cancel_jobs(queue=queue, key="k", due_since=at("12:00")).taken == 1
    assert set(outcomes(connection, queue)) == {first, blocked}


def test_a_blocked_job_of_a_lower_id_goes_too(connection: Session, clock: Clock) -> None:
    """A redriven one waits for one that came later, which goes at the same time."""
    queue = ordered_queue(connection)
    redriven = add_one(connection, "redrive", queue, key="k", label="x")
    first = add(connection, queue)
    assert connection.redrive(queue=queue, job_id=redriven).taken == 1
    clock.advance("1 second")
    due = {"due_before": row(connection, "select pgq._clock()")[0]}
    assert connection.cancel_jobs(queue=queue, **due, dry_run=True) == (2, 2, None)
    assert connection.cancel_jobs(queue=queue, **due) == (2, 2, None)
    assert set(outcomes(connection, queue)) == {first, redriven}
    assert broken(connection) == []


def test_jobs_of_a_limited_key(connection: Session) -> None:
    """Jobs that wait for their key go, and its limit still holds."""
    queue = new_queue(connection, max_leased_per_key=1, backoff="0")
    for label in ("y", "x", "x", "y"):
        enqueue(connection, queue, key="k", label=label)
    held = claim_one(connection, queue)
    assert claim(connection, queue, 9) == []
    assert stats(connection, queue) == {"leased": 1, "waiting": 3}
    assert connection.cancel_jobs(queue=queue, label="x") == (2, 4, None)
    assert claim(connection, queue, 9) == []
    assert stats(connection, queue) == {"leased": 1, "waiting": 1}
    assert ack(connection, held)
    last = claim_one(connection, queue)
    enqueue(connection, queue, key="k", label="y")
    assert claim(connection, queue, 9) == []
    assert connection.cancel_jobs(queue=queue, label="y", leased=True).taken == 2
    assert ack(connection, last) is False
    added = enqueue(connection, queue, key="k")
    assert ids_of(claim(connection, queue, 9)) == [added]


def test_many_jobs_of_one_ordered_key(connection: Session) -> None:
    """Some thousand at once, and one that stays behind them."""
    queue = ordered_queue(connection)
    connection.enqueue_batch(
        queue=queue, payloads=[1] * 3000, keys=["k"] * 3000, labels=["x"] * 3000
    )
    last = add(connection, queue, label="y")
    connection.execute("set statement_timeout = '60s'")
    assert sum(r.taken for r in walk(connection, "cancel_jobs", queue=queue, label="x")) == 3000
    assert ids_of(claim(connection, queue, 9)) == [last]
    assert broken(connection) == []


# ---------------------------------------------------------------------------- retry_jobs


def test_jobs_that_wait_for_their_time(connection: Session) -> None:
    """A retry, a delay and a run_at alike; attempts and errors stay."""
    queue = new_queue(connection, no_limit=["job_ttl"])
    failed = add_one(connection, "retry_jobs", queue, label="x", error="no")
    delayed = enqueue(connection, queue, label="x", delay="1 day")
    later = enqueue(connection, queue, label="x", run_at=at("10:00"))
    other = enqueue(connection, queue, label="y", delay="1 day")
    assert connection.retry_jobs(queue=queue, label="x") == (3, 4, None)
    with unchanged(connection):
        assert connection.retry_jobs(queue=queue, label="x") == (0, 4, None)
    jobs = {job.job_id: job for job in claim(connection, queue, 9)}
    assert set(jobs) == {failed, delayed, later}
    assert {job_id: job.attempt for job_id, job in jobs.items()} == {
        failed: 2,
        delayed: 1,
        later: 1,
    }
    assert connection.get_job(job_id=failed).last_error == "no"
    assert connection.get_job(job_id=other).state == "delayed"


def test_jobs_that_do_not_wait_for_their_time(connection: Session) -> None:
    """Leased ones, those that are due, and those that another one of their key blocks."""
    queue = ordered_queue(connection)
    add(connection, queue, "a")
    claim_one(connection, queue)
    add(connection, queue, "a", delay="1 day")
    due = add(connection, queue, "b")
    front = add(connection, queue, "c", delay="1 day")
    behind = add(connection, queue, "c", delay="1 day")
    assert connection.retry_jobs(queue=queue, all_jobs=True, dry_run=True).taken == 1
    assert connection.retry_jobs(queue=queue, all_jobs=True) == (1, 5, None)
    jobs = claim(connection, queue, 9)
    assert set(ids_of(jobs)) == {due, front}
    assert all(ack(connection, job) for job in jobs)
    assert claim(connection, queue, 9) == []
    assert connection.retry_jobs(queue=queue, key="c").taken == 1
    assert ids_of(claim(connection, queue, 9)) == [behind]


def test_workers_are_told(connect: Connect, connection: Session) -> None:
    quiet, loud = new_queue(connection), new_queue(connection, notify=True)
    for queue in (quiet, loud):
        enqueue(connection, queue, delay="1 day", label="x")
    listener = connect(autocommit=True)
    listener.execute("listen pgq_queue")
    for queue in (quiet, loud):
        connection.retry_jobs(queue=queue, label="x", dry_run=True)
        connection.retry_jobs(queue=queue, label="y")
    connection.execute("notify pgq_queue, 'here'")
    for queue in (quiet, loud):
        assert connection.retry_jobs(queue=queue, label="x").taken == 1
    [first, second] = [notice.payload for notice in listener.notifies(timeout=10, stop_after=2)]
    assert (first, second) == ("here", loud)
