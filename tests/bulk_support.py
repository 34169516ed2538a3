"""What the tests of bulk writes share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import pytest

from log_support import aside, new_name
from pgq import Client
from support import backend_pid, wait_until_blocked

Result = TypeVar("Result")

__all__ = [
    "MODES",
    "NOBODY",
    "begin",
    "blocked",
    "contents_of",
    "new_queue",
    "new_topic",
    "numbers",
    "pack",
    "stage",
    "staged",
    "waiting",
]

MODES = pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
"""For tests that hold for both kinds of writes."""

NOBODY = UUID("00000000-0000-0000-0000-000000000000")
"""The id of no write."""


def pack(contents: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """The contents of a chunk as write_chunk takes them."""
    return b"".join(contents), [len(content) for content in contents]


def numbers(first: int, last: int) -> list[bytes]:
    """Contents that are told apart."""
    return [str(number).encode() for number in range(first, last + 1)]


def new_topic(client: Client, partitions: int = 1) -> str:
    """A new topic."""
    return client.create_topic(new_name("bulk"), partitions=partitions).topic


def new_queue(client: Client) -> str:
    """A new queue."""
    return client.create_queue(new_name("bulk")).queue


def begin(client: Client, **target: Any) -> UUID:
    """Begin a write and return its id."""
    return client.begin_write(**target).write_id


def stage(
    client: Client,
    write_id: UUID,
    contents: Sequence[bytes],
    *,
    json: bool = False,
    task: int = 0,
    attempt: str = "first",
    chunk: int = 0,
    last_chunk: bool = True,
    **more: Any,
) -> bool:
    """Write one chunk of bytes or JSON, the only one of its task unless said otherwise."""
    packed, lengths = pack(contents)
    more["packed_payloads" if json else "packed_bodies"] = packed
    return client.write_chunk(
        write_id, task, attempt, chunk, lengths, last_chunk=last_chunk, **more
    )


def contents_of(client: Client, topic: str) -> dict[int, list[Any]]:
    """What each partition that has something holds, in the order of offsets."""
    found = {}
    for place in client.list_offsets(topic):
        messages = client.fetch_range(topic, place.partition, place.first_offset, place.last_offset)
        if messages:
            found[place.partition] = [
                message.payload if message.body is None else message.body for message in messages
            ]
    return found


def waiting(client: Client, queue: str) -> list[Any]:
    """The contents of the jobs of a queue, in the order of claims; they are claimed by this."""
    jobs = client.claim_job(queue, max_jobs=1000)
    return [job.payload if job.body is None else job.body for job in jobs]


def staged(connection: psycopg.Connection[Any], write_id: UUID | None = None) -> int:
    """How many rows are staged, of one write or of all."""
    row = connection.execute(
        """
        select count(*)
        from (
            select write_id from pgq.staged_write
            union all select write_id from pgq.staged_task
            union all select write_id from pgq.staged_chunk
        ) as s
        where s.write_id = coalesce(%s, s.write_id)
        """,
        [write_id],
    ).fetchone()
    assert row is not None
    return int(row[0])


def blocked(observer: Client, waiter: Client, work: Callable[[], Result]) -> Future[Result]:
    """Run something on the waiter's connection and return once it waits for a lock."""
    future = aside(work)
    wait_until_blocked(observer.connection, backend_pid(waiter.connection))
    assert not future.done()
    return future
