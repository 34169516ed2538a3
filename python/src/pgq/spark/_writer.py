"""Writing by the data source ``pgq``: ``write.format("pgq")`` and ``writeStream.format("pgq")``.

As atomic as ``Pgq.publish``: tasks stage their rows, and a transaction of the driver commits them.
Each attempt of a task begins writes of its own, one for each topic, and tells the driver, which
commits those of the attempts that Spark says have succeeded. No other attempt may count: when the
rows of a task break off on Spark's side, they seem to have come to their end in Python, and what
such an attempt commits is a part.

Spark tells a stream's writer the number of a micro-batch only when it is to be committed. So what
is staged has no name; the name is that of an empty write, begun and committed in the transaction of
the driver, which refuses to be committed twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import MapType, StructType

from pgq.spark._commit import abort_tasks, commit_tasks
from pgq.spark._refusals import RowRefused
from pgq.spark._rows import Rows
from pgq.spark._send import send
from pgq.spark._staged import Staged
from pgq.spark._write_options import Attempt, WriterOptions

if TYPE_CHECKING:
    import pyarrow

__all__ = ["BatchWriter", "stream_writer"]

_QUERY = "sql.streaming.queryId"
"""Where Spark tells tasks the id that a query has in its checkpoint."""

_BATCH = "streaming.sql.batchId"
"""Where Spark tells tasks the number of a micro-batch."""

# from Spark 4.1 on
StreamArrowWriter: Any = getattr(datasource, "DataSourceStreamArrowWriter", object)


class _Writer:
    """What both writers do alike."""

    def __init__(self, options: WriterOptions, schema: StructType) -> None:
        self._options = options
        # Spark makes the writer on the driver, once for each attempt to run a job, and sends it
        # to all tasks.
        self._started = time.time_ns()
        self._rows = Rows(
            schema,
            topic=options.topic,
            queue=options.queue,
            value_is_json=options.value_is_json,
            is_spread=options.is_spread,
            is_strict=options.bad_rows_topic is not None,
        )

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        context = TaskContext.get()
        assert context is not None
        task, query = context.partitionId(), context.getLocalProperty(_QUERY)
        try:
            parts = send(iterator, self._rows, self._options, task, self._attempt(context))
        except RowRefused as refused:
            # told by the driver: an error of a task is one that Spark tries again
            for _ in iterator:
                pass
            return Staged(task, (), query, str(refused))
        return Staged(task, tuple(parts), query)

    def _attempt(self, context: TaskContext) -> Attempt | None:
        """The attempt to run the job; None where the job has no name."""
        raise NotImplementedError


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes a DataFrame."""

    def _attempt(self, context: TaskContext) -> Attempt | None:
        return self._options.attempt(self._started)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all rows visible."""
        options, staged = self._options, _complete(messages)
        rows = sum(part.rows for task in staged for part in task.parts)
        if options.expected_messages not in (None, rows):
            raise ValueError(
                f"'expectedMessages' is {options.expected_messages}, but there are {rows}"
            )
        commit_tasks(options, options.producer, options.seq, staged)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged; what is not removed now, cleanup removes."""
        abort_tasks(self._options, _staged(messages))


class _StreamWriter(_Writer):
    """Writes the micro-batches of a stream."""

    def _attempt(self, context: TaskContext) -> Attempt | None:
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            return None
        return Attempt(f"{query} {batch}", self._started)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make the rows of a batch visible, unless it was committed before."""
        staged = _complete(messages)
        producer = self._options.producer or next((message.query for message in staged), None)
        commit_tasks(self._options, producer, batchId, staged)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what was staged; what is not removed now, cleanup removes."""
        abort_tasks(self._options, _staged(messages))


class RowStreamWriter(_StreamWriter, DataSourceStreamWriter):
    """For Spark before 4.1, whose streams hand over rows: these are put into Arrow's form again."""

    def __init__(self, options: WriterOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._schema = schema

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        return super().write(self._batches(iterator))

    def _batches(self, rows: Iterator[Any]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._schema)
        maps = [field.name for field in self._schema if isinstance(field.dataType, MapType)]
        while part := list(islice(rows, self._options.chunk_rows)):
            found = [row.asDict(recursive=True) for row in part]
            for row, name in product(found, maps):
                # as Arrow has maps
                row[name] = None if row[name] is None else list(row[name].items())
            yield pa.RecordBatch.from_pylist(found, schema)


class ArrowStreamWriter(_StreamWriter, StreamArrowWriter):  # type: ignore[misc]
    """Writes the micro-batches of a stream, as Arrow has them."""


def stream_writer(options: WriterOptions, schema: StructType) -> DataSourceStreamWriter:
    """The writer for the Spark that is there."""
    if StreamArrowWriter is object:
        return RowStreamWriter(options, schema)
    writer: DataSourceStreamWriter = ArrowStreamWriter(options, schema)
    return writer


def _complete(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """The same of a write that is to be committed: no row is refused."""
    staged = sorted(_staged(messages), key=lambda message: message.task)
    for message in staged:
        if message.refused is not None:
            raise RowRefused(message.refused)
    return staged


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """What the tasks told; Spark has nothing of a task that failed."""
    return [message for message in messages if isinstance(message, Staged)]
