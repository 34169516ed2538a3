"""The view enqueue_rows: a row is a call of enqueue."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from support.bulk import waiting
from support.queue import new_queue
from support.session import Session, new_name

COLUMNS = (
    *("queue", "payload", "key", "headers", "delay", "run_at", "priority", "label"),
    *("idempotency_key", "unique_key", "max_attempts", "body"),
)


def insert(connection: Session, **row: Any) -> int:
    """Insert a row with all columns; null for what is not given."""
    values = [row.get(column) for column in COLUMNS]
    places = ", ".join(["%s"] * len(COLUMNS))
    statement = f"insert into pgq.enqueue_rows ({', '.join(COLUMNS)}) values ({places})"
    return connection.execute(statement.encode(), values).rowcount


def test_rows_become_jobs(connection: Session) -> None:
    """With all that a job has; null is the default."""
    queue = new_queue(connection)
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    assert insert(connection, queue=queue, payload="1", run_at=later) == 1
    insert(connection, queue=queue, payload="2", delay="1 hour")
    insert(connection, queue=queue, payload="3")
    more = {"label": "l", "key": "k", "headers": '{"h": 1}', "priority": 9, "delay": "0"}
    insert(connection, queue=queue, body=b"\x00", **more)
    first, second = connection.claim_job(queue=queue, max_jobs=10)
    assert (first.payload, first.priority, first.label) == (3, 0, None)
    assert (second.body, second.priority, second.label) == (b"\x00", 9, "l")
    assert (second.key, second.headers) == ("k", {"h": 1})
    assert connection.execute("select * from pgq.enqueue_rows").fetchall() == []


def test_a_row_that_comes_again(connection: Session) -> None:
    """By its idempotency key; the second one adds nothing."""
    queue = new_queue(connection)
    for payload in ("1", "2"):
        assert insert(connection, queue=queue, payload=payload, idempotency_key="a") == 1
    [job] = connection.claim_job(queue=queue, max_jobs=10)
    assert job.payload == 1


def test_a_row_of_a_unique_job(connection: Session) -> None:
    """There is one of its key, with the attempts that the first row gave it."""
    queue = new_queue(connection, max_attempts=5)
    for attempts in (1, 2):
        insert(connection, queue=queue, payload="1", unique_key="u", max_attempts=attempts)
    [job] = connection.claim_job(queue=queue, max_jobs=10)
    assert connection.get_job(job_id=job.job_id).max_attempts == 1


def test_errors_are_those_of_enqueue(connection: Session) -> None:
    """Nothing is swallowed."""
    queue = new_queue(connection)
    for sqlstate, row in (
        ("MQ002", {"queue": new_name("topic"), "payload": "1"}),
        ("22004", {"payload": "1"}),
        ("22004", {"queue": queue}),
        ("22023", {"queue": queue, "payload": "1", "body": b"1"}),
        ("22023", {"queue": queue, "payload": "1", "priority": 10}),
        ("22P02", {"queue": queue, "payload": "{"}),
        ("22007", {"queue": queue, "payload": "1", "delay": "soon"}),
    ):
        with pytest.raises(psycopg.Error) as caught:
            insert(connection, **row)
        assert caught.value.sqlstate == sqlstate, row
    assert waiting(connection, queue) == []
