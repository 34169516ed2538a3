"""ack_batch: of the jobs named, those that are the caller's end; the answer names them."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from support.clock import Clock
from support.queue import claim, enqueue_many, new_queue, stats
from support.session import Connect, Session, contents, refused, row, unchanged


def ack(connection: Session, ids: list[int], token: UUID) -> list[int]:
    rows = connection.ack_batch(job_ids=ids, lease_token=token)
    return sorted(job_id for (job_id,) in rows)


def test_all_of_a_claim(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 5)
    token = claim(connection, queue, 5)[0].lease_token
    assert ack(connection, ids, token) == ids
    assert ack(connection, ids, token) == []
    assert stats(connection, queue) == {}
    assert connection.execute(
        "select job_id, outcome, payload, attempt from pgq.archived_jobs"
        " where queue = %s order by job_id",
        [queue],
    ).fetchall() == [(job_id, "acked", n, 1) for n, job_id in enumerate(ids)]


def test_only_those_of_the_token(connection: Session, queue: str, clock: Clock) -> None:
    """Not those of another worker, those that are finished, lost, unclaimed or unknown."""
    ids = enqueue_many(connection, queue, 6)
    token = claim(connection, queue, 4)[0].lease_token
    other = claim(connection, queue, 1)[0].lease_token
    connection.ack(job_id=ids[0], lease_token=token)
    connection.nack(job_id=ids[1], lease_token=token, delay="0")
    assert ack(connection, [*ids, ids[2], -1], token) == [ids[2], ids[3]]
    assert stats(connection, queue) == {"leased": 1, "ready": 2}
    clock.advance("31 seconds")
    claim(connection, queue, 10)
    assert ack(connection, [ids[4]], other) == []


def test_archive_switched_off(connection: Session) -> None:
    queue = new_queue(connection, archive=False)
    ids = enqueue_many(connection, queue, 3)
    assert ack(connection, ids, claim(connection, queue, 3)[0].lease_token) == ids
    assert row(connection, "select count(*) from pgq.archived_jobs where queue = %s", [queue]) == (
        0,
    )


def test_jobs_of_several_queues(connection: Session) -> None:
    """One token is of one claim, so of one queue: the other queue's jobs stay."""
    queues = [new_queue(connection, archive=keep) for keep in (True, False)]
    ids = [enqueue_many(connection, queue, 2) for queue in queues]
    tokens = [claim(connection, queue, 2)[0].lease_token for queue in queues]
    assert ack(connection, ids[0] + ids[1], tokens[0]) == ids[0]
    assert stats(connection, queues[1]) == {"leased": 2}


def test_none(connection: Session) -> None:
    before = contents(connection)
    assert ack(connection, [], uuid4()) == []
    assert contents(connection) == before


@pytest.mark.parametrize(
    ("sqlstate", "bad"),
    [
        ("22004", {"job_ids": None}),
        ("22004", {"job_ids": "null"}),
        ("22004", {"lease_token": None}),
        ("22023", {"job_ids": [[1], [2]]}),
    ],
)
def test_refusals(connection: Session, queue: str, sqlstate: str, bad: dict[str, Any]) -> None:
    """One null among the ids refuses them all."""
    ids = enqueue_many(connection, queue, 2)
    token = claim(connection, queue, 2)[0].lease_token
    if bad.get("job_ids") == "null":
        bad = {"job_ids": [*ids, None]}
    with unchanged(connection):
        refused(sqlstate, connection.ack_batch, **{"job_ids": ids, "lease_token": token, **bad})


def test_twice_in_one_transaction_and_rolled_back(
    connect: Connect, connection: Session, queue: str
) -> None:
    ids = enqueue_many(connection, queue, 4)
    token = claim(connection, queue, 4)[0].lease_token
    session = connect()
    assert ack(session, ids[:2], token) == ids[:2]
    assert ack(session, ids, token) == ids[2:]
    session.rollback()
    assert stats(connection, queue) == {"leased": 4}
