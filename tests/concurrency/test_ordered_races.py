"""Two sessions and one ordered key: its jobs follow each other in the order of their commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.ordered import add, add_many, broken, held, notes, ordered_queue, taken_keys
from support.queue import Job, ack, claim, claim_one
from support.session import Connect, Session
from support.snapshots import LEVELS, TRY_AGAIN, answer_of
from support.waiting import blocked, wait_until

READ_COMMITTED = "read committed"
ALL_LEVELS = [READ_COMMITTED, *LEVELS]
END = pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
LEVEL = pytest.mark.parametrize("level", ALL_LEVELS)


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


@pytest.fixture
def connect(shared_connect: Connect) -> Connect:
    return shared_connect


def end(session: Session, commits: bool) -> None:
    session.commit() if commits else session.rollback()


def given(connection: Session, queue: str, wanted: int) -> list[int]:
    """Work off a queue, which may take some claims where a key is noted."""
    ids: list[int] = []

    def work() -> bool:
        found = claim(connection, queue, 9)
        for job in found:
            ids.append(job.job_id)
            assert ack(connection, job)
        return len(ids) >= wanted and not found

    wait_until(work)
    # the last of a key is let go of by a cleanup where a note was left
    connection.cleanup()
    assert broken(connection) == []
    return ids


# ---------------------------------------------------------------------------- enqueues


@END
@LEVEL
@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
def test_two_enqueues_of_a_free_key(
    connect: Connect, connection: Session, batch: bool, level: str, commits: bool
) -> None:
    """The second waits for the first, whose job then stands before it."""
    queue = ordered_queue(connection)
    one, other = connect(), connect(isolation_level=level)
    ids = [add(one, queue)] if commits else []
    if not commits:
        add(one, queue)

    def second() -> int:
        return add_many(other, queue, ["a", "k"])[1] if batch else add(other, queue)

    future = blocked(connection, other, lambda: answer_of(other, second))
    end(one, commits)
    answer = future.result(30)
    if answer == TRY_AGAIN:
        assert level != READ_COMMITTED
        answer = answer_of(other, second)
    ids.append(answer)
    assert [i for i in given(connection, queue, len(ids)) if i in ids] == ids


@END
@LEVEL
def test_two_enqueues_of_a_taken_key(
    connect: Connect, connection: Session, level: str, commits: bool
) -> None:
    """Ids are in the order of the commits, so the one who waits takes his afterwards."""
    queue = ordered_queue(connection)
    first = add(connection, queue)
    one, other = connect(), connect(isolation_level=level)
    second = add(one, queue)
    future = blocked(connection, other, lambda: answer_of(other, lambda: add(other, queue)))
    loose = add(connection, queue, None)
    end(one, commits)
    third = future.result(30)
    assert third > loose > second
    wanted = [first, second, third] if commits else [first, third]
    assert [i for i in given(connection, queue, len(wanted) + 1) if i != loose] == wanted


@LEVEL
def test_keys_are_taken_in_one_order(connect: Connect, connection: Session, level: str) -> None:
    """However the arrays are ordered, no two batches wait for each other."""
    queue = ordered_queue(connection)
    one, other = connect(), connect(isolation_level=level)
    add_many(one, queue, ["b"])
    future = blocked(
        connection, other, lambda: answer_of(other, lambda: add_many(other, queue, ["c", "a", "b"]))
    )
    add_many(one, queue, ["c"])
    one.commit()
    assert future.result(30)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("what", ["added", "emptied", "anew", "still there"])
def test_an_old_snapshot_of_an_enqueue(
    connect: Connect, connection: Session, level: str, what: str
) -> None:
    """Where it does not show whether the key is taken, it has to try again."""
    queue = ordered_queue(connection)
    if what != "added":
        add(connection, queue)
    old = connect(isolation_level=level)
    old.execute("select 1")
    if what != "added":
        job = claim_one(connection, queue)
    if what in ("emptied", "anew"):
        ack(connection, job)
    if what in ("added", "anew", "still there"):
        add(connection, queue)
    answer = answer_of(old, lambda: add(old, queue))
    assert (answer == TRY_AGAIN) is (what != "still there")
    assert broken(connection) == []
    if what == "still there":
        ack(connection, job)
    given(connection, queue, 0)


# ---------------------------------------------------------------------------- the end of the first

ENDS: dict[str, Callable[[Session, Job], Any]] = {
    "ack": ack,
    "ack_batch": lambda s, j: s.ack_batch(job_ids=[j.job_id], lease_token=j.lease_token),
    "archive_job": lambda s, j: s.archive_job(**held(j)),
    "cancel_job": lambda s, j: s.cancel_job(job_id=j.job_id),
    "reject_job": lambda s, j: s.reject_job(**held(j)),
    "nack": lambda s, j: s.nack(**held(j)),
}


@END
@pytest.mark.parametrize(
    ("how", "level"), [*((how, READ_COMMITTED) for how in ENDS), *(("ack", lv) for lv in LEVELS)]
)
@pytest.mark.parametrize("waiting", [0, 1])
def test_an_end_beside_an_open_enqueue(
    connect: Connect, connection: Session, waiting: int, how: str, level: str, commits: bool
) -> None:
    """It does not wait; what waits comes up at once, and else by a note."""
    queue = ordered_queue(connection, max_attempts=1)
    add(connection, queue)
    ids = [add(connection, queue) for _ in range(waiting)]
    job = claim_one(connection, queue)
    writer, worker = connect(), connect(isolation_level=level)
    number = add(writer, queue)
    assert answer_of(worker, lambda: ENDS[how](worker, job)) != TRY_AGAIN
    assert notes(connection, queue) == 1 - waiting
    assert broken(connection) == []
    found = claim(connection, queue, 9)
    assert [job.job_id for job in found] == ids
    end(writer, commits)
    for job in found:
        ack(connection, job)
    assert given(connection, queue, int(commits)) == [number] * commits
    assert taken_keys(connection, queue) == []


@END
@pytest.mark.parametrize("level", LEVELS)
def test_an_end_that_does_not_see_who_waits(
    connect: Connect, connection: Session, level: str, commits: bool
) -> None:
    """Its snapshot is older than the job: nothing is lost."""
    queue = ordered_queue(connection)
    add(connection, queue)
    job = claim_one(connection, queue)
    old = connect(isolation_level=level)
    old.execute("select 1")
    number = add(connection, queue)
    assert ack(old, job) is True
    end(old, commits)
    assert broken(connection) == []
    if commits:
        assert given(connection, queue, 1) == [number]
    else:
        assert ack(connection, job) is True
        assert given(connection, queue, 1) == [number]


@END
@LEVEL
@pytest.mark.parametrize("waiting", [0, 1])
def test_an_enqueue_beside_an_open_end(
    connect: Connect, connection: Session, waiting: int, level: str, commits: bool
) -> None:
    """With nobody behind the first, it waits for what becomes of the key."""
    queue = ordered_queue(connection)
    first = add(connection, queue)
    ids = [add(connection, queue) for _ in range(waiting)]
    job = claim_one(connection, queue)
    worker, writer = connect(), connect(isolation_level=level)
    assert ack(worker, job) is True

    def put() -> Any:
        return answer_of(writer, lambda: add(writer, queue))

    if waiting:
        number = put()
        end(worker, commits)
    else:
        future = blocked(connection, writer, put)
        end(worker, commits)
        number = future.result(30)
        if number == TRY_AGAIN:
            assert level != READ_COMMITTED
            number = put()
    assert broken(connection) == []
    if not commits:
        assert connection.get_job(job_id=first).state == "leased"
        assert ack(connection, job) is True
    assert given(connection, queue, 1 + waiting) == [*ids, number]


@END
@LEVEL
def test_an_end_beside_a_cancel_of_the_next(
    connect: Connect, connection: Session, level: str, commits: bool
) -> None:
    queue = ordered_queue(connection)
    add(connection, queue)
    second, third = add(connection, queue), add(connection, queue)
    job = claim_one(connection, queue)
    other, worker = connect(), connect(isolation_level=level)
    assert other.cancel_job(job_id=second) is True
    assert answer_of(worker, lambda: ack(worker, job)) is True
    assert claim(connection, queue, 9) == []
    assert broken(connection) == []
    end(other, commits)
    assert given(connection, queue, 1) == ([third] if commits else [second, third])


@END
@LEVEL
def test_a_cancel_of_the_next_beside_an_open_end(
    connect: Connect, connection: Session, level: str, commits: bool
) -> None:
    """It waits for who brings the job up; then it ends the first of the key."""
    queue = ordered_queue(connection)
    add(connection, queue)
    second, third = add(connection, queue), add(connection, queue)
    job = claim_one(connection, queue)
    worker, other = connect(), connect(isolation_level=level)
    assert ack(worker, job) is True

    def cancel() -> Any:
        return answer_of(other, lambda: other.cancel_job(job_id=second))

    future = blocked(connection, other, cancel)
    end(worker, commits)
    answer = future.result(30)
    if answer == TRY_AGAIN:
        answer = cancel()
    assert answer is True
    assert broken(connection) == []
    if not commits:
        assert ack(connection, job) is True
    assert given(connection, queue, 1) == [third]


# ---------------------------------------------------------------------------- notes


@LEVEL
def test_who_acts_on_a_note(connect: Connect, connection: Session, level: str) -> None:
    """Claims at any level, also one of a worker that only asks for a label."""
    queue = ordered_queue(connection)
    add(connection, queue)
    job = claim_one(connection, queue)
    writer, worker = connect(), connect(isolation_level=level)
    number = add(writer, queue, label="b")
    ack(connection, job)
    writer.commit()
    found = answer_of(worker, lambda: claim(worker, queue, label="b"))
    assert [job.job_id for job in found] == [number]
    assert notes(connection, queue) == 0
    assert broken(connection) == []


@END
def test_a_claim_that_acts_on_a_note_and_stays_open(
    connect: Connect, connection: Session, commits: bool
) -> None:
    queue = ordered_queue(connection)
    add(connection, queue)
    job = claim_one(connection, queue)
    writer, worker = connect(), connect()
    number = add(writer, queue)
    ack(connection, job)
    writer.commit()
    assert claim_one(worker, queue).job_id == number
    later = add(connection, queue)
    assert claim(connection, queue, 9) == []
    connection.cleanup()
    end(worker, commits)
    if commits:
        [held_job] = connection.execute(
            "select job_id, lease_token from pgq.job where job_id = %s", [number]
        ).fetchall()
        assert connection.ack(job_id=held_job[0], lease_token=held_job[1]) is True
    assert given(connection, queue, 1) == ([later] if commits else [number, later])


# ---------------------------------------------------------------------------- redrives


@END
def test_an_end_beside_an_open_redrive(
    connect: Connect, connection: Session, commits: bool
) -> None:
    queue = ordered_queue(connection)
    ids = [add(connection, queue) for _ in range(4)]
    assert connection.reject_job(**held(claim_one(connection, queue))) is True
    job = claim_one(connection, queue)
    other = connect()
    assert other.redrive(queue=queue, job_id=ids[0]).taken == 1
    assert ack(connection, job) is True
    end(other, commits)
    # the redriven one comes after the one that was brought up meanwhile
    assert given(connection, queue, 2) == ([ids[2], ids[0], ids[3]] if commits else ids[2:])


@END
def test_the_last_end_beside_an_open_redrive(
    connect: Connect, connection: Session, commits: bool
) -> None:
    queue = ordered_queue(connection)
    ids = [add(connection, queue) for _ in range(2)]
    assert connection.reject_job(**held(claim_one(connection, queue))) is True
    job = claim_one(connection, queue)
    other = connect()
    assert other.redrive(queue=queue, job_id=ids[0]).taken == 1
    assert ack(connection, job) is True
    end(other, commits)
    assert given(connection, queue, int(commits)) == ids[:1] * commits


@END
def test_an_enqueue_beside_an_open_redrive(
    connect: Connect, connection: Session, commits: bool
) -> None:
    queue = ordered_queue(connection)
    first = add(connection, queue)
    assert connection.reject_job(**held(claim_one(connection, queue))) is True
    other, writer = connect(), connect(autocommit=True)
    assert other.redrive(queue=queue, all_jobs=True).taken == 1
    future = blocked(connection, writer, lambda: add(writer, queue))
    end(other, commits)
    number = future.result(30)
    assert given(connection, queue, 1) == ([first, number] if commits else [number])
