"""extend_lease_batch: the jobs named that the caller still has are kept; the answer names them."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from support.clock import Clock
from support.queue import claim, enqueue_many, new_queue, stats
from support.session import Connect, Session, contents, refused, unchanged


def extend(connection: Session, ids: list[int], token: UUID, **options: Any) -> list[int]:
    rows = connection.extend_lease_batch(job_ids=ids, lease_token=token, **options)
    return sorted(job_id for (job_id,) in rows)


def test_all_of_a_claim(connection: Session, queue: str, clock: Clock) -> None:
    ids = enqueue_many(connection, queue, 5)
    token = claim(connection, queue, 5)[0].lease_token
    clock.advance("20 seconds")
    assert extend(connection, ids, token) == ids
    clock.advance("20 seconds")
    assert extend(connection, ids, token, lease="1 minute") == ids
    clock.advance("40 seconds")
    assert claim(connection, queue, 10) == []
    clock.advance("21 seconds")
    assert extend(connection, ids, token) == []
    assert stats(connection, queue) == {"ready": 5}


@pytest.mark.parametrize("lease", ["5 seconds", "1 microsecond", None])
def test_it_never_shortens(connection: Session, clock: Clock, lease: str | None) -> None:
    """Each job keeps what it has, where that is longer, whatever the lease of the queue is now."""
    queue = new_queue(connection, lease="1 minute")
    short, long = enqueue_many(connection, queue, 2)
    jobs = claim(connection, queue, 2)
    token = jobs[0].lease_token
    assert extend(connection, [long], token, lease="2 hours") == [long]
    connection.alter_queue(queue=queue, lease="1 second")
    clock.advance("40 seconds")
    assert extend(connection, [long, short], token, lease=lease) == [short, long]
    clock.advance("15 seconds")
    assert claim(connection, queue, 10) == []
    clock.advance("6 seconds")
    # whose lease has run out is refused all the same
    assert extend(connection, [long, short], token, lease=lease) == [long]
    assert [job.job_id for job in claim(connection, queue, 10)] == [short]
    clock.advance("2 hours")
    assert [job.job_id for job in claim(connection, queue, 10)][-1] == long


def test_only_those_of_the_token(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 5)
    token = claim(connection, queue, 3)[0].lease_token
    claim(connection, queue, 1)
    connection.ack(job_id=ids[0], lease_token=token)
    connection.nack(job_id=ids[1], lease_token=token, delay="0")
    assert extend(connection, [*ids, ids[2], -1], token) == [ids[2]]


def test_none(connection: Session) -> None:
    before = contents(connection)
    assert extend(connection, [], uuid4()) == []
    assert contents(connection) == before


@pytest.mark.parametrize(
    ("sqlstate", "bad"),
    [
        ("22004", {"job_ids": None}),
        ("22004", {"job_ids": [1, None]}),
        ("22004", {"lease_token": None}),
        ("22023", {"job_ids": [[1], [2]]}),
        ("22023", {"lease": "0"}),
        ("22023", {"lease": "-1 second"}),
        ("22023", {"lease": "36501 days"}),
    ],
)
def test_refusals(connection: Session, queue: str, sqlstate: str, bad: dict[str, Any]) -> None:
    ids = enqueue_many(connection, queue, 2)
    token = claim(connection, queue, 2)[0].lease_token
    good = {"job_ids": ids, "lease_token": token}
    with unchanged(connection):
        refused(sqlstate, connection.extend_lease_batch, **{**good, **bad})


def test_twice_in_one_transaction_and_rolled_back(
    connect: Connect, connection: Session, queue: str, clock: Clock
) -> None:
    ids = enqueue_many(connection, queue, 2)
    token = claim(connection, queue, 2)[0].lease_token
    session = connect()
    for _ in range(2):
        assert extend(session, ids, token, lease="1 hour") == ids
    session.rollback()
    clock.advance("31 seconds")
    assert stats(connection, queue) == {"ready": 2}
