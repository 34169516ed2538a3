"""on_duplicate: two sessions and one key. The newest content is always worked on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.clock import Clock
from support.duplicates import BACK, put, replacing, twice
from support.queue import Job, ack, claim, claim_one, stats
from support.session import Connect, Session
from support.snapshots import LEVELS, TRY_AGAIN, answer_of, old_session, second_answer_of
from support.unique import keys_of, loose_keys
from support.waiting import blocked, results, started

READ_COMMITTED = "read committed"
ALL_LEVELS = [READ_COMMITTED, *LEVELS]
END = pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
LEVEL = pytest.mark.parametrize("level", ALL_LEVELS)
KIND = pytest.mark.parametrize("kind", ["replace", "postpone"])
CLAIMS: dict[str, Callable[[Session, str], list[Job]]] = {
    "one": lambda session, queue: claim(session, queue),
    "many": lambda session, queue: claim(session, queue, 9),
    "finish_and_claim": lambda session, queue: [
        Job(**job._asdict()) for job in session.finish_and_claim(queue=queue)
    ],
}
HOW = pytest.mark.parametrize("how", CLAIMS)


@pytest.fixture
def connection(shared_connect: Connect) -> Session:
    return shared_connect(autocommit=True)


@pytest.fixture
def connect(shared_connect: Connect) -> Connect:
    return shared_connect


def end(session: Session, commits: bool) -> None:
    session.commit() if commits else session.rollback()


def payloads(jobs: list[Job]) -> list[Any]:
    return [job.payload for job in jobs]


@END
@LEVEL
@KIND
def test_two_duplicates(
    connect: Connect, connection: Session, kind: str, level: str, commits: bool
) -> None:
    """The second waits for the first, and its content counts."""
    queue = replacing(connection, kind)
    first, _ = put(connection, queue, "old")
    one, other = connect(), connect(isolation_level=level)
    assert put(one, queue, "one") == (first, True)
    future = blocked(
        connection, other, lambda: answer_of(other, lambda: put(other, queue, "other"))
    )
    end(one, commits)
    answer = future.result(30)
    if answer == TRY_AGAIN:
        assert commits
        assert level != READ_COMMITTED
        answer = answer_of(other, lambda: put(other, queue, "other"))
    assert answer == (first, True)
    assert payloads(claim(connection, queue, 9)) == ["other"]


@END
@LEVEL
@KIND
@HOW
def test_a_claim_beside_an_open_duplicate(
    connect: Connect, connection: Session, how: str, kind: str, level: str, commits: bool
) -> None:
    """It passes the job, waits for nobody, and gets the content that counts afterwards."""
    queue = replacing(connection, kind)
    put(connection, queue, "old")
    put(connection, queue, "other", "other")
    one, worker = connect(), connect(isolation_level=level)
    put(one, queue, "new")
    worker.execute("set lock_timeout = '1s'")
    worker.commit()
    assert payloads(CLAIMS[how](worker, queue)) == ["other"]
    worker.commit()
    assert CLAIMS[how](connection, queue) == []
    end(one, commits)
    found = second_answer_of(worker, lambda: CLAIMS[how](worker, queue))
    assert payloads(found) == ["new" if commits else "old"]


@END
@LEVEL
@KIND
@HOW
def test_a_duplicate_beside_an_open_claim(
    connect: Connect, connection: Session, how: str, kind: str, level: str, commits: bool
) -> None:
    """It waits; then it is a job of its own, or replaces what was given back."""
    queue = replacing(connection, kind)
    old, _ = put(connection, queue, "old")
    worker, other = connect(), connect(isolation_level=level)
    assert payloads(CLAIMS[how](worker, queue)) == ["old"]
    future = blocked(
        connection, other, lambda: second_answer_of(other, lambda: put(other, queue, "new"))
    )
    end(worker, commits)
    new, duplicate = future.result(30)
    assert duplicate is not commits
    assert (new == old) is duplicate
    assert payloads(claim(connection, queue, 9)) == ["new"]
    assert loose_keys(connection) == 0


@pytest.mark.parametrize("level", LEVELS)
@KIND
@HOW
@pytest.mark.parametrize("ttl", [{}, {"no_limit": ["job_ttl"]}], ids=["ttl", "no ttl"])
def test_a_claim_with_an_old_snapshot(
    connect: Connect, connection: Session, ttl: dict[str, Any], how: str, kind: str, level: str
) -> None:
    """40001, or nothing: never the content that was replaced."""
    queue = replacing(connection, kind, **ttl)
    put(connection, queue, "old")
    worker = old_session(connect, level)
    put(connection, queue, "new")
    answer = answer_of(worker, lambda: CLAIMS[how](worker, queue))
    assert answer in (TRY_AGAIN, [])
    assert payloads(answer_of(worker, lambda: CLAIMS[how](worker, queue))) == ["new"]


@pytest.mark.parametrize("level", LEVELS)
@KIND
@pytest.mark.parametrize("since", ["replaced", "claimed", "acked", "came back"])
def test_a_duplicate_with_an_old_snapshot(
    connect: Connect, connection: Session, since: str, kind: str, level: str
) -> None:
    """It is stored after what has happened since, or gets 40001."""
    queue = replacing(connection, kind)
    put(connection, queue, "old")
    session = old_session(connect, level)
    if since == "replaced":
        put(connection, queue, "newer")
    else:
        job = claim_one(connection, queue)
        if since == "acked":
            assert ack(connection, job)
        elif since == "came back":
            assert BACK["nack"](connection, job)
    second_answer_of(session, lambda: put(session, queue, "newest"))
    assert payloads(claim(connection, queue, 9)) == ["newest"]
    assert loose_keys(connection) == 0


@END
@LEVEL
@pytest.mark.parametrize("way", ["nack", "release_job", "nack_batch"])
def test_coming_back_beside_an_open_enqueue(
    connect: Connect, connection: Session, way: str, level: str, commits: bool
) -> None:
    """It waits for the newer one: replaced if that is there then, else it has the key again."""
    queue = replacing(connection)
    old, _ = put(connection, queue, "old")
    job = claim_one(connection, queue)
    one, worker = connect(), connect(isolation_level=level)
    new, duplicate = put(one, queue, "new")
    assert duplicate is False
    future = blocked(
        connection, worker, lambda: second_answer_of(worker, lambda: BACK[way](worker, job))
    )
    end(one, commits)
    assert future.result(30)
    assert keys_of(connection, queue) == {"k": new if commits else old}
    assert stats(connection, queue) == {"ready": 1}
    assert payloads(claim(connection, queue, 9)) == ["new" if commits else "old"]


@END
@LEVEL
@KIND
def test_coming_back_beside_an_open_duplicate(
    connect: Connect, connection: Session, kind: str, level: str, commits: bool
) -> None:
    """The holder had come back itself, and gets the newest content just then."""
    queue = replacing(connection, kind)
    job, _ = twice(connection, queue)
    newer = claim_one(connection, queue)
    assert BACK["nack"](connection, job)
    one, worker = connect(), connect(isolation_level=level)
    assert put(one, queue, "newest") == (job.job_id, True)
    future = started(
        connection, worker, lambda: second_answer_of(worker, lambda: BACK["nack"](worker, newer))
    )
    end(one, commits)
    assert future.result(30)
    found = payloads(claim(connection, queue, 9))
    assert sorted(found) == (["newest"] if commits else ["new", "old"])


@END
@LEVEL
@HOW
def test_a_lost_lease_beside_an_open_enqueue(
    connect: Connect,
    connection: Session,
    shared_clock: Clock,
    how: str,
    level: str,
    commits: bool,
) -> None:
    """Nobody waits: the older one is tried again, and the newer one comes as well."""
    queue = replacing(connection)
    put(connection, queue, "old")
    claim_one(connection, queue)
    shared_clock.advance("31 seconds")
    one, worker = connect(), connect(isolation_level=level)
    put(one, queue, "new")
    worker.execute("set lock_timeout = '1s'")
    worker.commit()
    assert payloads(answer_of(worker, lambda: CLAIMS[how](worker, queue))) == ["old"]
    end(one, commits)
    assert payloads(claim(connection, queue, 9)) == (["new"] if commits else [])


@END
@LEVEL
@HOW
def test_a_lost_lease_since_the_snapshot(
    connect: Connect,
    connection: Session,
    shared_clock: Clock,
    how: str,
    level: str,
    commits: bool,
) -> None:
    """Two claims meet the older one: one ends it, and the other one gets what is left."""
    queue = replacing(connection)
    twice(connection, queue, "31 seconds")
    shared_clock.advance("32 seconds")
    one, worker = connect(), old_session(connect, level)
    assert payloads(CLAIMS[how](one, queue)) == ["new"]
    assert answer_of(worker, lambda: CLAIMS[how](worker, queue)) == []
    end(one, commits)
    found = second_answer_of(worker, lambda: CLAIMS[how](worker, queue))
    assert payloads(found) == ([] if commits else ["new"])


@KIND
def test_batches_in_other_orders(connect: Connect, connection: Session, kind: str) -> None:
    """They wait for each other and do not deadlock; the second counts, for every key."""
    queue = replacing(connection, kind)
    for key in "cab":
        put(connection, queue, "old", key)
    holder, one, other = connect(), connect(), connect()
    put(holder, queue, "held", "b")

    def add(session: Session, name: str, keys: str) -> Any:
        return answer_of(
            session,
            lambda: session.enqueue_batch(
                queue=queue, payloads=[f'"{name}"'] * len(keys), unique_keys=[*keys]
            ),
        )

    first = blocked(connection, one, lambda: add(one, "one", "abcd"))
    second = blocked(connection, other, lambda: add(other, "other", "dcba"))
    holder.commit()
    results(first, second)
    found = claim(connection, queue, 9)
    assert len(found) == 4
    assert set(payloads(found)) == {"other"}
    assert loose_keys(connection) == 0
