"""search_jobs and list_errors: what they find, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from support.queue import claim_one, enqueue, new_queue
from support.session import Session, refused


def found(session: Session, queue: str, **wanted: Any) -> list[Any]:
    """The contents of the jobs that are found."""
    return [job.payload for job in session.search_jobs(queue=queue, **wanted)]


def test_jobs_by_filter(connection: Session) -> None:
    """The newest first; those of other queues are not found, nor is another state."""
    queue, other = new_queue(connection), new_queue(connection)
    for n in range(4):
        enqueue(connection, queue, n, label="ab"[n % 2], delay="1 hour" if n == 3 else None)
        enqueue(connection, other, -1, label="a")
    assert found(connection, queue) == [3, 2, 1, 0]
    assert found(connection, queue, label="a") == [2, 0]
    assert found(connection, queue, label="b", state="ready") == [1]
    assert found(connection, queue, state="delayed") == [3]
    assert found(connection, queue, due_since="infinity") == []
    assert found(connection, queue, max_jobs=2) == [3, 2]
    job = claim_one(connection, queue)
    assert found(connection, queue, state="leased") == [job.payload] == [0]
    connection.nack(job_id=job.job_id, lease_token=job.lease_token, error="100% full")
    assert found(connection, queue, error_contains="0% f") == [0]
    assert found(connection, queue, error_contains="0_ f") == []
    job_id = enqueue(connection, queue, 9)
    shown = connection.execute("select * from pgq.search_jobs(%s, max_jobs => 1)", [queue])
    assert (
        shown.fetchall() == connection.execute("select * from pgq.get_job(%s)", [job_id]).fetchall()
    )


def test_jobs_of_a_key(connection: Session) -> None:
    queue = new_queue(connection, ordered=True)
    for n, key in enumerate("aba"):
        enqueue(connection, queue, n, key=key)
    assert found(connection, queue, key="a") == [2, 0]
    assert found(connection, queue, key="a", state="waiting") == [2]
    refused("22023", connection.search_jobs, queue=new_queue(connection), key="a")


def test_errors(connection: Session) -> None:
    """By their last line, the largest group first; no error is a group too."""
    queue = new_queue(connection, max_attempts=1)
    for error in ("a\nlast", "b\nlast \n", "last", None, "x" * 400):
        enqueue(connection, queue, 1)
        job = claim_one(connection, queue)
        connection.nack(job_id=job.job_id, lease_token=job.lease_token, error=error)
    letters = connection.fetch_dead_letters(queue=queue)
    errors = connection.list_errors(queue=queue)
    assert [(one.error, one.dead_letters) for one in errors] == [
        ("last", 3),
        ("x" * 300, 1),
        (None, 1),
    ]
    assert (errors[0].oldest_at, errors[0].newest_at) == (letters[0].died_at, letters[2].died_at)
    newest = connection.list_errors(queue=queue, max_jobs=2)
    assert [one.error for one in newest] == ["x" * 300, None]


@pytest.mark.parametrize(
    ("function", "arguments", "code"),
    [
        ("search_jobs", {"queue": "nowhere"}, "MQ002"),
        ("search_jobs", {"queue": None}, "22004"),
        ("search_jobs", {"max_jobs": 0}, "22023"),
        ("search_jobs", {"max_jobs": 10001}, "22023"),
        ("search_jobs", {"state": "dead"}, "22023"),
        ("search_jobs", {"error_contains": ""}, "22023"),
        ("list_errors", {"queue": "nowhere"}, "MQ002"),
        ("list_errors", {"queue": None}, "22004"),
        ("list_errors", {"max_jobs": 0}, "22023"),
        ("list_errors", {"max_jobs": 1000001}, "22023"),
    ],
)
def test_mistakes(connection: Session, function: str, arguments: dict[str, Any], code: str) -> None:
    refused(code, getattr(connection, function), **{"queue": new_queue(connection), **arguments})
