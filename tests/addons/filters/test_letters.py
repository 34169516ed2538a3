"""redrive and purge_queue with a filter: what becomes of letters, keys and times."""

from __future__ import annotations

from typing import Any

import pytest

from support.clock import Clock
from support.filters import LETTERS, add_one, taken_by
from support.ordered import add, broken, ordered_queue
from support.queue import ack, claim, claim_one, enqueue, new_queue, stats
from support.session import Connect, Session, row, unchanged


def letter(session: Session, queue: str, **options: Any) -> int:
    return add_one(session, "redrive", queue, **options)


def held_letters(session: Session, unique_until: str = "finished") -> tuple[str, list[int]]:
    """Three letters of a label; the second one's unique key has another job since."""
    queue = new_queue(session, unique_until=unique_until)
    ids = [letter(session, queue, label="x", unique_key=key) for key in ("a", "b", "c")]
    enqueue(session, queue, unique_key="b", delay="1 day")
    return queue, ids


@pytest.mark.parametrize("given", [{"label": "x"}, {"all_jobs": True}])
def test_unique_keys_that_others_hold(connection: Session, given: dict[str, Any]) -> None:
    """Such a letter is seen and stays; the dry run says so too."""
    queue, ids = held_letters(connection)
    with unchanged(connection):
        assert connection.redrive(queue=queue, **given, dry_run=True) == (2, 3, None)
    assert connection.redrive(queue=queue, **given) == (2, 3, None)
    assert stats(connection, queue) == {"ready": 2, "dead": 1, "delayed": 1}
    assert row(connection, "select job_id from pgq.dead_job") == (ids[1],)


def test_one_unique_key_of_several_letters(connection: Session) -> None:
    queue = new_queue(connection)
    for _ in range(3):
        letter(connection, queue, label="x", unique_key="u")
    assert connection.redrive(queue=queue, label="x", dry_run=True) == (1, 3, None)
    assert connection.redrive(queue=queue, label="x") == (1, 3, None)
    assert connection.redrive(queue=queue, label="x", dry_run=True) == (0, 2, None)
    assert connection.redrive(queue=queue, label="x") == (0, 2, None)
    assert stats(connection, queue) == {"ready": 1, "dead": 2}


def test_letters_that_hold_their_own_keys(connection: Session) -> None:
    queue = new_queue(connection, unique_until="removed")
    for key in ("a", "b"):
        letter(connection, queue, label="x", unique_key=key)
    assert connection.redrive(queue=queue, label="x", dry_run=True) == (2, 2, None)
    assert connection.redrive(queue=queue, label="x") == (2, 2, None)


def test_a_key_whose_holder_has_expired(connection: Session, clock: Clock) -> None:
    queue = new_queue(connection, job_ttl="1 hour")
    letter(connection, queue, label="x", unique_key="u")
    enqueue(connection, queue, unique_key="u")
    clock.advance("2 hours")
    assert connection.redrive(queue=queue, label="x", dry_run=True) == (1, 1, None)
    assert connection.redrive(queue=queue, label="x") == (1, 1, None)


def test_a_held_letter_does_not_end_a_walk(connection: Session) -> None:
    queue, ids = held_letters(connection)
    after_id = None
    answers = []
    for _ in ids:
        result = connection.redrive(queue=queue, label="x", max_jobs=1, after_id=after_id)
        answers.append((result.taken, result.seen))
        after_id = result.after_id
    assert answers == [(1, 1), (0, 1), (1, 1)]
    assert stats(connection, queue) == {"ready": 2, "dead": 1, "delayed": 1}


def test_at_a_rate(connection: Session, clock: Clock) -> None:
    """Only those that match, one after the other, those that died first before the others."""
    queue = new_queue(connection)
    ids = [letter(connection, queue, label="xy"[n % 2]) for n in range(6)]
    connection.execute(
        "update pgq.dead_job set died_at = died_at + make_interval(secs => %s - job_id)",
        [max(ids)],
    )
    assert connection.redrive(queue=queue, label="x", per_second=0.01).taken == 3
    came = []
    for _ in range(3):
        job = claim_one(connection, queue)
        assert claim(connection, queue) == []
        assert ack(connection, job)
        came.append(job.job_id)
        clock.advance("100 seconds")
    assert came == [ids[4], ids[2], ids[0]]
    assert stats(connection, queue)["dead"] == 3


