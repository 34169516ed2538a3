"""Rows become chunks: many messages in one row, the form in which they travel to the database.

A chunk holds the contents of its messages one behind the other, with their lengths. Arrow keeps
columns of bytes in just that form, so making a chunk is little more than cutting a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

__all__ = ["packer", "schema"]

# The optional columns of the rows, and what they are in a chunk.
_LISTS = {"key": "keys", "headers": "headers", "label": "labels"}


def schema(columns: list[str], *, packed_contents: str) -> str:
    """The columns of write_chunks that the packer fills for rows with these columns.

    packed_contents: the one that gets the contents, packed_payloads (JSON) or packed_bodies.
    """
    parts = [
        "write_id string",
        "task int",
        "task_attempt string",
        "chunk int",
        "lengths array<int>",
        f"{packed_contents} binary",
        "delay string",
        "priority int",
        "last_chunk boolean",
        "starts array<int>",
    ]
    parts += [f"{name} array<string>" for column, name in _LISTS.items() if column in columns]
    parts += ["partition int"] if "partition" in columns else []
    return ", ".join(parts)


def packer(
    write_id: str,
    *,
    packed_contents: str,
    chunk_rows: int,
    chunk_bytes: int,
    delay: str | None = None,
    priority: int | None = None,
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    """The function for mapInArrow: record batches of rows in, record batches of one chunk out.

    It is sent to the workers as it is, so it uses nothing of this package, which they need not
    have. The chunks of a task depend on its rows, on their order, and on how Spark cuts
    them into record batches (``spark.sql.execution.arrow.maxRecordsPerBatch``).
    """

    lists = dict(_LISTS)

    def pieces(batch: Any) -> Iterator[tuple[int | None, Any]]:
        # the rows of each partition that is named, in their order
        import pyarrow.compute as pc

        if "partition" not in batch.schema.names:
            yield None, batch
            return
        column = batch.column(batch.schema.get_field_index("partition"))
        for value in sorted(pc.unique(column).to_pylist(), key=lambda p: (p is not None, p or 0)):
            mask = pc.is_null(column) if value is None else pc.equal(column, value)
            yield value, batch.filter(mask)

    def cut(batch: Any) -> Iterator[Any]:
        # so many rows that neither limit is passed, but one row at least
        import pyarrow.compute as pc

        contents = batch.column(0)
        whole = pc.sum(pc.binary_length(contents)).as_py() or 0
        if batch.num_rows <= chunk_rows and whole <= chunk_bytes:
            yield batch
            return
        lengths = pc.binary_length(contents).to_pylist()
        start = size = 0
        for place, length in enumerate(lengths):
            if place > start and (place - start >= chunk_rows or size + length > chunk_bytes):
                yield batch.slice(start, place - start)
                start, size = place, 0
            size += length
        yield batch.slice(start)

    def packed(contents: Any) -> tuple[bytes, Any]:
        # Arrow's own buffers: the bytes from the first value to the last, and where each begins
        import pyarrow as pa
        import pyarrow.compute as pc

        size = len(contents)
        _, offsets, data = contents.buffers()
        places = pa.Array.from_buffers(
            pa.int32(), size + 1, [None, offsets], offset=contents.offset
        )
        first, end = places[0].as_py(), places[size].as_py()
        starts = pc.subtract(places.slice(0, size), first - 1)
        return b"" if data is None else bytes(memoryview(data)[first:end]), starts

    def pack(batches: Iterator[Any]) -> Iterator[Any]:
        import uuid

        import pyarrow as pa
        import pyarrow.compute as pc
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("chunks are made in a task of Spark")
        task = context.partitionId()
        attempt = str(uuid.uuid4())
        number = 0

        def chunk(rows: Any, partition: int | None, last_chunk: bool) -> Any:
            contents = rows.column(0)
            size = rows.num_rows

            content, starts = packed(contents)

            def listed(values: Any, kind: Any) -> Any:
                return pa.ListArray.from_arrays(pa.array([0, size], pa.int32()), values.cast(kind))

            columns = {
                "write_id": pa.array([write_id]),
                "task": pa.array([task], pa.int32()),
                "task_attempt": pa.array([attempt]),
                "chunk": pa.array([number], pa.int32()),
                "lengths": listed(pc.binary_length(contents), pa.int32()),
                packed_contents: pa.array([content], pa.binary()),
                "delay": pa.array([delay], pa.string()),
                "priority": pa.array([priority], pa.int32()),
                "last_chunk": pa.array([last_chunk]),
                "starts": listed(starts, pa.int32()),
            }
            for column, name in lists.items():
                place = rows.schema.get_field_index(column)
                if place >= 0:
                    columns[name] = listed(rows.column(place), pa.string())
            if "partition" in rows.schema.names:
                columns["partition"] = pa.array([partition], pa.int32())
            return pa.RecordBatch.from_pydict(columns)

        waiting: tuple[Any, int | None] | None = None
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if batch.column(0).null_count:
                raise ValueError(
                    "a message must not be null: the column value or payload has nulls"
                )
            narrow = batch.set_column(
                0, pa.field("content", pa.binary()), batch.column(0).cast(pa.binary())
            )
            for partition, part in pieces(narrow):
                for rows in cut(part):
                    if waiting is not None:
                        yield chunk(*waiting, False)
                        number += 1
                    waiting = (rows, partition)
        if waiting is not None:
            yield chunk(*waiting, True)

    return pack
