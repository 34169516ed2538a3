"""archive_job_batch: the jobs named that are the caller's end with one outcome and result."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from support.queue import claim, enqueue_many, new_queue, stats
from support.session import Connect, Session, contents, refused, unchanged


def archive(connection: Session, ids: list[int], token: UUID, **options: Any) -> list[int]:
    rows = connection.archive_job_batch(job_ids=ids, lease_token=token, **options)
    return sorted(job_id for (job_id,) in rows)


@pytest.mark.parametrize("setting", [True, False])
def test_outcome_and_result(connection: Session, setting: bool) -> None:
    queue = new_queue(connection, archive=setting)
    ids = enqueue_many(connection, queue, 4)
    token = claim(connection, queue, 4)[0].lease_token
    assert archive(connection, ids[:2], token) == ids[:2]
    assert archive(connection, ids, token, outcome="done", result=Jsonb([1])) == ids[2:]
    assert archive(connection, ids, token) == []
    assert connection.execute(
        "select job_id, outcome, result, payload from pgq.archived_jobs"
        " where queue = %s order by job_id",
        [queue],
    ).fetchall() == [
        (ids[0], "archived", None, 0),
        (ids[1], "archived", None, 1),
        (ids[2], "done", [1], 2),
        (ids[3], "done", [1], 3),
    ]
    assert stats(connection, queue) == {}


def test_null_is_the_default(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 2)
    token = claim(connection, queue, 2)[0].lease_token
    assert archive(connection, ids, token, outcome=None, result=None) == ids
    assert (
        connection.execute(
            "select outcome, result from pgq.archived_jobs where queue = %s", [queue]
        ).fetchall()
        == [("archived", None)] * 2
    )


def test_only_those_of_the_token(connection: Session, queue: str) -> None:
    ids = enqueue_many(connection, queue, 4)
    token = claim(connection, queue, 2)[0].lease_token
    claim(connection, queue, 1)
    connection.ack(job_id=ids[0], lease_token=token)
    assert archive(connection, [*ids, ids[1], -1], token) == [ids[1]]
    assert stats(connection, queue) == {"leased": 1, "ready": 1}


def test_none(connection: Session) -> None:
    before = contents(connection)
    assert archive(connection, [], uuid4()) == []
    assert contents(connection) == before


@pytest.mark.parametrize(
    ("sqlstate", "bad"),
    [
        ("22004", {"job_ids": None}),
        ("22004", {"job_ids": [1, None]}),
        ("22004", {"lease_token": None}),
        ("22023", {"job_ids": [[1], [2]]}),
        ("22023", {"outcome": ""}),
        ("22023", {"outcome": "x" * 64}),
        ("22023", {"outcome": "acked"}),
        ("22023", {"outcome": "expired"}),
        ("22023", {"outcome": "cancelled"}),
    ],
)
def test_refusals(connection: Session, queue: str, sqlstate: str, bad: dict[str, Any]) -> None:
    ids = enqueue_many(connection, queue, 2)
    token = claim(connection, queue, 2)[0].lease_token
    good = {"job_ids": ids, "lease_token": token}
    with unchanged(connection):
        refused(sqlstate, connection.archive_job_batch, **{**good, **bad})


def test_twice_in_one_transaction_and_rolled_back(
    connect: Connect, connection: Session, queue: str
) -> None:
    ids = enqueue_many(connection, queue, 4)
    token = claim(connection, queue, 4)[0].lease_token
    session = connect()
    assert archive(session, ids[:2], token) == ids[:2]
    assert archive(session, ids, token) == ids[2:]
    session.rollback()
    assert stats(connection, queue) == {"leased": 4}