def test_redriven_letters_of_an_ordered_key(connection: Session) -> None:
    queue = ordered_queue(connection)
    ids = [letter(connection, queue, key="k", label="xy"[n == 1]) for n in range(3)]
    behind = add(connection, queue)
    assert connection.redrive(queue=queue, key="k", label="x").taken == 2
    assert broken(connection) == []
    came = []
    while jobs := claim(connection, queue, 9):
        [job] = jobs
        came.append(job.job_id)
        assert ack(connection, job)
    assert sorted(came) == [ids[0], ids[2], behind]
    assert came.index(ids[0]) < came.index(ids[2])
    assert stats(connection, queue) == {"dead": 1}


@pytest.mark.parametrize("function", LETTERS)
def test_a_letter_that_stops_its_key(connection: Session, function: str) -> None:
    """A purge lets the next job of its key go; a redrive puts it before that."""
    queue = ordered_queue(connection, after_dead_letter="stop")
    first = letter(connection, queue, key="k", label="x", error="no")
    other = letter(connection, queue, key="l", label="y", error="no")
    behind = [add(connection, queue), add(connection, queue, "l")]
    assert claim(connection, queue, 9) == []
    assert connection.call(function, queue=queue, key="k", error_contains="no").taken == 1
    expected = [first, behind[0]] if function == "redrive" else [behind[0]]
    for job_id in expected:
        job = claim_one(connection, queue)
        assert job.job_id == job_id
        assert claim(connection, queue, 9) == []
        assert ack(connection, job)
    assert row(connection, "select job_id from pgq.dead_job") == (other,)


def test_a_purge_frees_unique_keys(connection: Session) -> None:
    queue = new_queue(connection, unique_until="removed")
    gone = letter(connection, queue, label="x", unique_key="a")
    letter(connection, queue, label="y", unique_key="b")
    assert connection.purge_queue(queue=queue, label="x") == (1, 2, None)
    assert row(connection, "select array_agg(unique_key) from pgq.unique_job") == (["b"],)
    assert enqueue(connection, queue, unique_key="a") > gone


@pytest.mark.parametrize("function", LETTERS)
def test_unfinished_and_archived_jobs_stay(connection: Session, function: str) -> None:
    queue = new_queue(connection)
    enqueue(connection, queue, label="x")
    assert ack(connection, claim_one(connection, queue))
    enqueue(connection, queue, label="x")
    with unchanged(connection):
        assert connection.call(function, queue=queue, label="x") == (0, 0, None)


@pytest.mark.parametrize("function", LETTERS)
def test_one_letter_of_another_queue(connect: Connect, connection: Session, function: str) -> None:
    """It is as if it were not there: not seen, not counted, and nobody waits for it."""
    queue, other = new_queue(connection), new_queue(connection)
    job_id = letter(connection, queue)
    session = connect()
    with unchanged(connection):
        assert session.call(function, queue=other, job_id=job_id) == (0, 0, None)
        assert session.call(function, queue=other, job_id=0) == (0, 0, None)
    assert connection.call(function, queue=queue, job_id=job_id, dry_run=None) == (1, 1, None)
    session.rollback()


@pytest.mark.parametrize("function", LETTERS)
def test_all_without_a_filter(connection: Session, function: str) -> None:
    """However many there are, one call has all of them, and there is no more."""
    queue = new_queue(connection)
    for _ in range(3):
        letter(connection, queue)
    which = "dead_only" if function == "purge_queue" else "all_jobs"
    taken, result = taken_by(connection, function, queue, **{which: True})
    assert (len(taken), result) == (3, (3, 3, None))
    if function == "redrive":
        assert connection.redrive(queue=queue, all_jobs=True, max_jobs=2) == (2, 2, None)
