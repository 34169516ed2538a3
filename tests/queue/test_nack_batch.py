"""nack_batch: of the jobs named, those that are the caller's go back; the answer names them."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from support.clock import Clock
from support.queue import claim, enqueue_many, new_queue, stats
from support.session import Connect, Session, contents, refused, unchanged


def nack(connection: Session, ids: list[int], token: UUID, **options: Any) -> list[int]:
    rows = connection.nack_batch(job_ids=ids, lease_token=token, **options)
    return sorted(job_id for (job_id,) in rows)


def test_all_of_a_claim(connection: Session, queue: str, clock: Clock) -> None:
    ids = enqueue_many(connection, queue, 5)
    token = claim(connection, queue, 5)[0].lease_token
    assert nack(connection, ids, token, delay="1 minute", error="no luck") == ids
    assert nack(connection, ids, token) == []
    assert stats(connection, queue) == {"delayed": 5}
    assert connection.execute(
        "select distinct last_error from pgq.job where job_id = any(%s)", [ids]
    ).fetchall() == [("no luck",)]
    clock.advance("61 seconds")
    assert {job.attempt for job in claim(connection, queue, 10)} == {2}


def test_each_by_its_own_attempts(connection: Session, clock: Clock) -> None:
    """Some have attempts left and wait as long as their number says, the others die."""
    queue = new_queue(connection, max_attempts=2)
    old = enqueue_many(connection, queue, 2)
    claim(connection, queue, 2)
    clock.advance("31 seconds")
    fresh = enqueue_many(connection, queue, 2)
    token = claim(connection, queue, 4)[0].lease_token
    assert nack(connection, old + fresh, token, error="bad") == old + fresh
    assert stats(connection, queue) == {"delayed": 2, "dead": 2}
    assert connection.execute(
        "select job_id, attempt, last_error from pgq.dead_letters where queue = %s order by 1",
        [queue],
    ).fetchall() == [(job_id, 2, "bad") for job_id in old]
    clock.advance("1 second")
    assert sorted(job.job_id for job in claim(connection, queue, 10)) == fresh


def test_only_those_of_the_token(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 5)
    token = claim(connection, queue, 3)[0].lease_token
    claim(connection, queue, 1)
    connection.ack(job_id=ids[0], lease_token=token)
    assert nack(connection, [*ids, ids[1], -1], token, delay="0") == ids[1:3]
    assert stats(connection, queue) == {"ready": 3, "leased": 1}


def test_none(connection: Session) -> None:
    before = contents(connection)
    assert nack(connection, [], uuid4()) == []
    assert contents(connection) == before


@pytest.mark.parametrize(
    ("sqlstate", "bad"),
    [
        ("22004", {"job_ids": None}),
        ("22004", {"job_ids": [1, None]}),
        ("22004", {"lease_token": None}),
        ("22023", {"job_ids": [[1], [2]]}),
        ("22023", {"delay": "-1 second"}),
        ("22023", {"delay": "36501 days"}),
    ],
)
def test_refusals(connection: Session, queue: str, sqlstate: str, bad: dict[str, Any]) -> None:
    ids = enqueue_many(connection, queue, 2)
    token = claim(connection, queue, 2)[0].lease_token
    with unchanged(connection):
        refused(sqlstate, connection.nack_batch, **{"job_ids": ids, "lease_token": token, **bad})


def test_twice_in_one_transaction_and_rolled_back(connect: Connect, connection: Session) -> None:
    queue = new_queue(connection, max_attempts=1)
    ids = enqueue_many(connection, queue, 4)
    token = claim(connection, queue, 4)[0].lease_token
    session = connect()
    assert nack(session, ids[:2], token) == ids[:2]
    assert nack(session, ids, token) == ids[2:]
    session.rollback()
    assert stats(connection, queue) == {"leased": 4}
