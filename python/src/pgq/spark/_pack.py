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


def schema(
    columns: list[str], *, packed_contents: str, checked: bool = False, summed: bool = False
) -> str:
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
    parts += ["refused string"] if checked else []
    parts += ["rows int", "total bigint"] if summed else []
    return ", ".join(parts)


def packer(
    write_id: str,
    *,
    packed_contents: str,
    chunk_rows: int,
    chunk_bytes: int,
    delay: str | None = None,
    priority: int | None = None,
    check: Callable[[Any], dict[int, str]] | None = None,
    summed: Callable[[Any], int] | None = None,
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    """The function for mapInArrow: record batches of rows in, record batches of one chunk out.

    It is sent to the workers as it is, so it uses nothing of this package, which they need not
    have. The chunks of a task depend on its rows, on their order, and on how Spark cuts
    them into record batches (``spark.sql.execution.arrow.maxRecordsPerBatch``).

    check: finds rows that the database would refuse. What is wrong then stands in a column
    ``refused``, in a chunk of its own that is not for the database, and the task ends.

    summed: the sum of the checksums of rows. Each chunk has it, and how many rows there are, in the
    columns ``total`` and ``rows``, which are not for the database either.

    A column ``number`` of the rows becomes ``numbers`` of the chunk, for the same.
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
        from bisect import bisect_right

        contents, size = batch.column(0), batch.num_rows
        place = contents.offset
        # where each content begins, and the last one ends
        bounds = memoryview(contents.buffers()[1]).cast("i")[place : place + size + 1]
        start = 0
        while start < size:
            fitting = bisect_right(bounds, bounds[start] + chunk_bytes, start, size + 1) - 1
            end = max(start + 1, min(start + chunk_rows, fitting))
            yield batch if end - start == size else batch.slice(start, end - start)
            start = end

    def packed(contents: Any) -> tuple[Any, Any]:
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
        return pa.py_buffer(b"") if data is None else data.slice(first, end - first), starts

    def one(content: Any) -> Any:
        # a column of one value, which is not copied
        from array import array

        import pyarrow as pa

        bounds = pa.py_buffer(array("i", [0, content.size]))
        return pa.Array.from_buffers(pa.binary(), 1, [None, bounds, content])

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
                packed_contents: one(content),
                "delay": pa.array([delay], pa.string()),
                "priority": pa.array([priority], pa.int32()),
                "last_chunk": pa.array([last_chunk]),
                "starts": listed(starts, pa.int32()),
            }
            for column, name in lists.items():
                place = rows.schema.get_field_index(column)
                if place >= 0:
                    columns[name] = listed(rows.column(place), pa.string())
            place = rows.schema.get_field_index("number")
            if place >= 0:
                columns["numbers"] = listed(rows.column(place), pa.int64())
            if "partition" in rows.schema.names:
                columns["partition"] = pa.array([partition], pa.int32())
            if check is not None:
                columns["refused"] = pa.array([None], pa.string())
            if summed is not None:
                columns["rows"] = pa.array([size], pa.int32())
                columns["total"] = pa.array([summed(rows)], pa.int64())
            return pa.RecordBatch.from_pydict(columns)

        def refusal(batch: Any, seen: int) -> Any:
            bad = check(batch) if check is not None else {}
            if not bad:
                return None
            first = min(bad)
            # only the text counts: the row itself cannot be packed
            whole = chunk(batch.slice(0, 0), None, False)
            said = f"row {seen + first + 1} of task {task}: {bad[first]}"
            place = whole.schema.get_field_index("refused")
            return whole.set_column(place, "refused", pa.array([said]))

        seen = 0
        waiting: tuple[Any, int | None] | None = None
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if check is None and batch.column(0).null_count:
                raise ValueError(
                    "a message must not be null: the column value or payload has nulls"
                )
            narrow = batch.set_column(
                0, pa.field("content", pa.binary()), batch.column(0).cast(pa.binary())
            )
            refused = refusal(narrow, seen)
            if refused is not None:
                yield refused
                for _ in batches:
                    pass
                return
            seen += batch.num_rows
            for partition, part in pieces(narrow):
                for rows in cut(part):
                    if waiting is not None:
                        yield chunk(*waiting, False)
                        number += 1
                    waiting = (rows, partition)
        if waiting is not None:
            yield chunk(*waiting, True)

    return pack
