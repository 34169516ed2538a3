"""What a task of the data source ``pgq`` writes: its rows as chunks, staged in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from pgq.errors import translated
from pgq.spark._digest import checksum
from pgq.spark._encode import Integers, Texts, register
from pgq.spark._pack import packer
from pgq.spark._route import Router
from pgq.spark._write_options import WriterOptions

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import LiteralString

__all__ = ["Part", "State", "begin_write", "commit_write", "send"]

_BEGIN = """
select write_id, messages, committed_at, duplicate
from pgq.begin_write(
    topic => %(topic)s::text,
    queue => %(queue)s::text,
    producer => %(producer)s::text,
    seq => %(seq)s::bigint,
    timeout => %(timeout)s::interval
)
"""

_COMMIT = """
select write_id, messages, committed_at, duplicate
from pgq.commit_write(
    %(write_id)s::uuid,
    expected_messages => %(expected)s::bigint,
    digest => %(digest)s::text
)
"""

_CHUNK = """
select pgq.write_chunk(
    write_id => %(write_id)s::uuid,
    task => %(task)s::integer,
    task_attempt => %(task_attempt)s::text,
    chunk => %(chunk)s::integer,
    lengths => %(lengths)b::integer[],
    packed_payloads => %(packed_payloads)b::bytea,
    keys => %(keys)b::text[],
    headers => %(headers)b::text[]::jsonb[],
    partition => %(partition)s::integer,
    delay => %(delay)s::interval,
    priority => %(priority)s::integer,
    labels => %(labels)b::text[],
    last_chunk => %(last_chunk)s::boolean,
    starts => %(starts)b::integer[],
    packed_bodies => %(packed_bodies)b::bytea
)
"""


@dataclass(frozen=True)
class State:
    """What the database says of a write."""

    write_id: str
    messages: int | None
    committed_at: datetime | None
    duplicate: bool
    """Whether it was committed before."""


def begin_write(
    connection: psycopg.Connection[Any],
    options: WriterOptions,
    *,
    topic: str | None = None,
    queue: str | None = None,
    producer: str | None = None,
    seq: int | None = None,
) -> State:
    """Begin a write."""
    parameters = {
        "topic": topic,
        "queue": queue,
        "producer": producer,
        "seq": seq,
        "timeout": options.timeout,
    }
    return _state(connection, _BEGIN, parameters)


def commit_write(
    connection: psycopg.Connection[Any],
    write_id: str,
    *,
    expected: int | None = None,
    digest: str | None = None,
) -> State:
    """Publish what was staged; with a digest, refuse another one than it was committed with."""
    parameters = {"write_id": write_id, "expected": expected, "digest": digest}
    return _state(connection, _COMMIT, parameters)


def _state(
    connection: psycopg.Connection[Any], query: LiteralString, parameters: dict[str, Any]
) -> State:
    row = connection.execute(query, parameters).fetchone()
    assert row is not None
    return State(str(row[0]), *row[1:])


@dataclass(frozen=True)
class Part:
    """What a task has staged for a topic, or for the queue, in one database."""

    shard: int
    target: str
    write_id: str
    rows: int
    checksums: int
    """The sum of the checksums of the contents."""


class Targeted(Protocol):
    """Rows that know where they go."""

    packed_contents: str
    """What the contents are in a chunk: packed_payloads (JSON) or packed_bodies."""

    def by_topic(self, batch: pyarrow.RecordBatch) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
        """The rows for each topic, or for the queue, as the packer takes them."""


def send(
    batches: Iterator[pyarrow.RecordBatch],
    rows: Targeted,
    options: WriterOptions,
    task: int,
) -> list[Part]:
    """Stage the rows of a task, all or nothing; in each database in one transaction.

    The task begins a write for each topic that it meets, in the same transaction.
    """
    parts: dict[tuple[int, str], Part] = {}
    with ExitStack() as stack:
        stack.enter_context(translated())
        senders: dict[int, _Sender] = {}
        for shard, topic, batch in _routed(batches, rows, options):
            sender = senders.get(shard)
            if sender is None:
                # Only now: the rows may take hours to come, and many a task has none.
                connection = stack.enter_context(options.connect(shard))
                stack.enter_context(connection.transaction())
                senders[shard] = sender = _Sender(connection, rows, options, task)
            part = parts.get((shard, topic))
            if part is None:
                part = Part(shard, topic, sender.begin(topic), 0, 0)
            parts[shard, topic] = replace(
                part,
                rows=part.rows + batch.num_rows,
                checksums=part.checksums + checksum(batch.column(0)),
            )
            sender.send(part.write_id, batch)
        for sender in senders.values():
            sender.finish()
    return list(parts.values())


def _routed(
    batches: Iterator[pyarrow.RecordBatch], rows: Targeted, options: WriterOptions
) -> Iterator[tuple[int, str, pyarrow.RecordBatch]]:
    """The rows of each topic, or of the queue, with the number of the database they go to."""
    targeted = (
        (topic, part) for batch in batches if batch.num_rows for topic, part in rows.by_topic(batch)
    )
    if options.is_spread:
        yield from Router(len(options.conninfos), options.chunk_rows, options.chunk_bytes).routed(
            targeted
        )
    else:
        yield from ((0, topic, part) for topic, part in targeted)


class _Sender:
    """Makes chunks of rows, and numbers them for each write; the last one is held back."""

    def __init__(
        self, connection: psycopg.Connection[Any], rows: Targeted, options: WriterOptions, task: int
    ) -> None:
        self._connection = connection
        self._options = options
        self._cursor = connection.cursor()
        register(self._cursor)
        self._pack: Callable[[Iterator[Any]], Iterator[Any]] = packer(
            "",
            packed_contents=rows.packed_contents,
            chunk_rows=options.chunk_rows,
            chunk_bytes=options.chunk_bytes,
        )
        self._contents = rows.packed_contents
        self._common = {
            "task": task,
            "task_attempt": str(uuid.uuid4()),
            "delay": options.delay,
            "priority": options.priority,
        }
        self._waiting: dict[str, dict[str, Any]] = {}

    def begin(self, target: str) -> str:
        """Begin a write of the task's own to a topic, or to the queue."""
        is_topic = self._options.queue is None
        topic, queue = (target, None) if is_topic else (None, target)
        return begin_write(self._connection, self._options, topic=topic, queue=queue).write_id

    def send(self, write_id: str, part: pyarrow.RecordBatch) -> None:
        """Send the chunks of these rows but the last."""
        for packed in self._pack(iter((part,))):
            earlier = self._waiting.get(write_id)
            if earlier is not None:
                self._execute(earlier)
            number = 0 if earlier is None else earlier["chunk"] + 1
            self._waiting[write_id] = {
                **self._common,
                "write_id": write_id,
                "chunk": number,
                "last_chunk": False,
                **self._columns(packed),
            }

    def finish(self) -> None:
        """Send the last chunk of each write."""
        for last in self._waiting.values():
            self._execute({**last, "last_chunk": True})

    def _execute(self, parameters: dict[str, Any]) -> None:
        self._cursor.execute(_CHUNK, parameters)

    def _columns(self, packed: pyarrow.RecordBatch) -> dict[str, Any]:
        """The columns of a chunk, as psycopg sends them."""
        columns = dict(zip(packed.schema.names, packed.columns, strict=True))

        def texts(name: str) -> Texts | None:
            return Texts(columns[name].values) if name in columns else None

        return {
            "lengths": Integers(columns["lengths"].values),
            "starts": Integers(columns["starts"].values),
            "packed_payloads": None,
            "packed_bodies": None,
            self._contents: memoryview(columns[self._contents][0].as_buffer()),
            "keys": texts("keys"),
            "headers": texts("headers"),
            "labels": texts("labels"),
            "partition": columns["partition"][0].as_py() if "partition" in columns else None,
        }
