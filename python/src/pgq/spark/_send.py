"""What a task of the data source ``pgq`` writes: its rows as chunks, staged in one transaction."""

from __future__ import annotations

import uuid
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from pgq.errors import translated
from pgq.spark._bad_rows import bad_rows
from pgq.spark._digest import summer
from pgq.spark._encode import Integers, Texts, register
from pgq.spark._pack import packer
from pgq.spark._refusals import RowRefused, checker
from pgq.spark._retry import Patience, is_lost
from pgq.spark._route import Router
from pgq.spark._write_options import Attempt, WriterOptions

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import LiteralString

__all__ = ["Part", "State", "begin_write", "commit_write", "send"]

KEPT_BYTES = 64 << 20
"""What a task has sent is kept up to this size, so as to send it again over another connection."""

_BEGIN = """
select write_id, messages, committed_at, duplicate, max_message_bytes
from pgq.begin_write(
    topic => %(topic)s::text,
    queue => %(queue)s::text,
    producer => %(producer)s::text,
    seq => %(seq)s::bigint,
    timeout => %(timeout)s::interval,
    owner => %(owner)s::text
)
"""

_ABORT_EARLIER = "select pgq.abort_write(owner => %s::text, seq => %s::bigint)"

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
    max_message_bytes: int | None = None
    """The largest content that its target takes."""


