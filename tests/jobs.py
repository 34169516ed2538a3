"""What tests of the queue share: calls with named arguments, and jobs as objects."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

__all__ = [
    "AnyConnection",
    "Connect",
    "Job",
    "call",
    "claim",
    "claim_one",
    "cleanup",
    "enqueue",
    "enqueue_many",
    "failure",
    "new_name",
    "new_queue",
    "refused",
    "row",
    "settings",
    "stats",
    "stored",
    "value",
]

AnyConnection = psycopg.Connection[Any]
Connect = Callable[..., AnyConnection]

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Job:
    """A row of claim_job."""

    job_id: int
    lease_token: UUID
    attempt: int
    leased_until: datetime
    enqueued_at: datetime
    priority: int
    key: str | None
    label: str | None
    headers: Any
    payload: Any
    body: bytes | None


def _statement(function: str, arguments: dict[str, Any]) -> sql.Composed:
    return sql.SQL("select * from pgq.{}({})").format(
        sql.Identifier(function),
        sql.SQL(", ").join(
            sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name))
            for name in arguments
        ),
    )


def call(connection: AnyConnection, function: str, /, **arguments: Any) -> list[tuple[Any, ...]]:
    """All rows of a function, by named arguments."""
    return connection.execute(_statement(function, arguments), arguments).fetchall()


def value(connection: AnyConnection, function: str, /, **arguments: Any) -> Any:
    """The one value that a function returns."""
    [[result]] = call(connection, function, **arguments)
    return result


def claim(connection: AnyConnection, queue: str, max_jobs: int = 1, **options: Any) -> list[Job]:
    """Claim jobs."""
    arguments = {"queue": queue, "max_jobs": max_jobs, **options}
    with connection.cursor(row_factory=class_row(Job)) as cursor:
        return cursor.execute(_statement("claim_job", arguments), arguments).fetchall()


def claim_one(connection: AnyConnection, queue: str, **options: Any) -> Job:
    """Claim one job that must be there."""
    [job] = claim(connection, queue, **options)
    return job


def enqueue(connection: AnyConnection, queue: str, payload: Any = None, **options: Any) -> int:
    """Enqueue one job, with a JSON payload unless it has a body, and return its id."""
    if "headers" in options:
        options["headers"] = Jsonb(options["headers"])
    if "body" not in options:
        options["payload"] = Jsonb(payload)
    [[job_id, duplicate]] = call(connection, "enqueue", queue=queue, **options)
    assert isinstance(job_id, int)
    assert duplicate is False
    return job_id


def enqueue_many(connection: AnyConnection, queue: str, number: int, **options: Any) -> list[int]:
    """Enqueue jobs with the payloads 0, 1, 2 …, and return their ids."""
    payloads = [Jsonb(n) for n in range(number)]
    return [
        job_id
        for (job_id, _) in call(
            connection, "enqueue_batch", queue=queue, payloads=payloads, **options
        )
    ]


def new_name() -> str:
    """A name that no queue of this run has."""
    return f"queue-{next(_numbers)}"


def new_queue(connection: AnyConnection, **settings: Any) -> str:
    """A new queue, whose delays are not random unless asked for."""
    name = new_name()
    call(connection, "create_queue", **{"queue": name, "backoff_jitter": 0, **settings})
    return name


def row(connection: AnyConnection, query: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...]:
    """The one row of a query."""
    [found] = connection.execute(query.encode(), parameters).fetchall()
    assert isinstance(found, tuple)
    return found


def settings(connection: AnyConnection, queue: str) -> dict[str, Any]:
    """What list_queues shows of one queue."""
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute("select * from pgq.list_queues() where queue = %s", [queue])
        [found] = cursor.fetchall()
        return found


def stats(connection: AnyConnection, queue: str) -> dict[str, Any]:
    """The counts of queue_stats for one queue, by state."""
    columns = ("ready", "leased", "delayed", "expired", "dead")
    counts = row(
        connection,
        "select ready, leased, delayed, expired, dead from pgq.queue_stats where queue = %s",
        [queue],
    )
    return {name: count for name, count in zip(columns, counts, strict=True) if count}


def stored(connection: AnyConnection) -> tuple[Any, ...]:
    """A fingerprint of everything the queues hold."""
    tables = ("queue", "job", "dead_job", "job_archive", "message")
    return row(
        connection,
        "select "
        + ", ".join(
            f"(select md5(string_agg(t::text, ' ' order by t::text)) from pgq.{table} as t)"
            for table in tables
        ),
    )


def refused(connection: AnyConnection, sqlstate: str, function: str, /, **arguments: Any) -> None:
    """Assert that a call fails with this code and changes nothing; needs autocommit."""
    before = stored(connection)
    with pytest.raises(psycopg.Error) as caught:
        call(connection, function, **arguments)
    assert caught.value.sqlstate == sqlstate, f"{function} {arguments}: {caught.value}"
    assert stored(connection) == before, f"{function} {arguments}"


def failure(connection: AnyConnection, function: str, /, **arguments: Any) -> psycopg.Error:
    """The error that a call must end with."""
    with pytest.raises(psycopg.Error) as caught:
        call(connection, function, **arguments)
    return caught.value


def cleanup(connection: AnyConnection) -> list[tuple[str, str, int]]:
    """What one cleanup reports."""
    return [(action, target, amount) for action, target, amount in call(connection, "cleanup")]
