"""What the tests of bulk writes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg
import pytest

from support.session import Session

__all__ = [
    "MODES",
    "NOBODY",
    "begin",
    "contents_of",
    "numbers",
    "pack",
    "runs",
    "stage",
    "stage_long",
    "staged",
    "waiting",
]

MODES = pytest.mark.parametrize("atomic", [True, False], ids=["atomic", "not atomic"])
"""For tests that hold for both kinds of writes."""

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


def begin(session: Session, **target: Any) -> UUID:
    """Begin a write and return its id."""
    return session.begin_write(**target).write_id


def stage(
    session: Session,
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
    return session.write_chunk(
        write_id=write_id,
        task=task,
        task_attempt=attempt,
        chunk=chunk,
        lengths=lengths,
        last_chunk=last_chunk,
        **more,
    )


def stage_long(
    session: Session,
    write_id: UUID,
    contents: Sequence[bytes],
    *,
    chunks: int = 2,
    keys: Sequence[str | None] | None = None,
    **more: Any,
) -> None:
    """Write the contents as a task of several chunks, whose messages are stored as runs."""
    size = -(-len(contents) // chunks)
    for chunk in range(chunks):
        part = slice(chunk * size, (chunk + 1) * size)
        given = more if keys is None else {**more, "keys": list(keys[part])}
        stage(
            session,
            write_id,
            contents[part],
            chunk=chunk,
            last_chunk=chunk == chunks - 1,
            **given,
        )


def runs(session: Session, topic: str) -> list[tuple[int, int]]:
    """Which runs there are in the log of a topic: the partition and first offset of each."""
    return session.execute(
        "select p.partition, r.first_offset from pgq.segment_range as r"
        " inner join pgq.partition as p on p.partition_id = r.partition_id"
        " where p.topic = %s and r.published_at is not null order by p.partition, r.first_offset",
        [topic],
    ).fetchall()


def contents_of(session: Session, topic: str) -> dict[int, list[Any]]:
    """What each partition that has something holds, in the order of offsets."""
    found = {}
    for place in session.list_offsets(topic=topic):
        messages = session.fetch_range(
            topic=topic,
            partition=place.partition,
            first_offset=place.first_offset,
            last_offset=place.last_offset,
        )
        if messages:
            found[place.partition] = [
                message.payload if message.body is None else message.body for message in messages
            ]
    return found


def waiting(session: Session, queue: str) -> list[Any]:
    """The contents of the jobs of a queue, in the order of claims; they are claimed by this."""
    jobs = session.claim_job(queue=queue, max_jobs=1000)
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
            union all select write_id from pgq.staged_extent
        ) as s
        where s.write_id = coalesce(%s, s.write_id)
        """,
        [write_id],
    ).fetchone()
    assert row is not None
    return int(row[0])