def begin_write(
    connection: psycopg.Connection[Any],
    options: WriterOptions,
    *,
    topic: str | None = None,
    queue: str | None = None,
    producer: str | None = None,
    seq: int | None = None,
    owner: str | None = None,
) -> State:
    """Begin a write."""
    parameters = {
        "topic": topic,
        "queue": queue,
        "producer": producer,
        "seq": seq,
        "timeout": options.timeout,
        "owner": owner,
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
    """The sum of the checksums of the rows; 0 where nobody asks for it."""


class Targeted(Protocol):
    """Rows that know where they go."""

    json_column: str | None
    """The column whose JSON is the content; None where that is bytes."""

    def checked(self, batch: pyarrow.RecordBatch) -> tuple[pyarrow.RecordBatch, dict[int, str]]:
        """The rows with the content first, and the places of those that are refused, and why."""

    def by_topic(self, rows: pyarrow.RecordBatch) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
        """The checked rows for each topic, or for the queue, as the packer takes them."""


def send(
    batches: Iterator[pyarrow.RecordBatch],
    rows: Targeted,
    options: WriterOptions,
    task: int,
    attempt: Attempt | None = None,
) -> list[Part]:
    """Stage the rows of a task, all or nothing; in each database in one transaction.

    The task begins a write for each topic that it meets, in the same transaction.
    """
    counted: dict[tuple[int, str], tuple[int, int]] = {}
    # only what has a name is compared when it is repeated
    total = summer() if attempt is not None and options.check_repeated else lambda batch: 0
    with ExitStack() as stack:
        stack.enter_context(translated())
        senders: dict[int, _Sender] = {}
        for shard, topic, batch in _routed(batches, rows, options, task):
            if shard not in senders:
                senders[shard] = _Sender(rows, options, shard, task, attempt)
                stack.callback(senders[shard].close)
            count, checksums = counted.get((shard, topic), (0, 0))
            counted[shard, topic] = count + batch.num_rows, checksums + total(batch)
            senders[shard].send(topic, batch)
        for sender in senders.values():
            sender.finish()
    return [
        Part(shard, topic, senders[shard].write_ids[topic], *counts)
        for (shard, topic), counts in counted.items()
    ]


def _routed(
    batches: Iterator[pyarrow.RecordBatch], rows: Targeted, options: WriterOptions, task: int
) -> Iterator[tuple[int, str, pyarrow.RecordBatch]]:
    """The rows of each topic, or of the queue, with the number of the database they go to."""
    targeted = _targeted(batches, rows, options, task)
    if options.is_spread:
        yield from Router(len(options.conninfos), options.chunk_rows, options.chunk_bytes).routed(
            targeted
        )
    else:
        yield from ((0, topic, part) for topic, part in targeted)


def _targeted(
    batches: Iterator[pyarrow.RecordBatch], rows: Targeted, options: WriterOptions, task: int
) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
    """The rows of each topic, or of the queue, with their numbers in the task."""
    import pyarrow as pa

    seen = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        checked, refused = rows.checked(batch)
        numbers = array("q", range(seen + 1, seen + 1 + batch.num_rows))
        seen += batch.num_rows
        counts = pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
        checked = checked.append_column("number", counts)
        if refused:
            if options.bad_rows_topic is None:
                first = min(refused)
                raise RowRefused(f"row {numbers[first]} of task {task}: {refused[first]}")
            yield options.bad_rows_topic, bad_rows(checked, refused, options, task)
            good = [place not in refused for place in range(batch.num_rows)]
            checked = checked.filter(pa.array(good, pa.bool_()))
        if checked.num_rows:
            yield from rows.by_topic(checked)


class _Sender:
    """Stages chunks in a database, in one transaction, which is begun again when it is lost.

    Chunks are numbered for each write; the last one is held back.
    """

    def __init__(
        self,
        rows: Targeted,
        options: WriterOptions,
        shard: int,
        task: int,
        attempt: Attempt | None,
    ) -> None:
        self._options = options
        self._attempt = attempt
        self._shard = shard
        self._json_column = rows.json_column
        self._common = {
            "task": task,
            "task_attempt": str(uuid.uuid4()),
            "delay": options.delay,
            "priority": options.priority,
        }
        self._connection: psycopg.Connection[Any] | None = None
        self._waiting: dict[str, dict[str, Any]] = {}
        self._sent: list[tuple[str, dict[str, Any]]] = []
        self._room = KEPT_BYTES
        self._most_bytes: dict[str, int | None] = {}
        self.write_ids: dict[str, str] = {}
        """The write of the task's own to each topic, or to the queue."""

    def send(self, target: str, part: pyarrow.RecordBatch) -> None:
        """Send the chunks of these rows but the last."""
        contents = self._contents_of(target)
        pack = packer(
            "",
            packed_contents=contents,
            chunk_rows=self._options.chunk_rows,
            chunk_bytes=self._options.chunk_bytes,
        )
        for packed in pack(iter((part,))):
            earlier = self._waiting.get(target)
            if earlier is not None:
                self._stage(target, earlier)
            number = 0 if earlier is None else earlier["chunk"] + 1
            self._room -= packed.nbytes
            self._waiting[target] = {
                **self._common,
                "chunk": number,
                "last_chunk": False,
                "packed": packed,
                **_columns(packed, contents),
            }

    def finish(self) -> None:
        """Send the last chunk of each write, and commit."""
        for target, last in self._waiting.items():
            self._stage(target, {**last, "last_chunk": True})
        self._persistently(lambda connection: connection.commit())

    def close(self) -> None:
        """Undo what was not committed."""
        if self._connection is not None:
            self._connection.close()

    def _stage(self, target: str, chunk: dict[str, Any]) -> None:
        self._persistently(lambda connection: self._execute(connection, target, chunk))
        if self._room >= 0:
            self._sent.append((target, chunk))
        else:
            self._sent.clear()  # Spark runs the task again

    def _persistently(self, step: Callable[[psycopg.Connection[Any]], None]) -> None:
        """Take a step of the transaction; where that is lost, another one is brought up to it."""
        patience = Patience(self._options.retry)
        while True:
            try:
                if self._connection is None:
                    # Only now: the rows may take hours to come, and many a task has none.
                    self._connection = self._options.connect(self._shard)
                    if self._attempt is not None:
                        # In a transaction of its own: neither other tasks nor the commit of an
                        # earlier attempt that is still alive must wait for the end of this task.
                        self._connection.execute(_ABORT_EARLIER, self._attempt)
                    self._connection.autocommit = False
                    self.write_ids.clear()
                    for target, chunk in self._sent:
                        self._execute(self._connection, target, chunk)
                step(self._connection)
                return
            except psycopg.OperationalError as error:
                if self._connection is None or not is_lost(error, self._connection):
                    raise
                if self._room < 0 or not patience.again(error):
                    raise
                self._connection = None

    def _execute(
        self, connection: psycopg.Connection[Any], target: str, chunk: dict[str, Any]
    ) -> None:
        if target not in self.write_ids:
            is_topic = self._options.queue is None or target == self._options.bad_rows_topic
            topic, queue = (target, None) if is_topic else (None, target)
            owner, seq = self._attempt or (None, None)
            begun = begin_write(
                connection, self._options, topic=topic, queue=queue, owner=owner, seq=seq
            )
            self.write_ids[target] = begun.write_id
            self._most_bytes[target] = begun.max_message_bytes
        with connection.cursor() as cursor:
            register(cursor)
            try:
                cursor.execute(_CHUNK, {**chunk, "write_id": self.write_ids[target]})
            except (psycopg.DataError, psycopg.errors.StatementTooComplex) as error:
                task = chunk["task"]
                found = self._refused(target, chunk["packed"])
                if found is not None:
                    raise RowRefused(f"row {found[0]} of task {task}: {found[1]}") from error
                if isinstance(error, psycopg.errors.InvalidParameterValue):
                    # of a chunk that is too large, say: another try of the task would not help
                    told = f"{error.diag.message_primary}. {error.diag.message_detail or ''}"
                    raise RowRefused(f"task {task}: {told.strip()}") from error
                raise

    def _contents_of(self, target: str) -> str:
        """What the contents are in a chunk."""
        is_json = self._json_column is not None and target != self._options.bad_rows_topic
        return "packed_payloads" if is_json else "packed_bodies"

    def _refused(self, target: str, packed: pyarrow.RecordBatch) -> tuple[int, str] | None:
        """The first row of a chunk that the database refused: its number in the task, and why."""
        import pyarrow as pa

        columns = dict(zip(packed.schema.names, packed.columns, strict=True))
        contents = self._contents_of(target)
        held = columns[contents][0].as_buffer()
        bounds = zip(
            columns["starts"].values.to_pylist(), columns["lengths"].values.to_pylist(), strict=True
        )
        parts = [held[start - 1 : start - 1 + size].to_pybytes() for start, size in bounds]
        rows = {"content": pa.array(parts, pa.binary())}
        if "headers" in columns:
            rows["headers"] = columns["headers"].values
        json_column = self._json_column if contents == "packed_payloads" else None
        found = checker(json_column, strict=True, most_bytes=self._most_bytes[target])(
            pa.RecordBatch.from_pydict(rows)
        )
        if not found:
            return None
        return columns["numbers"].values[min(found)].as_py(), found[min(found)]


def _columns(packed: pyarrow.RecordBatch, contents: str) -> dict[str, Any]:
    """The columns of a chunk, as psycopg sends them."""
    columns = dict(zip(packed.schema.names, packed.columns, strict=True))

    def texts(name: str) -> Texts | None:
        return Texts(columns[name].values) if name in columns else None

    return {
        "lengths": Integers(columns["lengths"].values),
        "starts": Integers(columns["starts"].values),
        "packed_payloads": None,
        "packed_bodies": None,
        contents: memoryview(columns[contents][0].as_buffer()),
        "keys": texts("keys"),
        "headers": texts("headers"),
        "labels": texts("labels"),
        "partition": columns["partition"][0].as_py() if "partition" in columns else None,
    }
